package cli

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

const defaultLimit = 50

// unpaged is the limit of lists that the server always gives whole.
const unpaged = math.MaxInt

// filter is a flag of a list: the parameter of the API with the same name, which
// may be given several times unless it is single.
type filter struct {
	name, help string
	single     bool
}

// listCommand is a command that lists what is at path, with the filters that the
// API has for it.
func listCommand[T any](s *session, short, path, header string, row func(T) []string, filters ...filter) *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "list", Short: short, Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usagef("--limit: must be at least 1")
			}
			return printList(cmd.Context(), s, path, query(cmd, filters), limit, header, row)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", defaultLimit, "most items to list")
	for _, f := range filters {
		if f.single {
			cmd.Flags().String(f.name, "", f.help)
		} else {
			cmd.Flags().StringSlice(f.name, nil, f.help)
		}
	}
	return cmd
}

// query returns the filters that were given.
func query(cmd *cobra.Command, filters []filter) url.Values {
	q := url.Values{}
	for _, f := range filters {
		values, err := cmd.Flags().GetStringSlice(f.name)
		if err != nil { // it is single
			values = []string{cmd.Flag(f.name).Value.String()}
		}
		if strings.Join(values, "") != "" {
			q[strings.ReplaceAll(f.name, "-", "_")] = values
		}
	}
	return q
}

// printList fetches and prints one list.
func printList[T any](ctx context.Context, s *session, path string, query url.Values, limit int, header string, row func(T) []string) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	p, err := c.list(ctx, path, query, limit)
	if err != nil {
		return err
	}
	return printPage(s, p, header, row)
}

// fetch sends one request. The answer is printed as it came with --json, else
// show prints it.
func fetch[T any](ctx context.Context, s *session, r request, show func(T) error) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.call(ctx, r, &raw); err != nil {
		return err
	}
	if s.json {
		return s.printJSON(raw)
	}
	answer, err := understand[T](raw)
	if err != nil {
		return err
	}
	return show(answer)
}

// at puts the id of an object into a path.
func at(path, id string) string { return strings.Replace(path, "ID", url.PathEscape(id), 1) }

// showCommand prints the object at path.
func (s *session) showCommand(use, short, path string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return fetch(cmd.Context(), s, request{method: http.MethodGet, path: at(path, args[0])}, s.printIndented)
		},
	}
}

// actionCommand does one thing, which is a method and a path, to each id. It
// prints the id and what was done.
func (s *session) actionCommand(use, action, short, done string) *cobra.Command {
	method, path, _ := strings.Cut(action, " ")
	return &cobra.Command{
		Use: use, Short: short, Args: wantArgs(1, -1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			return s.each(ids, func(id string) error {
				r := request{method: method, path: at(path, id)}
				if method == http.MethodPost {
					r.body = struct{}{}
				}
				var raw json.RawMessage
				if err := c.call(cmd.Context(), r, &raw); err != nil {
					return err
				}
				if s.json && len(raw) > 0 {
					return s.printJSON(raw)
				}
				return s.print(map[string]string{"id": id}, "", "%s %s\n", id, done)
			})
		},
	}
}
