package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/pause"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

func (s *session) replayWatch() *cobra.Command {
	return &cobra.Command{
		Use: "watch REPLAY", Short: "Follow a replay to its end", Args: kit.WantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := s.Client()
			if err != nil {
				return err
			}
			return s.watchReplay(cmd.Context(), c, args[0])
		},
	}
}

// The pace at which a replay is watched, and at which a line is printed where
// nobody can see a bar move.
const (
	replayPoll  = time.Second
	replayLines = 10 * time.Second
)

// watchReplay follows a replay until it ends or waits for a person. An
// interruption stops the watching, not the replay.
func (s *session) watchReplay(ctx context.Context, c *kit.Client, id string) error {
	bar := progressBar{session: s, moving: kit.IsTerminal(s.Stderr)}
	for {
		var raw json.RawMessage
		err := c.Call(ctx, kit.Request{Method: http.MethodGet, Path: kit.At("T/replays/ID", id)}, &raw)
		if ctx.Err() != nil {
			bar.leave()
			s.Note("the replay goes on; see: breakwater replay watch %s", id)
			return ctx.Err()
		}
		var r replay
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err != nil {
			bar.leave()
			return err
		}
		switch {
		case r.Status == "done", r.Status == "cancelled", kit.OrZero(r.PauseReason) == "stuck":
			bar.leave()
			return s.tellReplayEnd(raw, &r)
		default:
			bar.show(time.Now(), &r)
		}
		pause.For(ctx, replayPoll)
	}
}

// tellReplayEnd prints how the replay ended. Only a complete success is one.
func (s *session) tellReplayEnd(raw json.RawMessage, r *replay) error {
	p := &r.Progress
	err := s.Print(raw, r.ID+"\n", "%s %s: %s delivered, %s failed, %s skipped\n", r.ID, r.state(),
		thousands(p.Delivered), thousands(p.Failed), thousands(p.Skipped))
	switch {
	case err != nil:
		return err
	case kit.OrZero(r.PauseReason) == "stuck":
		return fmt.Errorf("the destination takes nothing; mend it, then: breakwater replay resume %s", r.ID)
	case r.Status == "cancelled":
		return errors.New("the replay was cancelled")
	case p.Failed > 0:
		return fmt.Errorf("%s not delivered: %w", kit.Plural(int(p.Failed), "delivery was", "deliveries were"), kit.ErrPartly)
	default:
		return nil
	}
}

// progressBar shows a replay on stderr: one line that moves on a terminal, a
// line now and then elsewhere.
type progressBar struct {
	*session

	moving bool
	width  int // of the line that is there
	last   time.Time
}

func (b *progressBar) show(now time.Time, r *replay) {
	if b.Quiet || b.JSON {
		return
	}
	line := r.line(now)
	if b.moving {
		width := len([]rune(line))
		_, _ = fmt.Fprintf(b.Stderr, "\r%s%s", line, strings.Repeat(" ", max(b.width-width, 0)))
		b.width = width
		return
	}
	if b.last.IsZero() || now.Sub(b.last) >= replayLines {
		b.last = now
		b.Note("%s", line)
	}
}

// leave ends the moving line.
func (b *progressBar) leave() {
	if b.width > 0 {
		b.Note("")
	}
	b.width = 0
}

const barWidth = 20

// line is the replay in one line:
// [##########          ] 48% 24,100/50,000 · 800/min · 0 failed · 26m left.
func (r *replay) line(now time.Time) string {
	p := &r.Progress
	var parts []string
	if p.Total != nil && p.Percent != nil {
		done := int(*p.Percent / 100 * barWidth)
		parts = append(parts, fmt.Sprintf("[%s%s] %.0f%% %s/%s", strings.Repeat("#", done), strings.Repeat(" ", barWidth-done),
			math.Floor(*p.Percent), thousands(r.ended()), thousands(*p.Total)))
	} else {
		parts = append(parts, thousands(r.ended())+" done")
	}
	if r.Status == "running" {
		parts = append(parts, thousands(int64(r.CurrentPerMinute))+"/min")
	} else {
		parts = append(parts, r.state())
	}
	parts = append(parts, thousands(p.Failed)+" failed")
	if left := time.Time(p.ETA).Sub(now); left > 0 {
		parts = append(parts, spell(left)+" left")
	}
	return strings.Join(parts, " · ")
}

// spell shows a duration as people say it: 45s, 26m, 3h10m, 2d.
func spell(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < time.Minute:
		return d.String()
	case d < time.Hour:
		return strconv.Itoa(int(d.Round(time.Minute)/time.Minute)) + "m"
	case d < 48*time.Hour:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return strconv.Itoa(int(d.Round(24*time.Hour)/(24*time.Hour))) + "d"
	}
}

// thousands writes a number with separators.
func thousands(n int64) string { return quantity.FormatCount(n) }
