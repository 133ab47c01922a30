package store

import "time"

// due reports whether something should be committed now.
func (w *Writer) due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepts.waiting > 0 || w.resultsDue(time.Now())
}

// resultsDue reports whether the results that wait should be committed now:
// many, or old enough. Few of them cost as much as many, since every table and
// index that they touch is written by the page. The caller holds mu.
func (w *Writer) resultsDue(now time.Time) bool {
	n := len(w.settles) + len(w.lanes)
	return n > 0 && (w.closed || n >= w.cfg.SettleMany || now.Sub(w.waits) >= w.cfg.SettleWait)
}

// idle is how long Run sleeps when nothing waits.
const idle = time.Hour

// untilDue returns when results that are kept back should be committed.
func (w *Writer) untilDue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.settles)+len(w.lanes) == 0 {
		return idle
	}
	return max(time.Until(w.waits.Add(w.cfg.SettleWait)), 0)
}
