package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// deliveryFilters are those of every list of deliveries; statusFilters go with
// lists that are not about one status.
var (
	deliveryFilters = []kit.Filter{
		{Name: "reason", Help: "why it ended"},
		{Name: "endpoint", Help: "id of an endpoint"},
		{Name: "type", Help: "event type such as order.paid or 'order.*'"},
		{Name: "event", Help: "id of an event"},
		{Name: "since", Help: "from this time on, or this long ago (24h)", Single: true},
		{Name: "until", Help: "before this time, or before this long ago", Single: true},
	}
	statusFilters = []kit.Filter{
		{Name: "status", Help: "pending, delivered, dead, cancelled, held or retrying"},
		{Name: "waiting-for", Help: "due but kept by paused, open, hold or pace"},
	}
)

func (s *session) deliveriesCommand() *cobra.Command {
	return kit.Group("deliveries", "List, show, retry and cancel deliveries",
		s.deliveriesList("List deliveries", "T/deliveries", append(statusFilters, deliveryFilters...)),
		s.ShowCommand("get DELIVERY", "Show a delivery", "T/deliveries/ID"),
		s.attemptsCommand(),
		s.ActionCommand("retry DELIVERY...", "POST T/deliveries/ID/retry", "Send deliveries now, whatever their schedule says", "will be sent"),
		s.ActionCommand("cancel DELIVERY...", "POST T/deliveries/ID/cancel", "Cancel pending deliveries", "cancelled"),
	)
}

func (s *session) deadCommand() *cobra.Command {
	return kit.Group("dead", "List, add up and discard dead letters",
		s.deliveriesList("List deliveries that were given up on", "T/dead-letters", deliveryFilters),
		s.deadGroups(), s.deadDiscard(),
	)
}

func (s *session) deliveriesList(short, path string, filters []kit.Filter) *cobra.Command {
	return kit.ListCommand(s.Session, short, path, "ID STATUS ENDPOINT TYPE ATTEMPTS LAST DUE", func(d delivery) []string {
		status := cmp.Or(kit.OrZero(d.View), d.Status)
		if why := cmp.Or(kit.OrZero(d.Reason), kit.OrZero(d.WaitingFor)); why != "" {
			status += ":" + why
		}
		due := "–"
		if d.Status == "pending" {
			due = kit.Clock(d.DueAt)
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
	return cmp.Or(kit.StatusText(d.Last.StatusCode), kit.Dash(d.Last.Reason))
}

func (s *session) attemptsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attempts DELIVERY", Short: "List the attempts of a delivery, oldest first", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			const header = "ID NUMBER KIND STARTED CLASS REASON STATUS LATENCY NEXT"
			return kit.PrintList(cmd.Context(), s.Session, kit.At("T/deliveries/ID/attempts", args[0]), url.Values{}, kit.Unpaged, header, func(a view.Attempt) []string {
				return []string{
					a.ID, strconv.Itoa(a.Number), a.Kind, kit.Clock(a.StartedAt), a.Class, a.Reason, kit.Dash(kit.StatusText(a.StatusCode)),
					fmt.Sprintf("%.0fms", a.LatencyMS), kit.Clock(a.NextDueAt),
				}
			})
		},
	}
}
