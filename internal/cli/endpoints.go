package cli

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/cli/watch"
)

func (s *session) endpointsCommand() *cobra.Command {
	return kit.Group("endpoints", "Create, list and switch endpoints",
		s.endpointsCreate(),
		kit.ListCommand(s.Session, "List endpoints", "T/endpoints", "ID STATUS TYPES URL UID", func(e view.Endpoint) []string {
			return []string{e.ID, e.Status, strings.Join(e.Types, ","), e.URL, kit.Dash(kit.OrZero(e.UID))}
		}),
		s.ShowCommand("get ENDPOINT", "Show an endpoint", "T/endpoints/ID"),
		s.ActionCommand("delete ENDPOINT...", "DELETE T/endpoints/ID", "Delete endpoints and cancel what is pending for them", "deleted"),
		watch.LaneCommand(s.Session),
		s.ActionCommand("pause ENDPOINT...", "POST T/endpoints/ID/pause", "Hold deliveries until resume", "paused"),
		s.ActionCommand("resume ENDPOINT...", "POST T/endpoints/ID/resume", "Deliver again, carefully at first", "resumed"),
		s.ActionCommand("disable ENDPOINT...", "POST T/endpoints/ID/disable", "Switch endpoints off; their deliveries are held until resume", "disabled"),
		s.ActionCommand("probe ENDPOINT...", "POST T/endpoints/ID/probe", "Send one probe now to endpoints whose breaker is open", "is probed"),
		s.endpointsUpdate(), s.endpointTest(), s.endpointRotate(), s.endpointStats(),
		s.ShowCommand("policy ENDPOINT", "Show the policy of an endpoint and where each value comes from", "T/endpoints/ID/policy"),
		s.ActionCommand("reset ENDPOINT...", "POST T/endpoints/ID/reset", "Close the breaker, forget what was learnt and start slowly", "reset"),
	)
}

// endpointInput is the body that creates an endpoint.
type endpointInput struct {
	URL         string            `json:"url"`
	UID         string            `json:"uid,omitempty"`
	Description string            `json:"description,omitempty"`
	Types       []string          `json:"types,omitempty"`
	Filter      string            `json:"filter,omitempty"`
	Body        string            `json:"body,omitempty"`
	Policy      map[string]string `json:"policy,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Signatures  []view.Signature  `json:"signatures,omitempty"`
	Trace       string            `json:"trace_context,omitempty"`
}

func (s *session) endpointsCreate() *cobra.Command {
	var in endpointInput
	var preset string
	var headers, signatures []string
	cmd := &cobra.Command{
		Use: "create URL", Short: "Create an endpoint; prints its id and its secret, which is shown once", Args: kit.WantArgs(1, 1),
		Example: `  breakwater endpoints create https://example.com/hook --types 'order.*' --preset quick
  breakwater endpoints create https://example.com/hook --header X-Token=abc --signature stripe:X-Sig`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.URL = args[0]
			if preset != "" {
				in.Policy = map[string]string{"preset": preset}
			}
			var err error
			if in.Headers, err = readHeaders(headers); err != nil {
				return err
			}
			for _, text := range signatures {
				scheme, header, _ := strings.Cut(text, ":")
				in.Signatures = append(in.Signatures, view.Signature{Scheme: scheme, Header: header})
			}
			return s.createEndpoint(cmd.Context(), in)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&in.Types, "types", nil, "event types such as order.paid or 'order.*' (default all)")
	flags.StringVar(&in.Filter, "filter", "", "only events for which this is true, such as 'payload.total > 100'")
	flags.StringVar(&in.Body, "body", "", "payload, envelope, cloudevents, cloudevents_binary, slack, discord or teams (default payload)")
	flags.StringVar(&in.UID, "uid", "", "your own name for it, unique within the tenant")
	flags.StringVar(&in.Description, "description", "", "what it is for")
	flags.StringVar(&preset, "preset", "", "retry policy to start from")
	flags.StringArrayVar(&headers, "header", nil, "header K=V for every request, repeatable")
	flags.StringArrayVar(&signatures, "signature", nil, "standard, standard_ed25519 or stripe:HEADER, repeatable")
	flags.StringVar(&in.Trace, "trace-context", "", "forward to send the publisher's traceparent along, or off (default off)")
	return cmd
}

func readHeaders(list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	headers := make(map[string]string, len(list))
	for _, text := range list {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, kit.Usagef("--header: %q must be NAME=VALUE", text)
		}
		headers[name] = value
	}
	return headers, nil
}

func (s *session) createEndpoint(ctx context.Context, in endpointInput) error {
	type created struct{ ID, Secret string }
	return kit.Fetch(ctx, s.Session, kit.Request{Method: http.MethodPost, Path: "T/endpoints", Body: in}, func(e created) error {
		if s.Quiet {
			return s.Printf("%s\n%s\n", e.ID, e.Secret)
		}
		return s.Printf("endpoint  %s\nsecret    %s (shown once)\n", e.ID, e.Secret)
	})
}
