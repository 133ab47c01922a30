package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

func (s *session) policiesCommand() *cobra.Command {
	return kit.Group("policies", "Save policies by name, for tenants and endpoints to start from",
		s.policiesCreate(),
		kit.ListCommand(s.Session, "List the policies that were saved by name", "v1/policies", "NAME TENANTS ENDPOINTS CHANGED DESCRIPTION", func(p view.NamedPolicy) []string {
			return []string{
				p.Name, strconv.FormatInt(p.UsedBy.Tenants, 10), strconv.FormatInt(p.UsedBy.Endpoints, 10), kit.Clock(p.UpdatedAt), kit.Dash(p.Description),
			}
		}),
		s.ShowCommand("get NAME", "Show a policy", "v1/policies/ID"),
		s.ActionCommand("delete NAME...", "DELETE v1/policies/ID", "Delete policies that nothing uses", "deleted"),
	)
}

func (s *session) policiesCreate() *cobra.Command {
	var in struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Policy      json.RawMessage `json:"policy"`
	}
	var file string
	cmd := &cobra.Command{
		Use: "create NAME --file FILE", Short: "Save a policy, YAML or JSON, by name", Args: kit.WantArgs(1, 1),
		Example: "  breakwater policies create gentle --file gentle.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := readPolicyFile(cmd.InOrStdin(), file)
			if err != nil {
				return err
			}
			if in.Policy, err = sim.PolicyJSON(data); err != nil {
				return kit.Usagef("--file: %w", err)
			}
			in.Name = args[0]
			return kit.Fetch(cmd.Context(), s.Session, kit.Request{Method: http.MethodPost, Path: "v1/policies", Body: in}, func(p view.NamedPolicy) error {
				for _, w := range p.Warnings {
					s.Note("warning: %s", w)
				}
				return s.Printf("%s\n", p.Name)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "file with the policy; - for standard input")
	cmd.Flags().StringVar(&in.Description, "description", "", "what it is for")
	return cmd
}

func readPolicyFile(stdin io.Reader, file string) ([]byte, error) {
	var data []byte
	var err error
	switch file {
	case "":
		return nil, kit.Usagef("--file: name the file of the policy, YAML or JSON; - for standard input")
	case "-":
		data, err = io.ReadAll(io.LimitReader(stdin, 1<<20))
	default:
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, kit.Usagef("--file: %w", err)
	}
	return data, nil
}
