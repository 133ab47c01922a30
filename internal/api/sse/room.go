package sse

import (
	"context"
	"errors"
	"sync"
)

// Why a stream is not opened.
var (
	ErrFull      = errors.New("too many streams are open")
	ErrFullOfOne = errors.New("too many streams of one reader are open")
)

// Room bounds the streams that are open: all, and those of one reader. Make one with
// NewRoom.
type Room[K comparable] struct {
	most, mostOfOne int

	mu      sync.Mutex
	open    int
	of      map[K]int
	lagging map[K]bool // dropped because they read too slowly, and not told yet

	stopped context.Context //nolint:containedctx // ends with Stop
	stop    context.CancelFunc
}

// NewRoom is room for so many streams.
func NewRoom[K comparable](most, mostOfOne int) *Room[K] {
	r := &Room[K]{most: most, mostOfOne: mostOfOne, of: make(map[K]int), lagging: make(map[K]bool)}
	r.stopped, r.stop = context.WithCancel(context.Background()) //nolint:gosec // Stop calls it
	return r
}

// Enter makes room for a stream. It reports whether the reader's last one was dropped
// because it read too slowly, once.
func (r *Room[K]) Enter(reader K) (lagged bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.of[reader] >= r.mostOfOne:
		return false, ErrFullOfOne
	case r.open >= r.most || r.stopped.Err() != nil:
		return false, ErrFull
	}
	r.open++
	r.of[reader]++
	lagged = r.lagging[reader]
	delete(r.lagging, reader)
	return lagged, nil
}

// Leave gives the room of a stream back. lagged: it was dropped because its reader
// read too slowly, who is to be told when it comes again.
func (r *Room[K]) Leave(reader K, lagged bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	r.of[reader]--
	if r.of[reader] == 0 {
		delete(r.of, reader)
	}
	if lagged && len(r.lagging) < r.most {
		r.lagging[reader] = true
	}
}

// Stop ends all streams, and lets nobody in.
func (r *Room[K]) Stop() { r.stop() }

// Stopped is closed by Stop.
func (r *Room[K]) Stopped() <-chan struct{} { return r.stopped.Done() }
