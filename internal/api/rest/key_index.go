package rest

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// missesPerSecond bounds the lookups of keys that nobody has, all addresses
	// together; beyond it the index answers.
	missesPerSecond = 20
	missesAtOnce    = 100

	// indexRest is the least time between two readings of the index, and
	// indexShare how many times longer than a reading it is: wrong keys take at
	// most that share of the store.
	indexRest    = time.Second
	indexShare   = 20
	indexPage    = 1000
	indexTimeout = 30 * time.Second
	// maxIndexed bounds its memory. Keys beyond it, the oldest, are found like
	// any other unless wrong keys flood the server before they were used once.
	maxIndexed = 1 << 20
)

// keyIndex says which keys exist, so that a flood of wrong ones need not be
// looked up one by one. It is read only when it is asked, and not while it is
// young: a key that another node made is in it a second later. It holds the
// first 64 bits of each hash; whoever could make another key with the same
// would learn nothing but that it is wrong.
type keyIndex struct {
	keys  store.Keys
	clock func() time.Time

	mu      sync.Mutex
	known   map[uint64]struct{}
	read    time.Time // when the last reading began
	rest    time.Duration
	err     error         // of the last reading
	reading chan struct{} // closed when it has ended; nil: none
	added   []uint64      // while reading
}

func newKeyIndex(keys store.Keys, clock func() time.Time) *keyIndex {
	return &keyIndex{keys: keys, clock: clock}
}

func mark(hash [32]byte) uint64 { return binary.BigEndian.Uint64(hash[:8]) }

// has reports whether there is a key with that hash.
func (x *keyIndex) has(ctx context.Context, hash [32]byte, now time.Time) (bool, error) {
	x.mu.Lock()
	if _, ok := x.known[mark(hash)]; ok {
		x.mu.Unlock()
		return true, nil
	}
	age := now.Sub(x.read)
	if age >= 0 && age < x.rest {
		defer x.mu.Unlock()
		return false, x.unread()
	}
	reading := x.reading
	if reading == nil {
		x.reading = make(chan struct{})
	}
	x.mu.Unlock()

	if reading == nil {
		x.load(context.WithoutCancel(ctx), now) // others wait for it too
	} else {
		select {
		case <-reading:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.known[mark(hash)]
	return ok, x.unread()
}

// unread returns why nothing is known at all.
func (x *keyIndex) unread() error {
	if x.known == nil {
		return x.err
	}
	return nil
}

// load reads all keys. What was known stays when it fails.
func (x *keyIndex) load(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, indexTimeout)
	defer cancel()
	began := x.clock()
	known, err := x.readAll(ctx)
	took := x.clock().Sub(began)

	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err = err; err == nil {
		for _, m := range x.added {
			known[m] = struct{}{}
		}
		x.known = known
	}
	x.read, x.rest, x.added = now, max(indexRest, indexShare*took), nil
	close(x.reading)
	x.reading = nil
}

func (x *keyIndex) readAll(ctx context.Context) (map[uint64]struct{}, error) {
	known := map[uint64]struct{}{}
	var after hook.ID
	for len(known) < maxIndexed {
		page, err := x.keys.ListKeys(ctx, 0, store.Page{Limit: indexPage, After: after})
		if err != nil {
			return nil, fmt.Errorf("read the index of keys: %w", err)
		}
		for i := range page {
			known[mark(page[i].Hash)] = struct{}{}
		}
		if len(page) < indexPage {
			break
		}
		after = page[len(page)-1].ID
	}
	return known, nil
}

// add notes a key that this process made.
func (x *keyIndex) add(hash [32]byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known != nil {
		x.known[mark(hash)] = struct{}{}
	}
	if x.reading != nil {
		x.added = append(x.added, mark(hash))
	}
}

// remove drops a key that turned out to be gone: its holder must not make us
// look for it again and again.
func (x *keyIndex) remove(hash [32]byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.known, mark(hash))
}
