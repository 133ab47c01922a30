package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/pause"
)

// The pace at which a followed event is looked at.
const (
	firstPoll = 100 * time.Millisecond
	slowPoll  = 2 * time.Second
)

// maxFollowed bounds the deliveries that are followed.
const maxFollowed = 10_000

// Follow tells every attempt of an event's deliveries as it ends, until all deliveries
// have ended or the limit is over, 0 for none. It fails unless all were delivered. An
// interruption stops the watching, not the deliveries.
func Follow(ctx context.Context, s *kit.Session, c *kit.Client, event string, began time.Time, limit time.Duration) error {
	f := follower{Session: s, client: c, event: event, told: map[string]*told{}}
	watching, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		watching, cancel = context.WithDeadlineCause(ctx, began.Add(limit), errLimit)
	}
	defer cancel()
	pending := 0
	for poll := firstPoll; ; poll = min(poll*3/2, slowPoll) {
		n, err := f.look(watching)
		if watching.Err() != nil {
			return f.leave(ctx, cmp.Or(pending, 1), limit)
		}
		if err != nil {
			return err
		}
		if pending = n; pending == 0 {
			break
		}
		pause.For(watching, poll)
	}
	took := time.Since(began).Round(time.Millisecond)
	if f.failed > 0 {
		return fmt.Errorf("%s not delivered, after %s; see: breakwater inspect %s", kit.Plural(f.failed, "delivery was", "deliveries were"), took, event)
	}
	if !s.Quiet {
		s.Note("all delivered after %s", took)
	}
	return nil
}

var errLimit = errors.New("the limit of waiting is over")

// follower is what was told of one event.
type follower struct {
	*kit.Session

	client *kit.Client
	event  string
	told   map[string]*told // by delivery
	failed int
}

type told struct {
	attempts int
	keeps    string // why it was not sent, as it was told last
	ended    bool
}

// leave ends the watching before the end.
func (f *follower) leave(ctx context.Context, pending int, limit time.Duration) error {
	how := "see: breakwater inspect " + f.event
	if ctx.Err() != nil {
		f.Note("still pending; %s", how)
		return ctx.Err()
	}
	return fmt.Errorf("%s still pending after %s; %s", kit.Plural(pending, "delivery is", "deliveries are"), limit, how)
}

// look tells what happened since the last look and counts what is pending.
func (f *follower) look(ctx context.Context) (pending int, err error) {
	p, err := f.client.List(ctx, kit.At("T/events/ID/deliveries", f.event), url.Values{}, maxFollowed)
	if err != nil {
		return 0, err
	}
	for _, raw := range p.Data {
		d, err := kit.Understand[view.Delivery](raw)
		if err != nil {
			return 0, err
		}
		t := f.told[d.ID]
		if t == nil {
			t = &told{}
			f.told[d.ID] = t
		}
		if d.Status == "pending" {
			pending++
		}
		if t.ended {
			continue
		}
		if err := f.tell(ctx, raw, &d, t); err != nil {
			return 0, err
		}
	}
	return pending, nil
}

// tell tells what is new of a delivery. The attempt that ended it is told as its end.
func (f *follower) tell(ctx context.Context, raw json.RawMessage, d *view.Delivery, t *told) error {
	ended := d.Status != "pending"
	before := d.Attempts
	if ended && d.Last != nil {
		before--
	}
	if before > t.attempts {
		if err := f.tellAttempts(ctx, d, t, before); err != nil {
			return err
		}
	}
	if !ended {
		f.tellKeeps(d, t)
		return nil
	}
	t.ended = true
	if d.Status != "delivered" {
		f.failed++
	}
	if f.JSON {
		return f.PrintJSON(raw)
	}
	return f.Printf("%s\n", endOf(d))
}

func (f *follower) tellAttempts(ctx context.Context, d *view.Delivery, t *told, upTo int) error {
	p, err := f.client.List(ctx, kit.At("T/deliveries/ID/attempts", d.ID), url.Values{}, kit.Unpaged)
	if err != nil {
		return err
	}
	for _, raw := range p.Data {
		a, err := kit.Understand[view.Attempt](raw)
		if err != nil {
			return err
		}
		if a.Number <= t.attempts || a.Number > upTo {
			continue
		}
		t.attempts = a.Number
		if f.JSON {
			err = f.PrintJSON(raw)
		} else {
			err = f.Printf("%s %s\n", d.Endpoint, attemptStory(&a))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tellKeeps tells why a delivery is not sent though it is due.
func (f *follower) tellKeeps(d *view.Delivery, t *told) {
	keeps := kit.OrZero(d.WaitingFor)
	if keeps == t.keeps || f.Quiet {
		return
	}
	t.keeps = keeps
	if why := keepers[keeps]; why != "" {
		f.Note("%s waits: %s; see: breakwater endpoints lane %s", d.Endpoint, why, d.Endpoint)
	}
}

// keepers says what keeps a delivery that is due.
var keepers = map[string]string{
	"paused": "the endpoint is paused or disabled",
	"open":   "the breaker is open",
	"hold":   "the endpoint asked for silence",
}

// endOf tells how a delivery ended.
func endOf(d *view.Delivery) string {
	text := d.Endpoint + " " + d.Status
	if why := kit.OrZero(d.Reason); why != "" {
		text += " (" + why + ")"
	}
	if d.Last != nil {
		text += fmt.Sprintf(" %s in %.0f ms", cmp.Or(kit.StatusText(d.Last.StatusCode), kit.Dash(d.Last.Reason)), d.Last.LatencyMS)
	}
	return text
}
