package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// endpointsUpdate changes what its flags name, and nothing else.
func (s *session) endpointsUpdate() *cobra.Command {
	var address, uid, description, preset, filter, body string
	var types, headers []string
	cmd := &cobra.Command{
		Use: "update ENDPOINT", Short: "Change an endpoint; what no flag names stays", Args: kit.WantArgs(1, 1),
		Example: "  breakwater endpoints update ep_... --types 'order.*,refund.*'\n  breakwater endpoints update ep_... --address https://example.com/new --preset quick",
		RunE: func(cmd *cobra.Command, args []string) error {
			change := map[string]any{}
			for flag, value := range map[string]any{"uid": uid, "description": description, "types": types, "filter": filter, "body": body} {
				if cmd.Flags().Changed(flag) {
					change[flag] = value
				}
			}
			if cmd.Flags().Changed("address") { // --url is the server's
				change["url"] = address
			}
			if cmd.Flags().Changed("preset") {
				change["policy"] = map[string]string{"preset": preset}
			}
			if cmd.Flags().Changed("header") {
				set, err := readHeaders(headers)
				if err != nil {
					return err
				}
				change["headers"] = set
			}
			if len(change) == 0 {
				return kit.Usagef("name what to change: --address, --types, --filter, --body, --uid, --description, --preset or --header")
			}
			r := kit.Request{Method: http.MethodPatch, Path: kit.At("T/endpoints/ID", args[0]), Body: change}
			return kit.Fetch(cmd.Context(), s.Session, r, func(e view.Endpoint) error {
				return s.Print(e, e.ID+"\n", "%s changed, version %d\n", e.ID, e.Version)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&address, "address", "", "URL to deliver to; another one starts the lane slowly")
	flags.StringSliceVar(&types, "types", nil, "event types such as order.paid or 'order.*'")
	flags.StringVar(&filter, "filter", "", "only events for which this is true, such as 'payload.total > 100'; '' for all")
	flags.StringVar(&body, "body", "", "payload, envelope, cloudevents, cloudevents_binary, slack, discord or teams")
	flags.StringVar(&uid, "uid", "", "your own name for it, unique within the tenant")
	flags.StringVar(&description, "description", "", "what it is for")
	flags.StringVar(&preset, "preset", "", "retry policy to start from; replaces the endpoint's own policy")
	flags.StringArrayVar(&headers, "header", nil, "header K=V for every request, repeatable; replaces all of them")
	return cmd
}

func (s *session) endpointTest() *cobra.Command {
	var eventType, data string
	cmd := &cobra.Command{
		Use: "test ENDPOINT", Short: "Send a test event to an endpoint, whatever its types", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{}
			if eventType != "" {
				body["type"] = eventType
			}
			if data != "" {
				if !json.Valid([]byte(data)) {
					return kit.Usagef("-d: payload is not valid JSON")
				}
				body["payload"] = json.RawMessage(data)
			}
			type sent struct{ Event, Delivery string }
			r := kit.Request{Method: http.MethodPost, Path: kit.At("T/endpoints/ID/test", args[0]), Body: body}
			return kit.Fetch(cmd.Context(), s.Session, r, func(t sent) error {
				return s.Print(t, t.Event+"\n", "%s accepted; what comes of it: breakwater inspect %s\n", t.Event, t.Event)
			})
		},
	}
	cmd.Flags().StringVar(&eventType, "type", "", "type of the event (default breakwater.test)")
	cmd.Flags().StringVarP(&data, "data", "d", "", "payload, JSON")
	return cmd
}

func (s *session) endpointRotate() *cobra.Command {
	var overlap string
	cmd := &cobra.Command{
		Use: "rotate-secret ENDPOINT", Short: "Give an endpoint a new secret; it is printed once, alone on stdout", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := quantity.ParseDuration(overlap)
			if err != nil {
				return kit.Usagef("--overlap: %w", err)
			}
			type rotated struct {
				Secret  string
				Expires view.Stamp `json:"previous_expires_at"`
			}
			r := kit.Request{Method: http.MethodPost, Path: kit.At("T/endpoints/ID/rotate-secret", args[0]), Body: map[string]string{"overlap": quantity.FormatDuration(d)}}
			return kit.Fetch(cmd.Context(), s.Session, r, func(n rotated) error {
				if !s.Quiet {
					s.Note("the old secret signs too until %s", kit.Clock(n.Expires))
				}
				return s.Printf("%s\n", n.Secret)
			})
		},
	}
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "how long the old secret signs too, 0s to 7d")
	return cmd
}

func (s *session) endpointStats() *cobra.Command {
	var window string
	cmd := &cobra.Command{
		Use: "stats ENDPOINT", Short: "Add up what happened at an endpoint", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := kit.Request{Method: http.MethodGet, Path: kit.At("T/endpoints/ID/stats", args[0]), Query: url.Values{"window": {window}}}
			return kit.Fetch(cmd.Context(), s.Session, r, func(raw json.RawMessage) error {
				v, err := kit.Understand[map[string]any](raw)
				if err != nil {
					return err
				}
				delete(v, "series")
				return s.PrintRows(flatten("", v))
			})
		},
	}
	cmd.Flags().StringVar(&window, "window", "1h", "15m, 1h, 6h, 24h, 7d or 30d, up to now")
	return cmd
}

// flatten makes rows of a document, a line for each value.
func flatten(prefix string, v map[string]any) (rows [][]string) {
	for _, name := range sortedNames(v) {
		full := strings.TrimPrefix(prefix+"."+name, ".")
		switch value := v[name].(type) {
		case map[string]any:
			rows = append(rows, flatten(full, value)...)
		case []any:
		case nil:
			rows = append(rows, []string{full, "–"})
		case float64:
			rows = append(rows, []string{full, kit.Decimal(value)})
		default:
			rows = append(rows, []string{full, fmt.Sprint(value)})
		}
	}
	return rows
}
