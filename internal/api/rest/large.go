package rest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

const (
	// A large answer is in memory until its client has read it, so these bound
	// what all of them together may hold, and those of one key.
	maxLargeReads    = 64 << 20
	maxLargeOfKey    = 8 << 20
	largeReadsWait   = time.Second
	largeReadsOfKey  = "too many large answers for this key at the same time"
	largeReadsServer = "too many large answers at the same time"
)

// shelf holds answers that are large.
type shelf struct {
	all, perKey int64

	mu    sync.Mutex
	used  int64
	of    map[hook.ID]int64
	freed chan struct{} // closed when something was put back
}

func newShelf(all, perKey int64) *shelf {
	return &shelf{all: max(all, perKey), perKey: perKey, of: map[hook.ID]int64{}, freed: make(chan struct{})}
}

// take waits a moment for room for an answer of a key and returns how to give
// it back.
func (s *shelf) take(ctx context.Context, key hook.ID, size int64) (release func(), err error) {
	size = min(size, s.perKey)
	patience := time.NewTimer(largeReadsWait)
	defer patience.Stop()
	for {
		ok, full, freed := s.try(key, size)
		if ok {
			return func() { s.put(key, size) }, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-patience.C:
			return nil, full
		}
	}
}

// try takes room if there is any, else returns the answer for whoever gives up
// and what to wait for.
func (s *shelf) try(key hook.ID, size int64) (ok bool, full *Problem, freed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[key]+size > s.perKey:
		full = NewProblem(http.StatusTooManyRequests, "rate_limited", largeReadsOfKey)
	case s.used+size > s.all:
		full = NewProblem(http.StatusServiceUnavailable, "overloaded", largeReadsServer)
	default:
		s.used += size
		s.of[key] += size
		return true, nil, nil
	}
	full.retryAfter = time.Second
	return false, full, s.freed
}

func (s *shelf) put(key hook.ID, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= size
	if s.of[key] -= size; s.of[key] == 0 {
		delete(s.of, key)
	}
	close(s.freed)
	s.freed = make(chan struct{})
}

// Large makes room for an answer of up to size bytes. It is given back when
// the client has the answer, or is gone.
func (s *Server) Large(ctx context.Context, c *Call, size int64) error {
	if c.Key == nil {
		return nil
	}
	release, err := s.shelf.take(ctx, c.Key.ID, size)
	if err != nil {
		return err
	}
	c.release = release
	return nil
}

// Hold makes room as Large does, for a part of an answer that goes on: whoever calls
// gives it back.
func (s *Server) Hold(ctx context.Context, c *Call, size int64) (release func(), err error) {
	return s.shelf.take(ctx, c.Key.ID, size)
}
