package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// deliveryFilters are those of every list of deliveries; statusFilters go with
// lists that are not about one status.
var (
	deliveryFilters = []filter{
		{name: "reason", help: "why it ended"},
		{name: "endpoint", help: "id of an endpoint"},
		{name: "type", help: "event type such as order.paid or 'order.*'"},
		{name: "event", help: "id of an event"},
		{name: "since", help: "from this time on, or this long ago (24h)", single: true},
		{name: "until", help: "before this time, or before this long ago", single: true},
	}
	statusFilters = []filter{
		{name: "status", help: "pending, delivered, dead, cancelled, held or retrying"},
		{name: "waiting-for", help: "due but kept by paused, open, hold or pace"},
	}
)

func (s *session) deliveriesCommand() *cobra.Command {
	return group("deliveries", "List, show, retry and cancel deliveries",
		s.deliveriesList("List deliveries", "T/deliveries", append(statusFilters, deliveryFilters...)),
		s.showCommand("get DELIVERY", "Show a delivery", "T/deliveries/ID"),
		s.attemptsCommand(),
		s.actionCommand("retry DELIVERY...", "POST T/deliveries/ID/retry", "Send deliveries now, whatever their schedule says", "will be sent"),
		s.actionCommand("cancel DELIVERY...", "POST T/deliveries/ID/cancel", "Cancel pending deliveries", "cancelled"),
	)
}

func (s *session) deadCommand() *cobra.Command {
	return group("dead", "Look at dead letters",
		s.deliveriesList("List deliveries that were given up on", "T/dead-letters", deliveryFilters))
}

func (s *session) deliveriesList(short, path string, filters []filter) *cobra.Command {
	return listCommand(s, short, path, "ID STATUS ENDPOINT TYPE ATTEMPTS LAST DUE", func(d delivery) []string {
		status := cmp.Or(orZero(d.View), d.Status)
		if why := cmp.Or(orZero(d.Reason), orZero(d.WaitingFor)); why != "" {
			status += ":" + why
		}
		due := "–"
		if d.Status == "pending" {
			due = clock(d.DueAt)
		}
		return []string{d.ID, status, d.Endpoint, d.Type, strconv.Itoa(d.Attempts), d.last(), due}
	}, filters...)
}

// delivery is what the commands show of a delivery.
type delivery struct{ view.Delivery }

// last tells how the latest attempt went: a status, or why there was none.
func (d *delivery) last() string {
	if d.Last == nil {
		return "–"
	}
	return cmp.Or(statusText(d.Last.StatusCode), dash(d.Last.Reason))
}

// statusText shows a status code, as nothing when there was no answer.
func statusText(code *int) string {
	if orZero(code) == 0 {
		return ""
	}
	return strconv.Itoa(*code)
}

func (s *session) attemptsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attempts DELIVERY", Short: "List the attempts of a delivery, oldest first", Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			const header = "ID NUMBER KIND STARTED CLASS REASON STATUS LATENCY NEXT"
			return printList(cmd.Context(), s, at("T/deliveries/ID/attempts", args[0]), url.Values{}, unpaged, header, func(a view.Attempt) []string {
				return []string{
					a.ID, strconv.Itoa(a.Number), a.Kind, clock(a.StartedAt), a.Class, a.Reason, dash(statusText(a.StatusCode)),
					fmt.Sprintf("%.0fms", a.LatencyMS), clock(a.NextDueAt),
				}
			})
		},
	}
}
