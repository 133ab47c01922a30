package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// replayFlags are the flags of replay: which deliveries, and how fast.
type replayFlags struct {
	status, reason, eventType []string
	endpoint, since, until    string
	all, missing              bool
	rate, maxRate             int
	dryRun, detach            bool
}

func (s *session) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use: "replay [DELIVERY...]", Short: "Deliver dead letters again, at a pace the destination can take",
		Long: "Deliver dead, delivered or cancelled deliveries again. What matches now is fed a few at a time; the pace doubles\n" +
			"after every clean minute, and the replay pauses by itself while the destination fails. With --include-missing an endpoint\n" +
			"also gets the events that it asks for and has no delivery of, such as those from before it was there.",
		Example: `  breakwater replay --endpoint ep_… --dry-run
  breakwater replay --endpoint ep_… --reason expired --since 24h
  breakwater replay --endpoint ep_… --include-missing --since 7d
  breakwater replay dlv_… dlv_…`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				if !strings.HasPrefix(id, "dlv_") {
					return kit.UnknownCommand(cmd, id)
				}
			}
			return s.replay(cmd.Context(), args, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.endpoint, "endpoint", "", "id or uid of an endpoint (default all of the tenant)")
	flags.StringSliceVar(&f.status, "status", nil, "dead, delivered or cancelled (default dead)")
	flags.StringSliceVar(&f.reason, "reason", nil, "why it ended")
	flags.StringSliceVar(&f.eventType, "type", nil, "event type such as order.paid or 'order.*'")
	flags.StringVar(&f.since, "since", "", "from this time on, or this long ago (24h)")
	flags.StringVar(&f.until, "until", "", "before this time, or before this long ago")
	flags.BoolVar(&f.missing, "include-missing", false, "also events since then that the endpoint asks for and has no delivery of (needs --endpoint and --since)")
	flags.BoolVar(&f.all, "all", false, "every dead letter of the tenant")
	flags.IntVar(&f.rate, "rate", 0, "deliveries per minute at the start (default by policy, 100)")
	flags.IntVar(&f.maxRate, "max-rate", 0, "deliveries per minute that the pace may grow to (default 10 times the start)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only count, and say how long it would take")
	flags.BoolVar(&f.detach, "detach", false, "do not watch it")
	cmd.AddCommand(
		s.replayList(),
		s.ShowCommand("show REPLAY", "Show a replay", "T/replays/ID"),
		s.replayWatch(),
		s.ActionCommand("pause REPLAY...", "POST T/replays/ID/pause", "Stop feeding; what was fed goes on", "paused"),
		s.ActionCommand("resume REPLAY...", "POST T/replays/ID/resume", "Go on from where it was", "resumed"),
		s.ActionCommand("cancel REPLAY...", "POST T/replays/ID/cancel", "End replays; what was not fed stays as it is", "cancelled"),
	)
	return cmd
}

// replayRequest is the body of a new replay.
type replayRequest struct {
	Endpoint    string   `json:"endpoint,omitempty"`
	Statuses    []string `json:"statuses,omitempty"`
	Reasons     []string `json:"reasons,omitempty"`
	Types       []string `json:"types,omitempty"`
	Since       string   `json:"since,omitempty"`
	Until       string   `json:"until,omitempty"`
	DeliveryIDs []string `json:"delivery_ids,omitempty"`
	All         bool     `json:"all,omitempty"`
	Missing     bool     `json:"include_missing,omitempty"`
	PerMinute   int      `json:"per_minute,omitempty"`
	MaxMultiple float64  `json:"max_multiple,omitempty"`
	DryRun      bool     `json:"dry_run,omitempty"`
}

// defaultReplayRate is the server's pace unless a policy says otherwise.
const defaultReplayRate = 100

func (f *replayFlags) request(ids []string) (replayRequest, error) {
	r := replayRequest{
		Endpoint: f.endpoint, Statuses: f.status, Reasons: f.reason, Types: f.eventType, Since: f.since, Until: f.until,
		DeliveryIDs: ids, All: f.all, Missing: f.missing, PerMinute: f.rate, DryRun: f.dryRun,
	}
	switch {
	case f.missing && (f.endpoint == "" || f.since == ""):
		return r, kit.Usagef("--include-missing: needs --endpoint and --since")
	case f.missing && len(ids) > 0:
		return r, kit.Usagef("--include-missing: what is missing has no id; leave the deliveries out")
	case f.rate < 0:
		return r, kit.Usagef("--rate: must be at least 1")
	case f.maxRate == 0:
		return r, nil
	}
	r.PerMinute = cmp.Or(f.rate, defaultReplayRate) // the multiple must mean something
	if f.maxRate < r.PerMinute {
		return r, kit.Usagef("--max-rate: must be at least the rate of %d", r.PerMinute)
	}
	r.MaxMultiple = float64(f.maxRate) / float64(r.PerMinute)
	return r, nil
}

func (s *session) replay(ctx context.Context, ids []string, f *replayFlags) error {
	body, err := f.request(ids)
	if err != nil {
		return err
	}
	r := kit.Request{Method: http.MethodPost, Path: "T/replays", Body: body}
	if f.dryRun {
		return kit.Fetch(ctx, s.Session, r, s.printPreview)
	}
	c, err := s.Client()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.Call(ctx, r, &raw); err != nil {
		return err
	}
	created, err := kit.Understand[replay](raw)
	if err != nil {
		return err
	}
	about := fmt.Sprintf("%s %s, %s", created.ID, created.Status, created.size())
	if f.detach {
		return s.Print(raw, created.ID+"\n", "%s\n", about)
	}
	if !s.JSON && !s.Quiet {
		s.Note("%s", about)
	}
	return s.watchReplay(ctx, c, created.ID)
}

func (s *session) printPreview(p view.ReplayPreview) error {
	if s.Quiet {
		return s.Printf("%d\n", p.Count)
	}
	count := thousands(p.Count)
	if !p.Exact {
		count = "at least " + count
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s would be replayed in about %s\n", deliveriesText(p.Count, count), spell(time.Duration(p.EstimatedSeconds)*time.Second))
	if p.Missing > 0 {
		fmt.Fprintf(&b, "  %s of them for events that have none yet\n", thousands(p.Missing))
	}
	for _, e := range p.PerEndpoint {
		fmt.Fprintf(&b, "  %s %s %s\n", e.Endpoint, thousands(e.Count), e.State)
	}
	if err := s.Printf("%s", b.String()); err != nil {
		return err
	}
	for _, w := range p.Warnings {
		s.Note("warning: %s", w)
	}
	return nil
}

func deliveriesText(n int64, count string) string {
	if n == 1 {
		return count + " delivery"
	}
	return count + " deliveries"
}

// replay is what the commands show of a replay.
type replay struct{ view.Replay }

// ended returns how many have come to their end.
func (r *replay) ended() int64 { return r.Progress.Delivered + r.Progress.Failed + r.Progress.Skipped }

// size tells how many deliveries the replay is about.
func (r *replay) size() string {
	if r.Progress.Total == nil {
		return "too many deliveries to count"
	}
	return deliveriesText(*r.Progress.Total, thousands(*r.Progress.Total))
}

// state is the status, with the reason of a pause.
func (r *replay) state() string {
	if why := kit.OrZero(r.PauseReason); why != "" {
		return r.Status + ":" + why
	}
	return r.Status
}

func (s *session) replayList() *cobra.Command {
	return kit.ListCommand(s.Session, "List replays", "T/replays", "ID STATUS DONE TOTAL RATE FAILED CREATED", func(r replay) []string {
		total := "–"
		if r.Progress.Total != nil {
			total = thousands(*r.Progress.Total)
		}
		return []string{
			r.ID, r.state(), thousands(r.ended()), total, fmt.Sprintf("%d/min", r.CurrentPerMinute),
			thousands(r.Progress.Failed), kit.Clock(r.CreatedAt),
		}
	}, kit.Filter{Name: "status", Help: "queued, running, paused, done or cancelled"})
}
