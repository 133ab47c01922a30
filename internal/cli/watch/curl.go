package watch

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// maxCurl bounds the command: a payload in base64 and its headers.
const maxCurl = 64 << 20

func curlCommand(s *kit.Session) *cobra.Command {
	var sign bool
	cmd := &cobra.Command{
		Use: "curl ID", Short: "Print the request of a delivery as a command for a shell", Args: kit.WantArgs(1, 1),
		Long: "Print the request of a delivery, or of the one delivery of an event, as a command for sh, bash and zsh. It has a placeholder for a signature unless --sign,\n" +
			"which needs a key that may write and is recorded in the audit log. Without --tenant it is looked for in every tenant that the key may see.",
		Example: "  breakwater curl dlv_...\n  breakwater curl evt_... --sign | sh",
		RunE: func(cmd *cobra.Command, args []string) error {
			anyTenant(cmd, s)
			c, err := s.Client()
			if err != nil {
				return err
			}
			id, err := deliveryOf(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			text, err := requestOf(cmd.Context(), c, id, sign)
			if err != nil {
				return err
			}
			if s.JSON {
				return s.PrintJSON(map[string]string{"delivery": id, "curl": text})
			}
			return s.Printf("%s\n", strings.TrimSuffix(text, "\n"))
		},
	}
	cmd.Flags().BoolVar(&sign, "sign", false, "with a signature made now")
	return cmd
}

// deliveryOf returns the delivery that an id means: itself, or the one of an event.
func deliveryOf(ctx context.Context, c *kit.Client, id string) (string, error) {
	switch {
	case strings.HasPrefix(id, "dlv_"):
		return id, nil
	case !strings.HasPrefix(id, "evt_"):
		return "", kit.Usagef("%q must be the id of a delivery (dlv_...) or of an event (evt_...)", id)
	}
	p, err := c.List(ctx, kit.At("T/events/ID/deliveries", id), url.Values{}, 10)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, raw := range p.Data {
		d, err := kit.Understand[view.Delivery](raw)
		if err != nil {
			return "", err
		}
		ids = append(ids, d.ID+" to "+d.Endpoint)
	}
	switch len(ids) {
	case 1:
		id, _, _ := strings.Cut(ids[0], " ")
		return id, nil
	case 0:
		return "", fmt.Errorf("%s has no delivery: no endpoint matched when it was accepted", id)
	default:
		return "", kit.Usagef("%s has several deliveries; name one:\n  %s", id, strings.Join(ids, "\n  "))
	}
}

func requestOf(ctx context.Context, c *kit.Client, id string, sign bool) (string, error) {
	q := url.Values{}
	if sign {
		q.Set("sign", "true")
	}
	resp, err := c.Do(ctx, kit.Request{Method: http.MethodGet, Path: kit.At("T/deliveries/ID/curl", id), Query: q})
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxCurl))
	if err != nil {
		return "", kit.Unreachable(fmt.Errorf("read answer: %w", err))
	}
	return string(text), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
