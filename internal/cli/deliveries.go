package cli

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func (s *session) deliveriesCommand() *cobra.Command {
	act := func(verb, short, done string) *cobra.Command {
		return s.actionCommand(verb+" DELIVERY...", short, done, func(id string) request {
			return request{method: http.MethodPost, path: "T/deliveries/" + url.PathEscape(id) + "/" + verb, body: struct{}{}}
		})
	}
	return group("deliveries", "List, show, retry and cancel deliveries",
		s.deliveriesList("list", "List deliveries", "T/deliveries", true),
		s.showCommand("get DELIVERY", "Show a delivery", "T/deliveries/"),
		s.attemptsCommand(),
		act("retry", "Send deliveries now, whatever their schedule says", "will be sent"),
		act("cancel", "Cancel pending deliveries", "cancelled"),
	)
}

func (s *session) deadCommand() *cobra.Command {
	return group("dead", "Look at dead letters",
		s.deliveriesList("list", "List deliveries that were given up on", "T/dead-letters", false))
}

// filters are the flags that lists of deliveries share with the API.
type filters struct {
	limit        int
	status       []string
	waiting      []string
	reason       []string
	endpoint     []string
	eventType    []string
	event        []string
	since, until string
}

func (f *filters) define(cmd *cobra.Command, withStatus bool) {
	flags := cmd.Flags()
	limitFlag(cmd, &f.limit)
	if withStatus {
		flags.StringSliceVar(&f.status, "status", nil, "pending, delivered, dead, cancelled, held or retrying")
		flags.StringSliceVar(&f.waiting, "waiting-for", nil, "due but kept by paused, open, hold or pace")
	}
	flags.StringSliceVar(&f.reason, "reason", nil, "why it ended")
	flags.StringSliceVar(&f.endpoint, "endpoint", nil, "id of an endpoint")
	flags.StringSliceVar(&f.eventType, "type", nil, "event type such as order.paid or 'order.*'")
	flags.StringSliceVar(&f.event, "event", nil, "id of an event")
	flags.StringVar(&f.since, "since", "", "from this time on, or this long ago (24h)")
	flags.StringVar(&f.until, "until", "", "before this time, or before this long ago")
}

func (f *filters) query() url.Values {
	q := url.Values{}
	for name, values := range map[string][]string{
		"status": f.status, "waiting_for": f.waiting, "reason": f.reason, "endpoint": f.endpoint, "type": f.eventType, "event": f.event,
	} {
		if len(values) > 0 {
			q[name] = values
		}
	}
	if f.since != "" {
		q.Set("since", f.since)
	}
	if f.until != "" {
		q.Set("until", f.until)
	}
	return q
}

func (s *session) deliveriesList(use, short, path string, withStatus bool) *cobra.Command {
	var f filters
	cmd := &cobra.Command{
		Use: use, Short: short, Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listCommand(s, cmd, path, f.query(), f.limit, "ID STATUS ENDPOINT TYPE ATTEMPTS LAST DUE", func(d delivery) []string {
				status := d.Status
				if d.View != "" {
					status = d.View
				}
				if why := cmp.Or(d.Reason, d.Waiting); why != "" {
					status += ":" + why
				}
				due := "–"
				if d.Status == "pending" {
					due = clock(d.DueAt)
				}
				return []string{d.ID, status, d.Endpoint, d.Type, strconv.Itoa(d.Attempts), d.last(), due}
			})
		},
	}
	f.define(cmd, withStatus)
	return cmd
}

// attempt is what the list of attempts shows.
type attempt struct {
	ID         string    `json:"id"`
	Number     int       `json:"number"`
	Kind       string    `json:"kind"`
	Class      string    `json:"class"`
	Reason     string    `json:"reason"`
	StatusCode int       `json:"status_code"`
	StartedAt  time.Time `json:"started_at"`
	LatencyMS  float64   `json:"latency_ms"`
	NextDueAt  time.Time `json:"next_due_at"`
}

func (s *session) attemptsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "attempts DELIVERY", Short: "List the attempts of a delivery, oldest first", Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "T/deliveries/" + url.PathEscape(args[0]) + "/attempts"
			return listCommand(s, cmd, path, url.Values{}, unpaged, "ID NUMBER KIND STARTED CLASS REASON STATUS LATENCY NEXT", func(a attempt) []string {
				status := "–"
				if a.StatusCode != 0 {
					status = strconv.Itoa(a.StatusCode)
				}
				return []string{
					a.ID, strconv.Itoa(a.Number), a.Kind, clock(a.StartedAt), a.Class, a.Reason, status,
					strconv.FormatFloat(a.LatencyMS, 'f', 0, 64) + "ms", clock(a.NextDueAt),
				}
			})
		},
	}
}
