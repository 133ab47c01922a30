package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/pause"
)

// maxLanes bounds the lanes of one table.
const maxLanes = 1000

func lanesCommand(s *kit.Session) *cobra.Command {
	var state string
	var storm, watching bool
	limit := 0
	cmd := &cobra.Command{
		Use: "lanes", Short: "List the lanes of endpoints: which are open, how fast, and what waits", Args: kit.WantArgs(0, 0),
		Long:    "List lanes, the worst first: open ones, storms, paused ones, then by what waits for another attempt. Without --tenant those of every tenant that the key may see.",
		Example: "  breakwater lanes --state open\n  breakwater lanes --storm --watch",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if state != "" && state != "open" && state != "closed" {
				return kit.Usagef("--state: must be open or closed")
			}
			if limit < 1 || limit > maxLanes {
				return kit.Usagef("--limit: must be between 1 and %d", maxLanes)
			}
			anyTenant(cmd, s)
			q := url.Values{}
			if state != "" {
				q.Set("state", state)
			}
			if storm {
				q.Set("storm", "true")
			}
			return showLanes(cmd.Context(), s, q, limit, watching)
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "of the breaker: open or closed")
	cmd.Flags().BoolVar(&storm, "storm", false, "only those with a retry storm")
	cmd.Flags().BoolVar(&watching, "watch", false, "draw the table again every two seconds, until Ctrl-C")
	cmd.Flags().IntVar(&limit, "limit", kit.DefaultLimit, "most lanes to list")
	return cmd
}

func topCommand(s *kit.Session) *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "top", Short: "Show the worst lanes, live", Args: kit.WantArgs(0, 0),
		Long: "Show the worst lanes: on a terminal a table that is drawn again every two seconds until Ctrl-C, elsewhere one table.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxLanes {
				return kit.Usagef("--limit: must be between 1 and %d", maxLanes)
			}
			anyTenant(cmd, s)
			return showLanes(cmd.Context(), s, url.Values{}, limit, kit.IsTerminal(s.Stdout))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many lanes to show")
	return cmd
}

// redraw is how often a table is drawn again.
const redraw = 2 * time.Second

// showLanes prints a table of lanes, once or until the end of ctx. A terminal is
// cleared in between; elsewhere, tables follow each other.
func showLanes(ctx context.Context, s *kit.Session, q url.Values, limit int, again bool) error {
	c, err := s.Client()
	if err != nil {
		return err
	}
	for {
		p, err := c.List(ctx, "T/lanes", q, maxLanes)
		if err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		q.Del("cursor")
		if err := printLanes(s, p, limit, again); err != nil || !again {
			return err
		}
		pause.For(ctx, redraw)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func printLanes(s *kit.Session, p kit.Page, limit int, again bool) error {
	type pair struct {
		raw  json.RawMessage
		lane lane
	}
	var lanes []pair
	for _, raw := range p.Data {
		l, err := kit.Understand[lane](raw)
		if err != nil {
			return err
		}
		lanes = append(lanes, pair{raw, l})
	}
	slices.SortStableFunc(lanes, func(a, b pair) int { return a.lane.worse(&b.lane) })
	if len(lanes) > limit {
		lanes = lanes[:limit]
	}
	if again && !s.JSON && kit.IsTerminal(s.Stdout) {
		if err := s.Printf("\x1b[H\x1b[2J%s\n", time.Now().Format(time.TimeOnly)); err != nil {
			return err
		}
	}
	sorted := kit.Page{Next: p.Next}
	for _, each := range lanes {
		sorted.Data = append(sorted.Data, each.raw)
	}
	return kit.PrintPage(s, sorted, "ENDPOINT STATE LIMIT PACE RETRYING STORM NEXT URL", func(l lane) []string { return l.row(time.Now()) })
}

// worse orders lanes by trouble.
func (l *lane) worse(other *lane) int {
	return cmp.Or(
		first(l.State == "open", other.State == "open"), first(l.Storm.Active, other.Storm.Active), first(l.Paused, other.Paused),
		cmp.Compare(kit.OrZero(other.RetryQueue.Depth), kit.OrZero(l.RetryQueue.Depth)),
	)
}

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// row tells of a lane in a table.
func (l *lane) row(now time.Time) []string {
	state := l.State
	if l.State == "open" {
		state += " " + now.Sub(time.Time(l.OpenedAt)).Round(time.Second).String()
	}
	if l.Paused {
		state += ", " + l.Status
	}
	next := "–"
	if at := time.Time(l.NextProbeAt); l.State == "open" && !at.IsZero() {
		next = "probe in " + max(at.Sub(now), 0).Round(time.Second).String()
	}
	storm := "–"
	if l.Storm.Active {
		storm = "yes"
	}
	depth := "–"
	if n := l.RetryQueue.Depth; n != nil {
		depth = strconv.FormatInt(*n, 10)
	}
	pace, _, _ := strings.Cut(l.pace(), ":")
	return []string{l.Endpoint, state, kit.Decimal(l.Limit), pace, depth, storm, next, l.URL}
}
