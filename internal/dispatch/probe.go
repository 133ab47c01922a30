package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// A search for a probe pages down from the newest due delivery. It ends early
// on the first one that never failed; the bounds are for a lane of which very
// many have failed.
const (
	probePage    = 256
	probePageMax = 4096
	probePages   = 32
)

// seek looks on disk at the newest due deliveries: when a probe is due and the
// window holds nothing that never failed, or when a person may have asked for
// one. It reports whether the lane has to wait for that.
func (l *loop) seek(now time.Time, r *runner) bool {
	if r.diskDue.IsZero() || r.diskDue.After(now) {
		return false
	}
	probe := l.wantsProbe(now, r)
	if !probe && !r.lookNewest {
		return false
	}
	if !r.reading {
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
	return !r.soughtFresh || r.lane.Queued() == 0
}

func (l *loop) startSearch(now time.Time, r *runner) {
	r.reading, r.lookNewest = true, false
	s := &probeSearch{known: make(map[hook.ID]bool, len(r.items))}
	for id := range r.items {
		s.known[id] = true
	}
	l.reads.add(func() {
		ctx, cancel := context.WithTimeout(l.d.attempts, readTimeout)
		defer cancel()
		err := s.run(ctx, l.d.cfg.Store, r.endpoint, now)
		l.post(func() { l.searchEnded(r, s, err) })
	})
}

// searchEnded takes what people asked for and, for the next probes of an open
// lane, what never failed, else the newest.
func (l *loop) searchEnded(r *runner, s *probeSearch, err error) {
	l.reads.done()
	noted := r.readEnded()
	if r.dropped {
		return
	}
	now := time.Now()
	for _, d := range s.wished {
		l.admit(now, r, d, nil, true)
	}
	switch {
	case err != nil:
		l.d.cfg.Log.Warn("search for a probe failed", "endpoint", hook.EndpointPrefix.Format(r.endpoint), "error", err)
		r.diskDue = now.Add(readAgain)
	case s.nothing():
		r.diskDue = s.next // what is due is in memory
	case !r.lane.ProbeDue(now):
	case len(s.fresh) > 0:
		for _, d := range s.fresh {
			l.admit(now, r, d, nil, true)
		}
	case s.failed != nil && !r.knows(s.failed.ID):
		l.take(now, r, *s.failed, nil, true)
	}
	r.soughtFresh = err == nil && r.lane.ProbeDue(now) // until a probe has gone out
	r.note(noted)
	r.gone = nil
	l.touch(r)
}

// probeSearch looks for the newest deliveries on disk that never failed: enough
// of them that the next probes need no search of their own.
type probeSearch struct {
	known map[hook.ID]bool // in memory already

	wished []hook.Delivery // what people asked for: the newest of all
	fresh  []hook.Delivery
	failed *hook.Delivery // the newest of those that failed
	all    bool           // every due delivery was seen
	next   time.Time      // when the next one falls due, if nothing was found
}

// nothing reports whether all that is due was known before.
func (s *probeSearch) nothing() bool {
	return s.all && s.failed == nil && len(s.fresh)+len(s.wished) == 0
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
		switch d := &page[i]; {
		case s.known[d.ID]:
		case d.Restore != nil:
			if first {
				s.wished = append(s.wished, *d)
			}
		case d.Progress.Fails == 0 && len(s.fresh) < freshKept:
			s.fresh = append(s.fresh, *d)
		case s.failed == nil:
			s.failed = d
		}
	}
}
