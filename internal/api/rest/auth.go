package rest

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// authenticator finds the key of a request.
type authenticator struct {
	keys  store.Keys
	cache *freshCache[[32]byte, *hook.APIKey] // keys are never changed
	index *keyIndex
	looks *rate.Limiter // lookups of keys that were not seen before
	bad   *badKeys

	mu   sync.Mutex
	used map[hook.ID]time.Time // since the last flush
}

func newAuthenticator(keys store.Keys, clock func() time.Time) *authenticator {
	return &authenticator{
		keys:  keys,
		cache: newFreshCache[[32]byte, *hook.APIKey](maxCachedKeys, cacheFor),
		index: newKeyIndex(keys, clock),
		looks: rate.NewLimiter(missesPerSecond, missesAtOnce),
		bad:   newBadKeys(),
		used:  map[hook.ID]time.Time{},
	}
}

// key returns the valid key of a request. Absent, malformed, unknown, revoked
// and expired keys all get the same answer.
func (a *authenticator) key(ctx context.Context, h http.Header, c *Call) (*hook.APIKey, error) {
	text, err := bearer(h["Authorization"])
	if err != nil {
		return a.acting(ctx, c)
	}
	hash, err := hashKey(text)
	if err != nil {
		return nil, a.refuse(c)
	}
	return a.named(ctx, hash, c)
}

// named returns the valid key with a hash.
func (a *authenticator) named(ctx context.Context, hash [32]byte, c *Call) (*hook.APIKey, error) {
	k, err := a.lookup(ctx, hash, c)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(k.Hash[:], hash[:]) != 1 || !k.Valid(c.Now) {
		return nil, a.refuse(c)
	}
	a.touch(k.ID, c.Now)
	return k, nil
}

// lookup reads a key. What wrong keys cost the store is bounded, and never at
// the cost of right ones: a key that was not seen before is looked up while
// few were wrong of late, from its address and in all; otherwise only when the
// index of all keys has it.
func (a *authenticator) lookup(ctx context.Context, hash [32]byte, c *Call) (*hook.APIKey, error) {
	if k, ok := a.cache.fresh(hash, c.Now); ok {
		return k, nil
	}
	var turn *rate.Reservation
	if !a.cache.known(hash) {
		if turn = a.turn(c); turn == nil {
			has, err := a.index.has(ctx, hash, c.Now)
			if err != nil {
				return nil, fmt.Errorf("look up key: %w", err)
			}
			if !has {
				return nil, a.refuse(c)
			}
		}
	}
	k, err := a.keys.KeyByHash(ctx, hash)
	if errors.Is(err, hook.ErrNotFound) {
		a.cache.forget(hash)
		a.index.remove(hash)
		return nil, a.refuse(c)
	}
	if err != nil {
		return nil, fmt.Errorf("look up key: %w", err)
	}
	if turn != nil {
		turn.CancelAt(c.Now) // only wrong keys use turns up
	}
	a.cache.put(hash, &k, c.Now)
	return &k, nil
}

// turn returns leave to look up a key that was not seen before, nil for none.
func (a *authenticator) turn(c *Call) *rate.Reservation {
	if a.bad.wait(c.remote(), c.Now) > 0 {
		return nil
	}
	turn := a.looks.ReserveN(c.Now, 1)
	if turn.DelayFrom(c.Now) > 0 {
		turn.CancelAt(c.Now)
		return nil
	}
	return turn
}

// revoked makes this process forget one key at once. The others stay: a person
// who revokes keys in a hurry must not shut out everybody else.
func (a *authenticator) revoked(id hook.ID) {
	a.cache.forgetIf(func(k *hook.APIKey) bool { return k.ID == id })
}

// refuse counts a wrong key and returns the answer for it.
func (a *authenticator) refuse(c *Call) error {
	if wait := a.bad.add(c.remote(), c.Now); wait > 0 {
		return errTooManyBadKeys(wait)
	}
	return errUnauthorized
}

func (a *authenticator) touch(id hook.ID, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used[id] = now
}

// flushEvery is how far last_used_at may lag behind.
const flushEvery = 10 * time.Second

// run writes last uses until ctx ends, and once more then.
func (a *authenticator) run(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.flush(ctx, log)
		case <-ctx.Done():
			a.flushLast(ctx, log)
			return nil
		}
	}
}

// flushLast is flush at the end, when ctx has ended.
func (a *authenticator) flushLast(ctx context.Context, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	a.flush(ctx, log)
}

// flush writes the last uses. What cannot be written is kept for the next time.
func (a *authenticator) flush(ctx context.Context, log *slog.Logger) {
	a.mu.Lock()
	used := a.used
	a.used = map[hook.ID]time.Time{}
	a.mu.Unlock()
	if len(used) == 0 {
		return
	}
	err := a.keys.TouchKeys(ctx, used)
	if err == nil {
		return
	}
	log.Warn("cannot record the use of keys", "error", err)
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, t := range used {
		if a.used[id].Before(t) {
			a.used[id] = t
		}
	}
}

const (
	badKeysPerMinute = 30
	badKeyWindow     = time.Minute
	maxBadAddresses  = 10_000
)

// badKeys counts wrong keys per address in windows of a minute.
type badKeys struct {
	mu sync.Mutex
	m  map[netip.Addr]*badWindow
}

type badWindow struct {
	start time.Time
	count int
}

func newBadKeys() *badKeys { return &badKeys{m: map[netip.Addr]*badWindow{}} }

// add counts one wrong key and returns how long the address has to wait, 0
// while it is within its limit.
func (b *badKeys) add(from netip.Addr, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	from = network(from)
	w := b.m[from]
	if w == nil || now.Sub(w.start) >= badKeyWindow {
		b.makeRoom(now)
		w = &badWindow{start: now}
		b.m[from] = w
	}
	w.count++
	return w.wait(now)
}

// wait returns how long the address has to wait.
func (b *badKeys) wait(from netip.Addr, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.m[network(from)]
	if w == nil || w.count < badKeysPerMinute {
		return 0
	}
	return max(0, badKeyWindow-now.Sub(w.start))
}

func (w *badWindow) wait(now time.Time) time.Duration {
	if w.count <= badKeysPerMinute {
		return 0
	}
	return max(0, badKeyWindow-now.Sub(w.start))
}

// makeRoom keeps the table small whatever number of addresses an attacker has.
func (b *badKeys) makeRoom(now time.Time) {
	if len(b.m) < maxBadAddresses {
		return
	}
	for k, w := range b.m {
		if now.Sub(w.start) >= badKeyWindow {
			delete(b.m, k)
		}
	}
	if len(b.m) >= maxBadAddresses {
		clear(b.m)
	}
}

// network groups the addresses that one client commonly has: a /64 of IPv6.
func network(a netip.Addr) netip.Addr {
	if !a.Is6() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}
