package cli

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

// progress tells how far a long command has come: a bar on a terminal, else a
// line now and then. A short one says nothing in a log.
type progress struct {
	s        *session
	what     string
	total    int
	terminal bool

	mu    sync.Mutex
	done  int
	told  time.Time
	drawn bool
}

func (s *session) newProgress(what string, total int) *progress {
	return &progress{s: s, what: what, total: total, terminal: isTerminal(s.Stderr), told: time.Now()}
}

// set notes how much is done. It may be called from several goroutines.
func (p *progress) set(done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = max(p.done, done)
	every := progressLine
	if p.terminal {
		every = progressRedraw
	}
	if p.s.quiet || p.total < 2 || time.Since(p.told) < every {
		return
	}
	p.told = time.Now()
	if !p.terminal {
		p.s.note("%s: %d of %d", p.what, p.done, p.total)
		return
	}
	p.drawn = true
	full := progressWidth * p.done / p.total
	bar := strings.Repeat("█", full) + strings.Repeat("░", progressWidth-full)
	_, _ = fmt.Fprintf(p.s.Stderr, "\r%s %s %d/%d", p.what, bar, p.done, p.total)
}

// end removes the bar.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		_, _ = fmt.Fprint(p.s.Stderr, "\r\x1b[K")
	}
}
