// Package strip remembers what happened to endpoints in a day, by the half hour: the
// strips of health in lists. What cannot change any more is read once.
//
// It reads nothing itself and knows no clock.
package strip

import (
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

const (
	// Cell is how long each is.
	Cell = 30 * time.Minute
	// stripFinal is how long after its end a cell may still change: figures are
	// seconds late.
	stripFinal = 10 * time.Minute
	// stripKept is after how long all of a strip is read again, should its cells
	// have changed later than that, and stripsKept how many are remembered.
	stripKept  = time.Hour
	stripsKept = 1024
)

// Begins returns when the first cell of a strip up to now begins.
func Begins(now time.Time) time.Time {
	return time.Unix((cellOf(now)-view.StripCells+1)*int64(Cell.Seconds()), 0)
}

// Memory remembers the cells that do not change any more: an endpoint that gets
// something every minute has 1,440 rows of figures a day.
type Memory struct {
	mu   sync.Mutex
	kept map[hook.ID]keptStrip
}

type keptStrip struct {
	at    time.Time // it was read
	upTo  int64     // cells before it are known, of a day
	cells view.Cells
}

// cellOf is the number of the cell that a moment is in.
func cellOf(t time.Time) int64 { return t.Unix() / int64(Cell.Seconds()) }

// Of returns the strips of endpoints up to now. read reads figures from a moment on.
func (s *Memory) Of(ids []hook.ID, now time.Time, read func(ids []hook.ID, from time.Time) (map[hook.ID][]stats.Point, error),
) (map[hook.ID]view.Cells, error) {
	last, final := cellOf(now), cellOf(now.Add(-stripFinal))
	known, cold, warm, from := s.known(ids, now)
	out := make(map[hook.ID]view.Cells, len(ids))
	for _, part := range []struct {
		ids  []hook.ID
		from int64
	}{{cold, last - view.StripCells + 1}, {warm, from}} {
		if len(part.ids) == 0 {
			continue
		}
		points, err := read(part.ids, time.Unix(part.from*int64(Cell.Seconds()), 0))
		if err != nil {
			return nil, err
		}
		for _, id := range part.ids {
			cells := known[id].cells.From(last-view.StripCells+1, part.from)
			for i := range points[id] {
				if n := cellOf(points[id][i].At); n >= part.from {
					cells.Add(n, &points[id][i].Counts)
				}
			}
			out[id] = cells
		}
	}
	s.keep(out, known, now, final)
	return out, nil
}

// known returns what is remembered, who has to be read from the beginning, who need
// not, and from which cell on these have to be.
func (s *Memory) known(ids []hook.ID, now time.Time) (known map[hook.ID]keptStrip, cold, warm []hook.ID, from int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, from = make(map[hook.ID]keptStrip, len(ids)), cellOf(now)
	for _, id := range ids {
		if k, ok := s.kept[id]; ok && now.Sub(k.at) < stripKept && !now.Before(k.at) {
			known[id], from, warm = k, min(from, k.upTo), append(warm, id)
			continue
		}
		cold = append(cold, id)
	}
	return known, cold, warm, from
}

func (s *Memory) keep(read map[hook.ID]view.Cells, known map[hook.ID]keptStrip, now time.Time, final int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil || len(s.kept)+len(read) > stripsKept {
		s.kept = make(map[hook.ID]keptStrip)
	}
	for id, cells := range read {
		k := keptStrip{at: now, upTo: final, cells: cells}
		if before, ok := known[id]; ok {
			k.at = before.at
		}
		s.kept[id] = k
	}
}
