package receiver_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

func succeed(context.Context) error { return nil }

func once(t *testing.T, d receiver.Deduper, id string, wantRan bool) {
	t.Helper()
	called := false
	ran, err := d.Once(t.Context(), id, func(context.Context) error {
		called = true
		return nil
	})
	if err != nil || ran != wantRan || called != wantRan {
		t.Errorf("Once(%q) = %v, %v, called %v; want %v", id, ran, err, called, wantRan)
	}
}

func TestMemoryForgetsAfterTheTTL(t *testing.T) {
	t.Parallel()
	for name, ttl := range map[string]time.Duration{"default": 0, "negative": -1, "an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, lives := receiver.NewMemory(ttl, 0), ttl
				if ttl <= 0 {
					lives = 7 * 24 * time.Hour
				}
				once(t, m, "evt_1", true)
				time.Sleep(lives - 1)
				once(t, m, "evt_1", false)
				time.Sleep(time.Nanosecond)
				once(t, m, "evt_1", true)
				time.Sleep(lives - 1)
				once(t, m, "evt_1", false)
			})
		})
	}
}

// TestMemoryCountsFromTheEnd: long work does not use up the time.
func TestMemoryCountsFromTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := receiver.NewMemory(time.Minute, 0)
		if _, err := m.Once(t.Context(), "evt_1", func(context.Context) error { time.Sleep(time.Hour); return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(59 * time.Second)
		once(t, m, "evt_1", false)
	})
}

func TestMemoryForgetsTheOldestFirst(t *testing.T) {
	t.Parallel()
	m := receiver.NewMemory(0, 3)
	for n := range 5 {
		once(t, m, fmt.Sprint("evt_", n), true)
	}
	for n := 2; n < 5; n++ {
		once(t, m, fmt.Sprint("evt_", n), false)
	}
	once(t, m, "evt_0", true)
	once(t, m, "evt_2", true) // made room for it
	once(t, m, "evt_4", false)
}

func TestMemoryRunsOnceAmongMany(t *testing.T) {
	t.Parallel()
	m := receiver.NewMemory(0, 0)
	var ran, fails atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			_, err := m.Once(t.Context(), "evt_1", func(context.Context) error {
				if fails.Add(1) <= 3 {
					return errWork
				}
				ran.Add(1)
				return nil
			})
			_ = err // the first three fail
		})
	}
	all.Wait()
	if ran.Load() != 1 || fails.Load() != 4 {
		t.Errorf("ran %d times after %d failures, want once after 3", ran.Load(), fails.Load()-1)
	}
}

func TestMemoryFreesTheIDAfterAPanic(t *testing.T) {
	t.Parallel()
	m := receiver.NewMemory(0, 0)
	func() {
		defer func() { _ = recover() }()
		_, _ = m.Once(t.Context(), "evt_1", func(context.Context) error { panic("boom") })
	}()
	once(t, m, "evt_1", true)
}

func TestMemoryDoesNotBeginAfterTheEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ran, err := receiver.NewMemory(0, 0).Once(ctx, "evt_1", succeed); ran || err == nil {
		t.Errorf("Once = %v, %v; want an error", ran, err)
	}
}

// badIDs would be refused or changed by one database or another.
var badIDs = map[string]string{
	"empty": "", "space": "evt 1", "zero byte": "evt_\x00", "not ASCII": "evt_é", "not UTF-8": "evt_\xff", "too long": strings.Repeat("x", 256),
}

func TestBadIDsAreRefusedForGood(t *testing.T) {
	t.Parallel()
	for name, bad := range badIDs {
		ran, err := receiver.NewMemory(0, 0).Once(t.Context(), bad, succeed)
		if code, _ := receiver.Status(err); ran || code != 422 {
			t.Errorf("%s: Once = %v, %v; want 422", name, ran, err)
		}
	}
	once(t, receiver.NewMemory(0, 0), strings.Repeat("x", 255), true)
}
