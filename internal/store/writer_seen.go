package store

import "time"

// Waiting is what waits for the writer's next commits.
type Waiting struct {
	Accepts Load // with what has room reserved
	Results int
}

// Waiting returns what waits now.
func (w *Writer) Waiting() Waiting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Waiting{Accepts: w.accepts.load, Results: len(w.settles)}
}

// timed notes how long the commit of so many rows took, all its tries together.
func (w *Writer) timed(rows int, took time.Duration) {
	w.took += (took - w.took) / 8
	if w.cfg.Timed != nil {
		w.cfg.Timed(rows, took)
	}
}
