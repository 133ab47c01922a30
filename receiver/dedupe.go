package receiver

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrBusy means that another call is working on the same event, and was still
// doing so when the time was up. It is answered 503 with Retry-After: 5.
var ErrBusy = errors.New("webhook is being worked on elsewhere")

// Deduper lets each event be worked on once. [SQL] is for production, [Memory] for
// tests and for servers of one process that may forget.
type Deduper interface {
	// Once runs fn unless id was completed within the TTL, and reports whether
	// fn ran. An fn that fails or panics leaves no mark, so that the next attempt
	// runs it again. While another call holds the same id, Once waits for
	// its end, or returns an error that matches ErrBusy.
	Once(ctx context.Context, id string, fn func(context.Context) error) (ran bool, err error)
}

// maxID is the longest id that is taken. Those of Breakwater have 17 characters.
const maxID = 255

// checkID refuses ids that some database would refuse or change: sent again,
// they would not get any better.
func checkID(id string) error {
	if id == "" || len(id) > maxID || !isPrintable(id) {
		return Permanent(fmt.Errorf("receiver: the id must have 1 to %d printable ASCII characters without spaces", maxID))
	}
	return nil
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// flights lets one call per id through at a time, within this process. Those who wait
// hold no connection to a database, so that a flood of copies of one
// request cannot use them all up.
type flights struct {
	mu   sync.Mutex
	held map[string]*flight
}

type flight struct {
	done      chan struct{}
	completed bool // readable once done is closed
}

// do runs f when nobody else holds id. When the call that it waited for completed
// the id, there is nothing left to do.
func (g *flights) do(ctx context.Context, id string, f func() (bool, error)) (ran bool, err error) {
	for {
		mine, other := g.take(id)
		if mine != nil {
			return g.run(id, mine, f)
		}
		select {
		case <-other.done:
			if other.completed {
				return false, nil
			}
		case <-ctx.Done():
			return false, fmt.Errorf("%w: %w", ErrBusy, ctx.Err())
		}
	}
}

// take returns a flight of the caller's own, or that of the one who has the id.
func (g *flights) take(id string) (mine, other *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if other := g.held[id]; other != nil {
		return nil, other
	}
	if g.held == nil {
		g.held = make(map[string]*flight)
	}
	mine = &flight{done: make(chan struct{})}
	g.held[id] = mine
	return mine, nil
}

func (g *flights) run(id string, mine *flight, f func() (bool, error)) (ran bool, err error) {
	defer func() { // also when f panics
		g.mu.Lock()
		delete(g.held, id)
		g.mu.Unlock()
		close(mine.done)
	}()
	ran, err = f()
	mine.completed = err == nil
	return ran, err
}
