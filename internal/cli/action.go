package cli

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

const defaultLimit = 50

func limitFlag(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", defaultLimit, "most items to list")
}

// unpaged is the limit of lists that the server always gives whole.
const unpaged = math.MaxInt

// listCommand fetches and prints one list.
func listCommand[T any](s *session, cmd *cobra.Command, path string, query url.Values, limit int, header string, row func(T) []string) error {
	if limit < 1 {
		return usagef("--limit: must be at least 1")
	}
	c, err := s.client()
	if err != nil {
		return err
	}
	p, err := c.list(cmd.Context(), path, query, limit)
	if err != nil {
		return err
	}
	return printPage(s, p, header, row)
}

// showCommand prints one object below path.
func (s *session) showCommand(use, short, path string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.call(cmd.Context(), request{method: http.MethodGet, path: path + url.PathEscape(args[0])}, &raw); err != nil {
				return err
			}
			return s.printRaw(raw)
		},
	}
}

// actionCommand does one thing to each id and prints the id and what was done.
func (s *session) actionCommand(use, short, done string, build func(id string) request) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: wantArgs(1, -1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			return s.each(ids, func(id string) error {
				var raw json.RawMessage
				if err := c.call(cmd.Context(), build(id), &raw); err != nil {
					return err
				}
				switch {
				case s.json && len(raw) > 0:
					return s.printJSON(raw)
				case s.json:
					return s.printJSON(map[string]string{"id": id})
				case s.quiet:
					return nil
				default:
					return s.printf("%s %s\n", id, done)
				}
			})
		},
	}
}
