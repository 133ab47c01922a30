package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

func (s *session) endpointsCommand() *cobra.Command {
	return group("endpoints", "Create, list and switch endpoints",
		s.endpointsCreate(), s.endpointsList(),
		s.showCommand("get ENDPOINT", "Show an endpoint", "T/endpoints/"),
		s.endpointsDelete(),
		s.endpointLane(),
		s.endpointSwitch("pause", "Hold deliveries until resume", "paused"),
		s.endpointSwitch("resume", "Deliver again, carefully at first", "resumed"),
		s.endpointSwitch("reset", "Close the breaker, forget what was learnt and start slowly", "reset"),
	)
}

// endpointInput is the body that creates an endpoint.
type endpointInput struct {
	URL         string            `json:"url"`
	UID         string            `json:"uid,omitempty"`
	Description string            `json:"description,omitempty"`
	Types       []string          `json:"types,omitempty"`
	Policy      map[string]string `json:"policy,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Signatures  []signatureInput  `json:"signatures,omitempty"`
}

type signatureInput struct {
	Scheme string `json:"scheme"`
	Header string `json:"header,omitempty"`
}

func (s *session) endpointsCreate() *cobra.Command {
	var in endpointInput
	var preset string
	var headers, signatures []string
	cmd := &cobra.Command{
		Use: "create URL", Short: "Create an endpoint; prints its id and its secret, which is shown once", Args: wantArgs(1, 1),
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
				in.Signatures = append(in.Signatures, signatureInput{scheme, header})
			}
			return s.createEndpoint(cmd, in)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&in.Types, "types", nil, "event types such as order.paid or 'order.*' (default all)")
	flags.StringVar(&in.UID, "uid", "", "your own name for it, unique within the tenant")
	flags.StringVar(&in.Description, "description", "", "what it is for")
	flags.StringVar(&preset, "preset", "", "retry policy to start from")
	flags.StringArrayVar(&headers, "header", nil, "header K=V for every request, repeatable")
	flags.StringArrayVar(&signatures, "signature", nil, "standard, standard_ed25519 or stripe:HEADER, repeatable")
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
			return nil, usagef("--header: %q must be NAME=VALUE", text)
		}
		headers[name] = value
	}
	return headers, nil
}

func (s *session) createEndpoint(cmd *cobra.Command, in endpointInput) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.call(cmd.Context(), request{method: http.MethodPost, path: "T/endpoints", body: in}, &raw); err != nil {
		return err
	}
	if s.json {
		return s.printJSON(raw)
	}
	var created struct{ ID, Secret string }
	if err := json.Unmarshal(raw, &created); err != nil {
		return fmt.Errorf("understand answer: %w", err)
	}
	if s.quiet {
		return s.printf("%s\n%s\n", created.ID, created.Secret)
	}
	return s.printf("endpoint  %s\nsecret    %s (shown once)\n", created.ID, created.Secret)
}

// endpoint is what the list shows.
type endpoint struct {
	ID     string   `json:"id"`
	UID    string   `json:"uid"`
	URL    string   `json:"url"`
	Types  []string `json:"types"`
	Status string   `json:"status"`
}

func (s *session) endpointsList() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "list", Short: "List endpoints", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listCommand(s, cmd, "T/endpoints", url.Values{}, limit, "ID STATUS TYPES URL UID", func(e endpoint) []string {
				return []string{e.ID, e.Status, strings.Join(e.Types, ","), e.URL, dash(e.UID)}
			})
		},
	}
	limitFlag(cmd, &limit)
	return cmd
}

func (s *session) endpointsDelete() *cobra.Command {
	return s.actionCommand("delete ENDPOINT...", "Delete endpoints and cancel what is pending for them", "deleted",
		func(id string) request {
			return request{method: http.MethodDelete, path: "T/endpoints/" + url.PathEscape(id)}
		})
}

func (s *session) endpointSwitch(verb, short, done string) *cobra.Command {
	return s.actionCommand(verb+" ENDPOINT...", short, done, func(id string) request {
		return request{method: http.MethodPost, path: "T/endpoints/" + url.PathEscape(id) + "/" + verb, body: struct{}{}}
	})
}
