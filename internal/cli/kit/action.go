package kit

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// DefaultLimit is how much a list shows unless it is told otherwise.
const DefaultLimit = 50

// Unpaged is the limit of lists that the server always gives whole.
const Unpaged = math.MaxInt

// Filter is a flag of a list: the parameter of the API with the same name, which
// may be given several times unless it is single.
type Filter struct {
	Name, Help string
	Single     bool
}

// ListCommand is a command that lists what is at path, with the filters that the
// API has for it.
func ListCommand[T any](s *Session, short, path, header string, row func(T) []string, filters ...Filter) *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "list", Short: short, Args: WantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return Usagef("--limit: must be at least 1")
			}
			return PrintList(cmd.Context(), s, path, Query(cmd, filters), limit, header, row)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", DefaultLimit, "most items to list")
	AddFilters(cmd, filters)
	return cmd
}

// AddFilters adds the flags of filters.
func AddFilters(cmd *cobra.Command, filters []Filter) {
	for _, f := range filters {
		if f.Single {
			cmd.Flags().String(f.Name, "", f.Help)
		} else {
			cmd.Flags().StringSlice(f.Name, nil, f.Help)
		}
	}
}

// Query returns the filters that were given.
func Query(cmd *cobra.Command, filters []Filter) url.Values {
	q := url.Values{}
	for _, f := range filters {
		values, err := cmd.Flags().GetStringSlice(f.Name)
		if err != nil { // it is single
			values = []string{cmd.Flag(f.Name).Value.String()}
		}
		if strings.Join(values, "") != "" {
			q[strings.ReplaceAll(f.Name, "-", "_")] = values
		}
	}
	return q
}

// PrintList fetches and prints one list.
func PrintList[T any](ctx context.Context, s *Session, path string, query url.Values, limit int, header string, row func(T) []string) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	p, err := c.List(ctx, path, query, limit)
	if err != nil {
		return err
	}
	return PrintPage(s, p, header, row)
}

// Fetch sends one request. The answer is printed as it came with --json, else
// show prints it.
func Fetch[T any](ctx context.Context, s *Session, r Request, show func(T) error) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.Call(ctx, r, &raw); err != nil {
		return err
	}
	if s.JSON {
		return s.PrintJSON(raw)
	}
	answer, err := Understand[T](raw)
	if err != nil {
		return err
	}
	return show(answer)
}

// At puts the id of an object into a path.
func At(path, id string) string { return strings.Replace(path, "ID", url.PathEscape(id), 1) }

// ShowCommand prints the object at path.
func (s *Session) ShowCommand(use, short, path string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return Fetch(cmd.Context(), s, Request{Method: http.MethodGet, Path: At(path, args[0])}, s.PrintIndented)
		},
	}
}

// ActionCommand does one thing, which is a method and a path, to each id. It
// prints the id and what was done.
func (s *Session) ActionCommand(use, action, short, done string) *cobra.Command {
	method, path, _ := strings.Cut(action, " ")
	return &cobra.Command{
		Use: use, Short: short, Args: WantArgs(1, -1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			c, err := s.Client()
			if err != nil {
				return err
			}
			return s.Each(ids, func(id string) error {
				r := Request{Method: method, Path: At(path, id)}
				if method == http.MethodPost {
					r.Body = struct{}{}
				}
				var raw json.RawMessage
				if err := c.Call(cmd.Context(), r, &raw); err != nil {
					return err
				}
				if s.JSON && len(raw) > 0 {
					return s.PrintJSON(raw)
				}
				return s.Print(map[string]string{"id": id}, "", "%s %s\n", id, done)
			})
		},
	}
}
