package evaluate

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/stats"
)

const (
	quarter = 15 * time.Minute
	day     = 24 * time.Hour
	// pastFor is for how long the part of a day's figures is good that is more than
	// an hour old: it changes only by what leaves the window.
	pastFor = 10 * time.Minute
	// pastReads is how many subjects without a new dead letter are asked for it in
	// one round.
	pastReads = 200
)

// figures reads the figures of subjects. A little more than the last hour, some 70
// rows of one index, is read in every round. The rest of the day, some 1,400 rows, is
// read every ten minutes at most, and only once for a subject that has no dead
// letters: nothing but their rule asks for it.
type figures struct {
	store interface {
		Stats(ctx context.Context, s stats.Subject, from, to time.Time) ([]stats.Point, error)
	}
	past map[stats.Subject]*past
	left int // of pastReads
}

func newFigures(st Store) *figures { return &figures{store: st, past: make(map[stats.Subject]*past)} }

// past is the first part of a day's figures.
type past struct {
	counts stats.Counts
	until  time.Time
	usedAt time.Time
}

// window is what a subject has counted.
type window struct {
	quarter, hour, day stats.Counts // day is empty without dead letters
	minute             stats.Counts // the last full one
}

// read returns the figures of a subject. alerted tells that it has an alert, which
// must not end for want of the day's figures.
func (f *figures) read(ctx context.Context, s stats.Subject, now time.Time, alerted bool) (window, error) {
	var w window
	from := now.Add(-time.Hour)
	// Clocks of other nodes may be ahead a little.
	points, err := f.store.Stats(ctx, s, from.Add(-pastFor), now.Add(time.Minute))
	if err != nil {
		return w, err
	}
	last := now.Truncate(time.Minute).Add(-time.Minute)
	for i := range points {
		p := &points[i]
		if covers(p, from) {
			w.hour.Merge(p.Counts)
		}
		if covers(p, now.Add(-quarter)) {
			w.quarter.Merge(p.Counts)
		}
		if p.At.Equal(last) {
			w.minute.Merge(p.Counts)
		}
	}
	known, err := f.before(ctx, s, now, alerted || w.hour.AllDead() > 0)
	if err != nil {
		return w, err
	}
	if known.counts.AllDead() == 0 && w.hour.AllDead() == 0 {
		return w, nil // its only rule is about dead letters
	}
	w.day = known.counts.Clone()
	for i := range points {
		if p := &points[i]; !p.At.Before(known.until) {
			w.day.Merge(p.Counts)
		}
	}
	return w, nil
}

// covers tells whether some of a minute is later than from.
func covers(p *stats.Point, from time.Time) bool { return p.At.Add(time.Minute).After(from) }

// before returns the first part of the day.
func (f *figures) before(ctx context.Context, s stats.Subject, now time.Time, wanted bool) (*past, error) {
	until := now.Add(-time.Hour).Truncate(time.Minute)
	p := f.past[s]
	switch {
	case p != nil && (until.Sub(p.until) < pastFor || !wanted && p.counts.AllDead() == 0):
		p.usedAt = now
		return p, nil
	case p == nil && !wanted && f.left == 0:
		return &past{until: until}, nil
	}
	points, err := f.store.Stats(ctx, s, now.Add(-day), until)
	if err != nil {
		return nil, err
	}
	if f.left > 0 {
		f.left--
	}
	p = &past{counts: stats.Total(points), until: until, usedAt: now}
	f.past[s] = p
	return p, nil
}

// begin begins a round, and drops what nobody asked for lately.
func (f *figures) begin(now time.Time) {
	f.left = pastReads
	for s, p := range f.past {
		if now.Sub(p.usedAt) > 2*pastFor {
			delete(f.past, s)
		}
	}
}
