// Package watch is the group of commands with which a person looks at what is
// delivered and why not: attempts as they end, the story of one object, the request
// of a delivery, and lanes.
package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// Commands returns the commands of the group.
func Commands(s *kit.Session) []*cobra.Command {
	return []*cobra.Command{tailCommand(s), inspectCommand(s), curlCommand(s), lanesCommand(s), topCommand(s)}
}

var attemptFilters = []kit.Filter{
	{Name: "endpoint", Help: "endpoint: its id or, with --tenant, its uid"},
	{Name: "type", Help: "event type such as order.paid or 'order.*'"},
	{Name: "kind", Help: "first, retry, probe, replay or manual"},
	{Name: "class", Help: "what came of it: success, down, throttled, permanent, ..."},
	{Name: "reason", Help: "why: ok, server_error, timeout_total, ..."},
}

func tailCommand(s *kit.Session) *cobra.Command {
	var follow bool
	var since string
	limit := 0
	cmd := &cobra.Command{
		Use: "tail", Short: "Show the latest attempts, and follow them as they end", Args: kit.WantArgs(0, 0),
		Long: "Show the latest attempts, oldest first. With -f, go on with those that end from now on until Ctrl-C.\n" +
			"A line has time, kind, endpoint, event type, status, latency, number and delivery, and when the next attempt is due.",
		Example: "  breakwater tail -f\n  breakwater tail -f --endpoint ep_... --class down\n  breakwater tail --since 1h --type 'order.*' --limit 500",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 || limit > maxTail {
				return kit.Usagef("--limit: must be between 0 and %d", maxTail)
			}
			t := tail{Session: s, query: kit.Query(cmd, attemptFilters), shown: map[string]bool{}}
			return t.run(cmd.Context(), since, limit, follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with attempts as they end")
	cmd.Flags().StringVar(&since, "since", "", "from this time on, or this long ago (default 1h)")
	cmd.Flags().IntVar(&limit, "limit", 20, "how many of the latest attempts to show first")
	kit.AddFilters(cmd, attemptFilters)
	return cmd
}

const maxTail = 10_000

// tail is one run of the command.
type tail struct {
	*kit.Session

	client *kit.Client
	query  url.Values
	last   string          // id of the latest attempt that was shown
	shown  map[string]bool // those that were shown before what the stream brings
}

func (t *tail) run(ctx context.Context, since string, limit int, follow bool) error {
	var err error
	if t.client, err = t.Client(); err != nil {
		return err
	}
	if !follow {
		return t.latest(ctx, since, limit)
	}
	// The stream is open before the list is read: what ends in between is in one of
	// them, or in both.
	st := &kit.Stream{Path: "T/attempts/stream", Query: t.query, Each: t.hear}
	st.Open = func() error {
		err := t.latest(ctx, since, limit)
		st.Last = t.last
		return err
	}
	return t.Follow(ctx, t.client, st)
}

// latest shows attempts that have ended.
func (t *tail) latest(ctx context.Context, since string, limit int) error {
	if limit == 0 {
		return nil
	}
	q := maps.Clone(t.query)
	if since != "" {
		q.Set("since", since)
	}
	p, err := t.client.List(ctx, "T/attempts", q, limit)
	if err != nil {
		return err
	}
	for _, raw := range slices.Backward(p.Data) {
		a, err := kit.Understand[view.AttemptEntry](raw)
		if err != nil {
			return err
		}
		if err := t.tell(raw, &a); err != nil {
			return err
		}
		t.shown[a.ID] = true
		if time.Since(time.Time(a.StartedAt)) < kit.Resumable {
			t.last = max(t.last, a.ID)
		}
	}
	return nil
}

// hear shows what the stream brings.
func (t *tail) hear(name, _, data string) error {
	switch name {
	case "attempt":
		a, err := kit.Understand[view.AttemptEntry](json.RawMessage(data))
		if err != nil {
			return err
		}
		if t.shown[a.ID] {
			return nil
		}
		return t.tell(json.RawMessage(data), &a)
	case "lagged":
		t.Note("some attempts were skipped: more ended than could be shown")
	}
	return nil
}

func (t *tail) tell(raw json.RawMessage, a *view.AttemptEntry) error {
	return t.Print(raw, a.ID+"\n", "%s\n", attemptLine(a))
}

// attemptLine tells of an attempt in a list over all deliveries.
func attemptLine(a *view.AttemptEntry) string {
	result := cmp.Or(kit.StatusText(a.StatusCode), a.Reason)
	line := fmt.Sprintf("%s  %-6s  %s  %s  %s  %s  #%d  %s", moment(a.StartedAt), a.Kind, a.Endpoint, kit.Dash(a.Type), result,
		latency(a.LatencyMS), a.Number, a.Delivery)
	if !time.Time(a.NextDueAt).IsZero() {
		line += "  next " + time.Time(a.NextDueAt).Local().Format(time.TimeOnly)
	}
	return line
}

// moment is a time of today as a clock on the wall shows it, to the millisecond.
func moment(at view.Stamp) string { return time.Time(at).Local().Format("15:04:05.000") }

func latency(ms float64) string { return strconv.FormatFloat(ms, 'f', 0, 64) + "ms" }
