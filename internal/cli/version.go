package cli

import (
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for releases.
var version = ""

// Version returns the version of this binary.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

func (s *session) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show the version of this binary", Args: wantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if s.json {
				return s.printJSON(map[string]string{
					"version": Version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
				})
			}
			if s.quiet {
				return s.printf("%s\n", Version())
			}
			return s.printf("breakwater %s (%s, %s/%s)\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}

func (s *session) healthCommand() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use: "health", Short: "Ask a server whether it is alive, or ready for work", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			path := "livez"
			if ready {
				path = "readyz"
			}
			c.key = "" // neither needs one
			if err := c.call(cmd.Context(), request{method: http.MethodGet, path: path}, nil); err != nil {
				return &unreachableError{err}
			}
			if s.quiet {
				return nil
			}
			return s.printf("ok\n")
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask for readiness: store, migrations, leases")
	return cmd
}
