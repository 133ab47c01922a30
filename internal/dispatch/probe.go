package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/window"
)

// A search for a probe pages down from the newest due delivery. It ends early
// on the first one that never failed; the bounds are for a lane of which very
// many have failed.
const (
	probePage    = 256
	probePageMax = 4096
	probePages   = 32
	freshFound   = 64 // that never failed; the next probes then need no search
)

// seek looks on disk at the newest due deliveries: when a probe is due and the
// window holds nothing that never failed, or when a person may have asked for
// one. It reports whether the lane has to wait for that.
func (l *loop) seek(now time.Time, r *runner) bool {
	if !r.win.HasDue(now) {
		return false
	}
	probe := l.wantsProbe(now, r)
	if !probe && !r.win.LooksNewest() {
		return false
	}
	if !r.win.Reading() {
		l.startSearch(now, r)
	}
	return probe || !r.lane.BlockedSince(now).IsZero()
}

// wantsProbe reports whether a probe is due and the window has nothing good
// enough for it, or nothing at all.
func (l *loop) wantsProbe(now time.Time, r *runner) bool {
	if !r.lane.ProbeDue(now) || r.lane.HasFresh() {
		return false
	}
	return !r.soughtFresh || r.win.Waiting() == 0
}

func (l *loop) startSearch(now time.Time, r *runner) {
	s := &probeSearch{known: r.win.SearchBegun()}
	l.reads.add(func(ctx context.Context) func() {
		err := s.run(ctx, l.d.cfg.Store, r.endpoint, now)
		return func() { l.searchEnded(r, s, err) }
	})
}

// searchEnded takes what people asked for and, for the next probes of an open
// lane, what never failed, else the newest.
func (l *loop) searchEnded(r *runner, s *probeSearch, err error) {
	if r.dropped {
		return
	}
	now := time.Now()
	for i := range s.manual {
		l.admit(now, r, &s.manual[i], nil, window.Read)
	}
	switch {
	case err != nil:
		l.d.cfg.Log.Warn("search for a probe failed", "endpoint", hook.EndpointPrefix.Format(r.endpoint), "error", err)
		r.win.ReadEnded(now.Add(readAgain))
	case s.nothing():
		r.win.ReadEnded(s.next) // what is due is in memory
	default:
		if r.lane.ProbeDue(now) {
			l.admitProbes(now, r, s)
		}
		r.win.ReadPartly(time.Time{})
	}
	r.soughtFresh = err == nil && r.lane.ProbeDue(now) // until a probe has gone out
	l.touch(r)
}

func (l *loop) admitProbes(now time.Time, r *runner, s *probeSearch) {
	for i := range s.fresh {
		l.admit(now, r, &s.fresh[i], nil, window.Read)
	}
	if len(s.fresh) > 0 || s.failed == nil {
		return
	}
	if it := r.win.AdmitProbe(s.failed); it != nil {
		r.enqueue(now, it)
	}
}

// probeSearch looks for the newest deliveries on disk that never failed: enough
// of them that the next probes need no search of their own.
type probeSearch struct {
	known map[hook.ID]struct{} // in memory already

	manual []hook.Delivery // what people asked for: the newest of all
	fresh  []hook.Delivery
	failed *hook.Delivery // the newest of those that failed
	all    bool           // every due delivery was seen
	next   time.Time      // when the next one falls due, if nothing was found
}

// nothing reports whether all that is due was known before.
func (s *probeSearch) nothing() bool {
	return s.all && s.failed == nil && len(s.fresh)+len(s.manual) == 0
}

func (s *probeSearch) run(ctx context.Context, db Store, endpoint hook.ID, now time.Time) error {
	asOf, limit := now, probePage
	for n := range probePages {
		page, err := db.NewestDue(ctx, endpoint, asOf, limit)
		if err != nil {
			return fmt.Errorf("read newest due: %w", err)
		}
		s.look(page, n == 0)
		s.all = len(page) < limit
		if s.all || len(s.fresh) > 0 {
			break
		}
		last := page[len(page)-1].DueAt
		switch {
		case last.Before(page[0].DueAt):
			asOf = last
		case limit < probePageMax:
			limit *= 4 // one moment fills the page: a large batch
		default:
			asOf = last.Add(-time.Microsecond)
		}
	}
	if !s.nothing() {
		return nil
	}
	next, err := db.NextDue(ctx, endpoint, now)
	s.next = next
	return err
}

func (s *probeSearch) look(page []hook.Delivery, first bool) {
	for i := range page {
		d := &page[i]
		_, known := s.known[d.ID]
		switch {
		case known:
		case d.Restore != nil:
			if first {
				s.manual = append(s.manual, *d)
			}
		case d.Progress.FailedAttempts == 0 && len(s.fresh) < freshFound:
			s.fresh = append(s.fresh, *d)
		case s.failed == nil:
			s.failed = d
		}
	}
}
