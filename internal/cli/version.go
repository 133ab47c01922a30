package cli

import (
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
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
		Use: "version", Short: "Show the version of this binary", Args: kit.WantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error { return s.printVersion() },
	}
}

func (s *session) printVersion() error {
	document := map[string]string{"version": Version(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	return s.Print(document, Version()+"\n", "breakwater %s (%s, %s/%s)\n", Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func (s *session) healthCommand() *cobra.Command {
	var ready bool
	cmd := &cobra.Command{
		Use: "health", Short: "Ask a server whether it is alive, or ready for work", Args: kit.WantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.Client()
			if err != nil {
				return err
			}
			path := "livez"
			if ready {
				path = "readyz"
			}
			c = c.WithoutKey()
			if err := c.Call(cmd.Context(), kit.Request{Method: http.MethodGet, Path: path}, nil); err != nil {
				return kit.Unreachable(err)
			}
			return s.Print(map[string]bool{"ok": true}, "", "ok\n")
		},
	}
	cmd.Flags().BoolVar(&ready, "ready", false, "ask for readiness: store, migrations, leases")
	return cmd
}
