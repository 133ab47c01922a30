package watch

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// lane is what is told of a lane.
type lane struct{ view.Lane }

// LaneCommand says how an endpoint's lane is.
func LaneCommand(s *kit.Session) *cobra.Command {
	return &cobra.Command{
		Use: "lane ENDPOINT", Short: "Say whether an endpoint is sent to, how fast, and why not faster", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r := kit.Request{Method: http.MethodGet, Path: kit.At("T/endpoints/ID/lane", args[0])}
			return kit.Fetch(cmd.Context(), s, r, func(l lane) error { return s.PrintRows(l.facts(time.Now())) })
		},
	}
}

// facts tells about a lane, a line each.
func (l *lane) facts(now time.Time) [][]string {
	out := [][]string{
		{"endpoint", l.Endpoint + ", " + l.Status},
		{"breaker", l.breaker()},
	}
	if time.Time(l.HoldUntil).After(now) {
		out = append(out, []string{"hold", "nothing is sent before " + kit.Clock(l.HoldUntil) + ": the endpoint asked for it"})
	}
	limit := "at most " + kit.Decimal(l.Limit) + " requests in flight, " + l.LimitMode
	if l.SlowStart {
		limit += ", slow start"
	}
	out = append(out, []string{"limit", limit}, []string{"pace", l.pace()})
	out = append(out, learnt(&l.Learnt)...)
	if q := l.RetryQueue; q.Depth != nil {
		depth := strconv.FormatInt(*q.Depth, 10)
		if q.AtLeast {
			depth = "at least " + depth
		}
		if q.Growing {
			depth += ", growing"
		}
		out = append(out, []string{"retry queue", depth})
	}
	return out
}

func (l *lane) breaker() string {
	if l.State != "open" {
		return l.State
	}
	text := "open since " + kit.Clock(l.OpenedAt)
	switch kit.OrZero(l.OpenReason) {
	case "consecutive":
		text += " after failures in a row"
	case "ratio":
		text += " because most first attempts failed"
	}
	return text + "; next probe " + kit.Clock(l.NextProbeAt)
}

// paces says what each reason to pace a lane means.
var paces = map[string]string{
	"throttle":   "the endpoint refused more",
	"ceiling":    "more broke it before",
	"recovery":   "it has just come back",
	"host":       "other endpoints of its host came back with it",
	"rate_limit": "its policy says so",
}

func (l *lane) pace() string {
	by := kit.OrZero(l.PacedBy)
	if by == "" {
		return "none"
	}
	text := perSecond(kit.OrZero(l.RatePerSecond)) + " by " + by
	if why := paces[by]; why != "" {
		text += ": " + why
	}
	return text
}

// learnt tells what a lane has learnt, a line each.
func learnt(n *view.Learnt) (out [][]string) {
	add := func(name, format string, args ...any) {
		out = append(out, []string{name, fmt.Sprintf(format, args...)})
	}
	if n.Usual != nil {
		add("usual", "%s of live events", perSecond(*n.Usual))
	}
	if n.Proven != nil {
		add("proven", "%s were carried", perSecond(*n.Proven))
	}
	if c := n.Ceiling; c != nil {
		certainty := "a suspicion"
		if c.Sure {
			certainty = "more than once"
		}
		add("ceiling", "broke at %s, %s, last %s; %s", perSecond(c.Learnt), certainty, kit.Clock(c.At), trial(c))
	}
	if t := n.Throttle; t != nil {
		add("throttle", "refused %s, asked to wait %s; %s now, rising by itself", kit.Clock(t.At), t.RetryAfter, perSecond(t.Rate))
	}
	if r := n.Recovery; r != nil {
		add("recovery", "at %s, of what was held for %s", perSecond(r.Rate), r.Held)
	}
	if n.HostRate != nil {
		add("host", "leaves it %s", perSecond(*n.HostRate))
	}
	if len(out) == 0 {
		add("learnt", "nothing")
	}
	return out
}

// trial says when more than a ceiling is tried.
func trial(c *view.Ceiling) string {
	switch {
	case c.Rate > c.Learnt:
		return "up to " + perSecond(c.Rate) + " are being tried"
	case c.Sure:
		return "more is tried after " + kit.Clock(c.TestAfter) + " if it is in the way"
	default:
		return "more is tried soon if it is in the way"
	}
}

func perSecond(r float64) string { return kit.Decimal(r) + "/s" }
