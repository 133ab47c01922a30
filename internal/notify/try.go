package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// waits are between the tries of a notice: when each fails at once they are at
// 0 s, 5 s, 30 s, 2 min, 10 min and 1 h. A wait counts from the end of the try
// before it, so that a server which hangs is not asked back to back.
var waits = []time.Duration{5 * time.Second, 25 * time.Second, 90 * time.Second, 8 * time.Minute, 50 * time.Minute}

// MaxTries is how often a notice is tried at most.
const MaxTries = 6

// unheard is how much longer than a try may take a notice waits for its outcome
// to be reported before it is due again.
const unheard = 30 * time.Second

// permanentError is a failure that another try would not change.
type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

func permanent(err error) error { return &permanentError{err} }

// work makes one try of a notice and stores what became of it. It returns when
// the next try is due; zero: not known, or never. It begins nothing once ctx has
// ended; what has begun ends with sending.
func (s *Sender) work(ctx, sending context.Context, n *Notice) time.Time {
	if out, ok := s.settled(n); ok {
		s.report(ctx, sending, n, out)
		return time.Time{}
	}
	// The time runs from before Begin: a machine that slept in between finds it
	// over, and leaves the try to the one who took over.
	began := time.Now()
	deadline := began.Add(s.timeout)
	if !s.mayBegin(ctx, n, deadline.Add(unheard)) {
		s.rest(ctx)
		return time.Time{}
	}
	try, cancel := context.WithDeadline(sending, deadline)
	defer cancel()
	reached, err := s.send(try, n)
	out := s.judge(n, reached, err, sending.Err() != nil)
	s.report(ctx, sending, n, out)
	if out.Result != hook.NoticeWaiting {
		return time.Time{}
	}
	return out.Next
}

// settled reports what becomes of a notice that is not to be sent.
func (s *Sender) settled(n *Notice) (Outcome, bool) {
	out := Outcome{Result: hook.NoticeSkipped, Tries: n.Tries, Reached: n.Reached}
	switch {
	case n.Alert == nil && n.Event == nil, n.Kind == hook.NoticeFolded:
		return out, true
	case n.Event != nil && n.Channel.Kind != hook.ChannelWebhook:
		out.Error = "only webhook channels get operational events"
		return out, true
	case n.Tries >= MaxTries:
		// Somebody began the last try and never reported.
		out.Result, out.Error = hook.NoticeFailed, "nobody knows how the last try ended"
		return out, true
	case n.Alert != nil && n.Kind != hook.NoticeResolved && n.Alert.Status == hook.AlertResolved && n.Channel.SendResolved:
		// The notice of its end is next: nobody is to be paged for what is over.
		out.Error = "it was over before this could be sent"
		return out, true
	case n.Kind == hook.NoticeResolved && n.Alert.Status == hook.AlertFiring:
		out.Error = "it fired again before this could be sent"
		return out, true
	}
	return out, false
}

func (s *Sender) mayBegin(ctx context.Context, n *Notice, again time.Time) bool {
	call, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	ok, err := s.queue.Begin(call, n.Key(), n.Tries, again)
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "a try of a notice cannot be stored; it is not sent yet", "channel", n.Channel.Name, "error", err)
	}
	return ok && err == nil
}

// send gives the notice the form of its channel and sends it.
func (s *Sender) send(ctx context.Context, n *Notice) (reached []string, err error) {
	now := time.Now()
	if n.Event != nil {
		return nil, s.postWebhook(ctx, n, now)
	}
	c := s.links.describe(n, now)
	switch n.Channel.Kind {
	case hook.ChannelLog:
		s.writeLog(ctx, n, &c)
		return nil, nil
	case hook.ChannelWebhook:
		return nil, s.postWebhook(ctx, n, now)
	case hook.ChannelSlack:
		return nil, s.postSlack(ctx, n, &c)
	case hook.ChannelEmail:
		return s.sendEmail(ctx, n, &c, now)
	default:
		return nil, permanent(fmt.Errorf("unknown kind of channel: %s", n.Channel.Kind))
	}
}

// judge says what a try means. interrupted is set when we ended it ourselves,
// without knowing how far it had come: it does not count, and the next one is
// due at once.
func (s *Sender) judge(n *Notice, reached []string, err error, interrupted bool) Outcome {
	now := time.Now()
	out := Outcome{Result: hook.NoticeSent, Tries: n.Tries + 1, Reached: slices.Clone(reached)}
	var (
		part  *partError
		final *permanentError
	)
	switch {
	case err == nil:
		return out
	case errors.As(err, &part):
		out.Error = clean(err.Error(), maxSummary)
		return out
	case interrupted:
		out.Result, out.Tries, out.Next = hook.NoticeWaiting, n.Tries, now
	case errors.As(err, &final), out.Tries >= MaxTries:
		out.Result = hook.NoticeFailed
	default:
		out.Result, out.Next = hook.NoticeWaiting, now.Add(waits[out.Tries-1])
	}
	out.Error = clean(err.Error(), maxSummary)
	return out
}

// report stores an outcome, and goes on trying while the queue cannot take it:
// a notice that was sent and not reported would be sent again. The channel waits
// meanwhile. When ctx ends there is one more chance.
func (s *Sender) report(ctx, sending context.Context, n *Notice, out Outcome) {
	if out.Result == hook.NoticeFailed {
		s.log.WarnContext(ctx, "a notice could not be sent", "channel", n.Channel.Name, "kind", n.Channel.Kind.String(),
			"tries", out.Tries, "error", out.Error)
	}
	said := false
	for {
		last := ctx.Err() != nil
		call, cancel := context.WithTimeout(context.WithoutCancel(sending), storeCall)
		err := s.queue.End(call, n.Key(), out)
		cancel()
		if err == nil {
			return
		}
		if !said || last {
			s.log.ErrorContext(ctx, "what became of a notice cannot be stored; it may be sent twice", "channel", n.Channel.Name,
				"result", out.Result.String(), "giving_up", last, "error", err)
		}
		if said = true; last {
			return
		}
		s.rest(ctx)
	}
}

// rest keeps a channel quiet for a while: what just failed is not tried in a
// tight loop.
func (s *Sender) rest(ctx context.Context) {
	t := time.NewTimer(s.poll)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
