package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// laneInfo is what is told of a lane.
type laneInfo struct {
	Endpoint      string    `json:"endpoint"`
	State         string    `json:"state"`
	Status        string    `json:"status"`
	OpenedAt      time.Time `json:"opened_at"`
	OpenReason    string    `json:"open_reason"`
	HoldUntil     time.Time `json:"hold_until"`
	NextProbeAt   time.Time `json:"next_probe_at"`
	Limit         float64   `json:"limit"`
	LimitMode     string    `json:"limit_mode"`
	SlowStart     bool      `json:"slow_start"`
	PacedBy       string    `json:"paced_by"`
	RatePerSecond float64   `json:"rate_per_second"`

	Learnt     learntInfo `json:"learnt"`
	RetryQueue struct {
		Depth   *int64 `json:"depth"`
		AtLeast bool   `json:"at_least"`
		Growing bool   `json:"growing"`
	} `json:"retry_queue"`
}

type learntInfo struct {
	Usual    float64 `json:"usual"`
	Proven   float64 `json:"proven"`
	HostRate float64 `json:"host_rate"`
	Ceiling  *struct {
		Rate      float64   `json:"rate"`
		Learnt    float64   `json:"learnt"`
		At        time.Time `json:"at"`
		Sure      bool      `json:"sure"`
		TestAfter time.Time `json:"test_after"`
	} `json:"ceiling"`
	Throttle *struct {
		Rate       float64   `json:"rate"`
		At         time.Time `json:"at"`
		RetryAfter string    `json:"retry_after"`
	} `json:"throttle"`
	Recovery *struct {
		Rate float64 `json:"rate"`
		Held string  `json:"held"`
	} `json:"recovery"`
}

func (s *session) endpointLane() *cobra.Command {
	return &cobra.Command{
		Use: "lane ENDPOINT", Short: "Say whether an endpoint is sent to, how fast, and why not faster", Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.client()
			if err != nil {
				return err
			}
			var raw json.RawMessage
			path := "T/endpoints/" + url.PathEscape(args[0]) + "/lane"
			if err := c.call(cmd.Context(), request{method: http.MethodGet, path: path}, &raw); err != nil {
				return err
			}
			if s.json {
				return s.printJSON(raw)
			}
			var l laneInfo
			if err := json.Unmarshal(raw, &l); err != nil {
				return fmt.Errorf("understand answer: %w", err)
			}
			return s.printFacts(l.facts(time.Now()))
		},
	}
}

// fact is one line about a lane.
type fact struct{ name, text string }

func (s *session) printFacts(facts []fact) error {
	w := tabwriter.NewWriter(s.Stdout, 0, 0, 2, ' ', 0)
	for _, f := range facts {
		fmt.Fprintf(w, "%s\t%s\n", f.name, f.text)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func (l *laneInfo) facts(now time.Time) []fact {
	out := []fact{
		{"endpoint", l.Endpoint + ", " + l.Status},
		{"breaker", l.breaker()},
	}
	if l.HoldUntil.After(now) {
		out = append(out, fact{"hold", "nothing is sent before " + clock(l.HoldUntil) + ": the endpoint asked for it"})
	}
	limit := "at most " + decimal(l.Limit) + " requests in flight, " + l.LimitMode
	if l.SlowStart {
		limit += ", slow start"
	}
	out = append(out, fact{"limit", limit}, fact{"pace", l.pace()})
	out = append(out, l.Learnt.facts()...)
	if q := l.RetryQueue; q.Depth != nil {
		depth := strconv.FormatInt(*q.Depth, 10)
		if q.AtLeast {
			depth = "at least " + depth
		}
		if q.Growing {
			depth += ", growing"
		}
		out = append(out, fact{"retry queue", depth})
	}
	return out
}

func (l *laneInfo) breaker() string {
	if l.State != "open" {
		return l.State
	}
	text := "open since " + clock(l.OpenedAt)
	switch l.OpenReason {
	case "consecutive":
		text += " after failures in a row"
	case "ratio":
		text += " because most first attempts failed"
	}
	return text + "; next probe " + clock(l.NextProbeAt)
}

// paces says what each reason to pace a lane means.
var paces = map[string]string{
	"throttle":   "the endpoint refused more",
	"ceiling":    "more broke it before",
	"recovery":   "it has just come back",
	"host":       "other endpoints of its host came back with it",
	"rate_limit": "its policy says so",
}

func (l *laneInfo) pace() string {
	if l.PacedBy == "" {
		return "none"
	}
	text := perSecond(l.RatePerSecond) + " by " + l.PacedBy
	if why := paces[l.PacedBy]; why != "" {
		text += ": " + why
	}
	return text
}

// facts tells what was learnt, one line each.
func (n *learntInfo) facts() (out []fact) {
	add := func(name, format string, args ...any) { out = append(out, fact{name, fmt.Sprintf(format, args...)}) }
	if n.Usual > 0 {
		add("usual", "%s of live events", perSecond(n.Usual))
	}
	if n.Proven > 0 {
		add("proven", "%s were carried", perSecond(n.Proven))
	}
	if c := n.Ceiling; c != nil {
		certainty := "a suspicion"
		if c.Sure {
			certainty = "more than once"
		}
		add("ceiling", "broke at %s, %s, last %s; %s", perSecond(c.Learnt), certainty, clock(c.At), n.test())
	}
	if t := n.Throttle; t != nil {
		add("throttle", "refused %s, asked to wait %s; %s now, rising by itself", clock(t.At), t.RetryAfter, perSecond(t.Rate))
	}
	if r := n.Recovery; r != nil {
		add("recovery", "at %s, of what was held for %s", perSecond(r.Rate), r.Held)
	}
	if n.HostRate > 0 {
		add("host", "leaves it %s", perSecond(n.HostRate))
	}
	if len(out) == 0 {
		add("learnt", "nothing")
	}
	return out
}

// test says when a ceiling is tried.
func (n *learntInfo) test() string {
	switch c := n.Ceiling; {
	case c.Rate > c.Learnt:
		return "up to " + perSecond(c.Rate) + " are being tried"
	case c.Sure:
		return "more is tried after " + clock(c.TestAfter) + " if it is in the way"
	default:
		return "more is tried soon if it is in the way"
	}
}

func perSecond(r float64) string { return decimal(r) + "/s" }

// decimal shows a number with the digits that matter to a person.
func decimal(r float64) string {
	digits := 2
	switch {
	case r >= 100:
		digits = 0
	case r >= 10:
		digits = 1
	}
	text := strconv.FormatFloat(r, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}
