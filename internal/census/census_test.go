package census_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/census"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// fake is a store in which every endpoint has the same queue.
type fake struct {
	mu     sync.Mutex
	counts []time.Time // when it was counted
	takes  time.Duration
	err    error
	ids    []hook.ID
}

func (f *fake) WaitingEndpoints(_ context.Context, shards []int) ([]hook.ID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = append(f.counts, time.Now())
	var all []store.PendingEndpoint
	for _, id := range f.ids {
		all = append(all, store.PendingEndpoint{ID: id})
	}
	return store.EndpointIDs(store.InShards(all, shards)), f.err
}

func (f *fake) Queues(_ context.Context, ids []hook.ID, now time.Time, _ store.QueueBounds) (out []store.Queue, err error) {
	time.Sleep(f.takes)
	for _, id := range ids {
		out = append(out, store.Queue{
			EndpointID: id, Ready: 1, Delayed: 2, Retrying: 3, Held: 4,
			ReadySince: now.Add(-time.Duration(id) * time.Second), HeldSince: now.Add(-time.Minute),
		})
	}
	return out, nil
}

func (f *fake) DeadLetters(context.Context, int) (map[hook.EndReason]int64, error) {
	return map[hook.EndReason]int64{hook.DeadExpired: 7}, nil
}

func (f *fake) Usage(context.Context) (map[hook.ID]store.Usage, error) {
	return map[hook.ID]store.Usage{1: {Pending: 1, Bytes: 10, Stored: 100}, 2: {Pending: 2, Bytes: 20, Stored: 200}}, nil
}

func (f *fake) rounds() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time(nil), f.counts...)
}

func start(t *testing.T, f *fake, owns func(int) bool) *census.Census {
	t.Helper()
	c, err := census.New(census.Config{
		Store: f, Log: slog.New(slog.DiscardHandler), Owns: owns,
		Lanes: func(context.Context) (int, int, error) { return 5, 6, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return c
}

// many makes endpoints, more than are counted at once.
func many() (ids []hook.ID) {
	for i := range 600 {
		ids = append(ids, hook.ID(i+1))
	}
	return ids
}

func TestOwnLanesAreAddedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ids: many()}
		c := start(t, f, func(int) bool { return true })
		time.Sleep(20 * time.Second)
		got := c.Figures()
		at := got.At
		want := hook.QueueFigures{
			At: at, Ready: 600, Delayed: 1200, Retrying: 1800, Held: 2400, ReadySince: at.Add(-600 * time.Second), HeldSince: at.Add(-time.Minute),
			Lanes: 5, Holds: 6,
			Fleet: &hook.FleetFigures{Pending: 3, PendingBytes: 30, StoredBytes: 300, Dead: map[hook.EndReason]int64{hook.DeadExpired: 7}},
		}
		if diff := cmp.Diff(want, got); diff != "" || at.IsZero() {
			t.Errorf("figures (-want +got):\n%s", diff)
		}
	})
}

func TestOneNodeCountsForTheFleet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ids: many()}
		c := start(t, f, func(shard int) bool { return shard == 7 })
		time.Sleep(20 * time.Second)
		got := c.Figures()
		if got.Fleet != nil || got.At.IsZero() {
			t.Errorf("figures = %+v", got)
		}
		own := int64(0)
		for _, id := range f.ids {
			if hook.ShardOf(id) == 7 {
				own++
			}
		}
		if got.Ready != own {
			t.Errorf("%d ready, %d endpoints are this node's", got.Ready, own)
		}
	})
}

// TestSlowCountsAreRare: however long a count takes, most of the time is rest.
func TestSlowCountsAreRare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ids: many(), takes: 5 * time.Second} // three batches
		start(t, f, func(int) bool { return true })
		time.Sleep(20 * time.Minute)
		rounds := f.rounds()
		if len(rounds) < 2 {
			t.Fatalf("%d counts", len(rounds))
		}
		for i := 1; i < len(rounds); i++ {
			if gap := rounds[i].Sub(rounds[i-1]); gap < 300*time.Second {
				t.Errorf("a count of 15 s was followed by the next after %v", gap)
			}
		}
	})
}

func TestAFailedCountLeavesTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{ids: many()}
		c := start(t, f, func(int) bool { return true })
		time.Sleep(20 * time.Second)
		before := c.Figures()
		f.mu.Lock()
		f.err = errors.New("away")
		f.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if got := c.Figures(); !got.At.Equal(before.At) || got.Ready != before.Ready {
			t.Errorf("figures = %+v", got)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	if _, err := census.New(census.Config{}); err == nil {
		t.Error("an empty configuration is taken")
	}
}
