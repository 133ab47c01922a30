package cli

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (s *session) tenantsUpdate() *cobra.Command {
	var uid, name string
	cmd := &cobra.Command{
		Use: "update TENANT", Short: "Change a tenant; what no flag names stays", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			change := map[string]string{}
			for flag, value := range map[string]string{"uid": uid, "name": name} {
				if cmd.Flags().Changed(flag) {
					change[flag] = value
				}
			}
			if len(change) == 0 {
				return kit.Usagef("name what to change: --uid or --name")
			}
			r := kit.Request{Method: http.MethodPatch, Path: kit.At("v1/tenants/ID", args[0]), Body: change}
			return kit.Fetch(cmd.Context(), s.Session, r, func(t view.Tenant) error {
				return s.Print(t, t.ID+"\n", "%s changed, version %d\n", t.ID, t.Version)
			})
		},
	}
	cmd.Flags().StringVar(&uid, "uid", "", "your own id for it, unique")
	cmd.Flags().StringVar(&name, "name", "", "name to show")
	return cmd
}

func (s *session) tenantsDelete() *cobra.Command {
	var force, yes bool
	cmd := &cobra.Command{
		Use: "delete TENANT", Short: "Delete a tenant that has nothing, or with --force all that it has", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := kit.Request{Method: http.MethodDelete, Path: kit.At("v1/tenants/ID", args[0])}
			if force {
				if err := s.Confirm(yes, "This deletes the endpoints of tenant "+args[0]+", cancels what is pending and revokes its keys."); err != nil {
					return err
				}
				r.Query = url.Values{"force": {"true"}}
			}
			c, err := s.Client()
			if err != nil {
				return err
			}
			if err := c.Call(cmd.Context(), r, nil); err != nil {
				return err
			}
			return s.Print(map[string]string{"id": args[0]}, "", "%s deleted\n", args[0])
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "delete its endpoints, cancel what is pending and revoke its keys first")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (s *session) portalLink() *cobra.Command {
	var ttl, scope string
	cmd := &cobra.Command{
		Use: "portal-link TENANT", Short: "Make a link that opens the dashboard for one tenant alone", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := kit.Request{Method: http.MethodPost, Path: kit.At("v1/tenants/ID/portal-links", args[0]), Body: map[string]string{"ttl": ttl, "scope": scope}}
			return kit.Fetch(cmd.Context(), s.Session, r, func(l view.PortalLink) error {
				if !s.Quiet {
					s.Note("ends %s, or with the key that made it", kit.Clock(l.ExpiresAt))
				}
				return s.Printf("%s\n", l.URL)
			})
		},
	}
	cmd.Flags().StringVar(&ttl, "ttl", "1h", "how long it lasts, 5m to 24h")
	cmd.Flags().StringVar(&scope, "scope", "tenant:write", "what the visitor may do: tenant:write or tenant:read")
	return cmd
}

func (s *session) deadGroups() *cobra.Command {
	cmd := &cobra.Command{
		Use: "groups", Short: "Add dead letters up by endpoint, reason and status code", Args: kit.WantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := kit.Request{Method: http.MethodGet, Path: "T/dead-letters/groups", Query: kit.Query(cmd, deliveryFilters)}
			return kit.Fetch(cmd.Context(), s.Session, r, func(g view.DeadGroups) error {
				rows := [][]string{{"ENDPOINT", "REASON", "STATUS", "COUNT", "OLDEST", "NEWEST", "SAMPLE"}}
				for _, d := range g.Data {
					rows = append(rows, []string{
						d.Endpoint, d.Reason, kit.Dash(kit.StatusText(d.StatusCode)), strconv.Itoa(d.Count), kit.Clock(d.Oldest), kit.Clock(d.Newest), d.Sample,
					})
				}
				if !g.Exact || g.Truncated {
					s.Note("there are more; narrow it, with --since for example")
				}
				return s.PrintRows(rows)
			})
		},
	}
	kit.AddFilters(cmd, deliveryFilters)
	return cmd
}

// discardFilters are those that the body of a discard has.
var discardFilters = map[string]string{"endpoint": "endpoint", "reason": "reasons", "type": "types", "since": "since", "until": "until"}

func (s *session) deadDiscard() *cobra.Command {
	var endpoint, since, until, note string
	var reasons, types []string
	var all, yes bool
	cmd := &cobra.Command{
		Use: "discard [DELIVERY...]", Short: "Cancel dead letters for good", Args: kit.WantArgs(0, -1),
		Example: "  breakwater dead discard --endpoint ep_... --reason permanent --since 7d\n  breakwater dead discard dlv_... --yes",
		RunE: func(cmd *cobra.Command, ids []string) error {
			body := map[string]any{}
			count := url.Values{}
			for flag, value := range map[string]any{"endpoint": endpoint, "reason": reasons, "type": types, "since": since, "until": until} {
				if cmd.Flags().Changed(flag) {
					body[discardFilters[flag]] = value
				}
			}
			for name, values := range map[string][]string{"endpoint": {endpoint}, "reason": reasons, "type": types, "since": {since}, "until": {until}} {
				if strings.Join(values, "") != "" {
					count[name] = values
				}
			}
			switch {
			case len(ids) > 0 && len(body) > 0:
				return kit.Usagef("name deliveries or filters, not both")
			case len(ids) > 0:
				body["delivery_ids"] = ids
			case len(body) == 0 && !all:
				return kit.Usagef("name deliveries or a filter, or --all")
			}
			if all {
				body["all"] = true
			}
			if note != "" {
				body["note"] = note
			}
			return s.discard(cmd, body, count, len(ids), yes)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&endpoint, "endpoint", "", "endpoint: its id or uid")
	flags.StringSliceVar(&reasons, "reason", nil, "why they are dead")
	flags.StringSliceVar(&types, "type", nil, "event type such as order.paid or 'order.*'")
	flags.StringVar(&since, "since", "", "from this time on, or this long ago (24h)")
	flags.StringVar(&until, "until", "", "before this time, or before this long ago")
	flags.BoolVar(&all, "all", false, "all dead letters of the tenant")
	flags.StringVar(&note, "note", "", "kept in the audit log")
	flags.BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

// discard counts what matches, asks, and goes on until all is done.
func (s *session) discard(cmd *cobra.Command, body map[string]any, filter url.Values, named int, yes bool) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	var counted struct{ Count int }
	if counted.Count = named; named == 0 {
		if err := c.Call(cmd.Context(), kit.Request{Method: http.MethodGet, Path: "T/dead-letters/count", Query: filter}, &counted); err != nil {
			return err
		}
	}
	if err := s.Confirm(yes, fmt.Sprintf("This cancels %s for good.", kit.Plural(counted.Count, "dead letter", "dead letters"))); err != nil {
		return err
	}
	total := 0
	for {
		body["expect_count"] = counted.Count - total
		var done view.Discarded
		if err := c.Call(cmd.Context(), kit.Request{Method: http.MethodPost, Path: "T/dead-letters/discard", Body: body}, &done); err != nil {
			return err
		}
		total += done.Discarded
		if done.Complete {
			return s.Print(map[string]int{"discarded": total}, "", "%s discarded\n", kit.Plural(total, "dead letter", "dead letters"))
		}
		s.Note("%d of %d discarded", total, counted.Count)
	}
}
