package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

func channelRow(c view.AlertChannel) []string {
	to := strings.Join(c.To, ",")
	if c.URL != nil {
		to = *c.URL
	}
	state := "ok"
	switch {
	case !time.Time(c.FailingSince).IsZero():
		state = "failing since " + kit.Clock(c.FailingSince) + ": " + kit.OrZero(c.Error)
	case c.EventsDropped > 0:
		state = fmt.Sprintf("ok, %d events dropped", c.EventsDropped)
	}
	return []string{c.ID, c.Kind, c.Name, kit.Dash(kit.OrZero(c.Tenant)), kit.Dash(to), kit.Dash(filtersOf(c)), state}
}

// filtersOf words what a channel wants.
func filtersOf(c view.AlertChannel) string {
	var out []string
	if len(c.Levels) > 0 {
		out = append(out, strings.Join(c.Levels, ","))
	}
	if c.MinSeverity != nil {
		out = append(out, "from "+*c.MinSeverity)
	}
	if len(c.Rules) > 0 {
		out = append(out, strings.Join(c.Rules, ","))
	}
	if len(c.OperationalEvents) > 0 {
		out = append(out, "events "+strings.Join(c.OperationalEvents, ","))
	}
	if !c.SendResolved {
		out = append(out, "no ends")
	}
	return strings.Join(out, "; ")
}

// channelFlags are what a channel can be given. Only flags that were set are sent.
type channelFlags struct {
	name, minSeverity, urlFile, secretFile string
	levels, rules, events, headers         []string
	resolved                               bool
}

func (f *channelFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "name for people")
	flags.StringSliceVar(&f.levels, "levels", nil, "endpoint, tenant, system (default all)")
	flags.StringVar(&f.minSeverity, "min-severity", "", "info, warning or page (default all)")
	flags.StringSliceVar(&f.rules, "rules", nil, "only these rules (default all)")
	flags.StringSliceVar(&f.events, "operational-events", nil, "webhook: types such as 'storm.*' (default none)")
	flags.BoolVar(&f.resolved, "send-resolved", true, "also tell the end of an alert")
	flags.StringVar(&f.urlFile, "url-file", "", "webhook, slack: file with the URL, which may be a secret")
	flags.StringVar(&f.secretFile, "secret-file", "", "webhook: file with the secret that signs")
	flags.StringArrayVar(&f.headers, "header", nil, "webhook: header K=V for every request, repeatable")
}

// body returns the fields that were given.
func (f *channelFlags) body(cmd *cobra.Command) (map[string]any, error) {
	out := map[string]any{}
	for name, value := range map[string]any{
		"name": f.name, "levels": kit.OrEmpty(f.levels), "rules": kit.OrEmpty(f.rules), "operational-events": kit.OrEmpty(f.events), "send-resolved": f.resolved,
	} {
		if cmd.Flag(name).Changed {
			out[strings.ReplaceAll(name, "-", "_")] = value
		}
	}
	if cmd.Flag("min-severity").Changed {
		out["min_severity"] = view.Nullable(f.minSeverity) // empty: all again
	}
	if len(f.headers) > 0 {
		headers, err := readHeaders(f.headers)
		if err != nil {
			return nil, err
		}
		out["headers"] = headers
	}
	for field, path := range map[string]string{"url": f.urlFile, "secret": f.secretFile} {
		if path == "" {
			continue
		}
		text, err := kit.ReadKey(path)
		if err != nil {
			return nil, kit.Usagef("--%s-file: %w", field, err)
		}
		out[field] = text
	}
	return out, nil
}

func (s *session) channelsCreate() *cobra.Command {
	var f channelFlags
	cmd := &cobra.Command{
		Use: "create KIND [URL | ADDRESS...]", Short: "Create a channel of kind webhook, slack, email or log", Args: kit.WantArgs(1, -1),
		Long: `Create a channel of kind webhook, slack, email or log: for the operator, or with
--tenant for what is about one tenant (- is the tenant of its own key). The secret
of a webhook is shown once.`,
		Example: `  breakwater alerts channels create webhook https://example.com/alerts --min-severity page
  breakwater alerts channels create slack --url-file slack.url --name room
  breakwater alerts channels create email ops@example.com --tenant acme`,
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := f.body(cmd)
			if err != nil {
				return err
			}
			body["kind"] = args[0]
			if body["name"] == nil {
				body["name"] = args[0]
			}
			if err := destination(body, args[1:]); err != nil {
				return err
			}
			path := "v1/alert-channels"
			if cmd.Flag("tenant").Changed {
				path = "T/alert-channels"
			}
			return s.createChannel(cmd.Context(), path, body)
		},
	}
	f.add(cmd)
	return cmd
}

// destination puts a URL, or addresses, into the body of a request.
func destination(body map[string]any, args []string) error {
	switch {
	case len(args) == 0:
	case body["kind"] == "email", strings.Contains(args[0], "@") && !strings.Contains(args[0], "://"):
		body["to"] = args
	case len(args) > 1:
		return kit.Usagef("URL: give one URL, or e-mail addresses")
	case body["url"] != nil:
		return kit.Usagef("--url-file: give the URL or --url-file, not both")
	default:
		body["url"] = args[0]
	}
	return nil
}

func (s *session) createChannel(ctx context.Context, path string, body map[string]any) error {
	type created struct{ ID, Secret string }
	return kit.Fetch(ctx, s.Session, kit.Request{Method: http.MethodPost, Path: path, Body: body}, func(c created) error {
		switch {
		case s.Quiet && c.Secret != "":
			return s.Printf("%s\n%s\n", c.ID, c.Secret)
		case s.Quiet:
			return s.Printf("%s\n", c.ID)
		case c.Secret != "":
			return s.Printf("channel  %s\nsecret   %s (shown once)\n", c.ID, c.Secret)
		default:
			return s.Printf("channel  %s\n", c.ID)
		}
	})
}

func (s *session) channelsUpdate() *cobra.Command {
	var f channelFlags
	cmd := &cobra.Command{
		Use: "update CHANNEL [URL | ADDRESS...]", Short: "Change a channel: what is not given stays", Args: kit.WantArgs(1, -1),
		Example: `  breakwater alerts channels update ach_… --min-severity page --rules retry_storm,breakers_many
  breakwater alerts channels update ach_… --min-severity '' --rules ''`,
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := f.body(cmd)
			if err != nil {
				return err
			}
			if err := destination(body, args[1:]); err != nil {
				return err
			}
			if len(body) == 0 {
				return kit.Usagef("nothing to change; give one of the flags of %s", cmd.CommandPath())
			}
			return kit.Fetch(cmd.Context(), s.Session, kit.Request{Method: http.MethodPatch, Path: kit.At("T/alert-channels/ID", args[0]), Body: body}, func(c view.AlertChannel) error {
				return s.Print(c, "", "%s changed, version %d\n", c.ID, c.Version)
			})
		},
	}
	f.add(cmd)
	return cmd
}
