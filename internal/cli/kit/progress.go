package kit

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	progressWidth  = 40
	progressRedraw = 100 * time.Millisecond // on a terminal
	progressLine   = 10 * time.Second       // elsewhere
)

// Progress tells how far a long command has come: a bar on a terminal, else a
// line now and then. A short one says nothing in a log.
type Progress struct {
	s        *Session
	what     string
	total    int
	terminal bool

	mu    sync.Mutex
	done  int
	told  time.Time
	drawn bool
}

// NewProgress begins to tell of a long command. With a total of 0 nobody knows how
// long.
func (s *Session) NewProgress(what string, total int) *Progress {
	return &Progress{s: s, what: what, total: total, terminal: IsTerminal(s.Stderr), told: time.Now()}
}

// Set notes how much is done. It may be called from several goroutines.
func (p *Progress) Set(done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = max(p.done, done)
	every := progressLine
	if p.terminal {
		every = progressRedraw
	}
	if p.s.Quiet || p.total == 1 || time.Since(p.told) < every {
		return
	}
	p.told = time.Now()
	if p.total == 0 {
		p.count()
		return
	}
	if !p.terminal {
		p.s.Note("%s: %d of %d", p.what, p.done, p.total)
		return
	}
	p.drawn = true
	full := progressWidth * p.done / p.total
	bar := strings.Repeat("█", full) + strings.Repeat("░", progressWidth-full)
	_, _ = fmt.Fprintf(p.s.Stderr, "\r%s %s %d/%d", p.what, bar, p.done, p.total)
}

// count tells how much is done where it is not known of how much.
func (p *Progress) count() {
	if !p.terminal {
		p.s.Note("%s: %d", p.what, p.done)
		return
	}
	p.drawn = true
	_, _ = fmt.Fprintf(p.s.Stderr, "\r%s: %d", p.what, p.done)
}

// End removes the bar.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		_, _ = fmt.Fprint(p.s.Stderr, "\r\x1b[K")
	}
}
