package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ingest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, stop := newRig(t, func(c *ingest.Config) { c.TenantRate = 5 })
		defer stop()
		burst := func() (ok int) {
			for range 50 {
				_, err := r.accept(hook.Submission{})
				switch {
				case err == nil:
					ok++
				case !errors.Is(err, hook.ErrRateLimited):
					t.Fatal(err)
				}
			}
			return ok
		}
		if got := burst(); got != 5 {
			t.Errorf("%d events at once, want the burst of 5", got)
		}
		time.Sleep(600 * time.Millisecond)
		if got := burst(); got != 3 {
			t.Errorf("%d events after 0.6 s at 5/s, want 3", got)
		}
		// A tenant's own limit comes first, and one without is not slowed by it.
		r.tenant = r.addTenant("own", hook.TenantLimits{EventsPerSecond: 20})
		if got := burst(); got != 20 {
			t.Errorf("%d events at once for a tenant with 20/s", got)
		}
	})
}

func TestPendingQuota(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tune func(*ingest.Config)
		own  hook.TenantLimits
		want int
	}{
		"server's number":  {tune: func(c *ingest.Config) { c.TenantMaxPending = 10 }, want: 5},
		"tenant's number":  {tune: func(c *ingest.Config) { c.TenantMaxPending = 10 }, own: hook.TenantLimits{MaxPending: 4}, want: 2},
		"bytes":            {tune: func(c *ingest.Config) { c.TenantMaxPendingBytes = 60 }, want: 3},
		"off":              {tune: func(*ingest.Config) {}, want: 8},
		"a tenant above 0": {tune: func(*ingest.Config) {}, own: hook.TenantLimits{MaxPending: 7}, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, stop := newRig(t, tc.tune)
				defer stop()
				r.tenant = r.addTenant("own", tc.own)
				r.endpoint("", "*")
				r.endpoint("", "*")
				// Usage is measured every full second; what is being committed at
				// that very moment may be missing until the next time.
				time.Sleep(500 * time.Millisecond)
				ok := 0
				for i := range 8 {
					if i == 4 {
						time.Sleep(5 * time.Second) // measured meanwhile: nothing counts twice
					}
					_, err := r.accept(hook.Submission{Payload: make([]byte, 10)})
					switch {
					case err == nil:
						ok++
					case !errors.Is(err, hook.ErrBacklogFull):
						t.Fatal(err)
					}
				}
				if ok != tc.want {
					t.Errorf("%d of 8 events of two deliveries accepted, want %d", ok, tc.want)
				}
			})
		})
	}
}

// slowUsage returns usage as it was when it was asked for.
type slowUsage struct {
	ingest.Store
	takes atomic.Int64
}

func (s *slowUsage) Usage(ctx context.Context) (map[hook.ID]store.Usage, error) {
	used, err := s.Store.Usage(ctx)
	time.Sleep(time.Duration(s.takes.Load()))
	return used, err
}

// TestQuotaCountsDuringTheMeasurement: what is accepted while usage is being
// read is in neither number and must not be forgotten.
func TestQuotaCountsDuringTheMeasurement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowUsage{}
		r, stop := newRig(t, func(c *ingest.Config) {
			slow.Store, c.Store = c.Store, slow
			c.TenantMaxPending = 10
		})
		defer stop()
		r.endpoint("", "*")
		slow.takes.Store(int64(900 * time.Millisecond))
		time.Sleep(1500 * time.Millisecond) // in the middle of a measurement
		ok := 0
		for i := range 30 {
			if i == 8 {
				time.Sleep(500 * time.Millisecond) // it has ended, the next one has not
			}
			if _, err := r.accept(hook.Submission{}); err == nil {
				ok++
			}
		}
		if ok != 10 {
			t.Errorf("%d events accepted, want the 10 that may be pending", ok)
		}
	})
}

// slowWriter takes its time before it commits.
type slowWriter struct {
	ingest.Writer
	takes atomic.Int64
}

func (w *slowWriter) Accept(tenant hook.ID, l store.Load, build func() []*store.Accept) error {
	time.Sleep(time.Duration(w.takes.Load()))
	return w.Writer.Accept(tenant, l, build)
}

// TestQuotaCountsWhatWaitsForItsCommit: what was admitted before a measurement and
// is committed after it is in neither number and must not be forgotten.
func TestQuotaCountsWhatWaitsForItsCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowWriter{}
		r, stop := newRig(t, func(c *ingest.Config) {
			slow.Writer, c.Writer = c.Writer, slow
			c.TenantMaxPending = 3
		})
		defer stop()
		r.endpoint("", "*")
		time.Sleep(100 * time.Millisecond)
		slow.takes.Store(int64(1500 * time.Millisecond)) // a measurement is made meanwhile
		if _, err := r.accept(hook.Submission{}); err != nil {
			t.Fatal(err)
		}
		slow.takes.Store(0)
		ok := 1
		for range 5 {
			if _, err := r.accept(hook.Submission{}); err == nil {
				ok++
			}
		}
		time.Sleep(2 * time.Second) // whatever was on its way has come
		for range 5 {
			if _, err := r.accept(hook.Submission{}); err == nil {
				ok++
			}
		}
		if ok != 3 {
			t.Errorf("%d events accepted, want the 3 that may be pending", ok)
		}
	})
}

// lateUsage lets time pass before it reads usage.
type lateUsage struct {
	ingest.Store
	waits atomic.Int64
}

func (s *lateUsage) Usage(ctx context.Context) (map[hook.ID]store.Usage, error) {
	time.Sleep(time.Duration(s.waits.Load()))
	return s.Store.Usage(ctx)
}

// TestDoubleCountEndsWithTheNextMeasurement: what is accepted after a measurement
// began and before usage is read is in both numbers. That may refuse an event too
// early, but not for longer than until the next measurement.
func TestDoubleCountEndsWithTheNextMeasurement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := &lateUsage{}
		r, stop := newRig(t, func(c *ingest.Config) {
			late.Store, c.Store = c.Store, late
			c.TenantMaxPending = 2
		})
		defer stop()
		r.endpoint("", "*")
		late.waits.Store(int64(900 * time.Millisecond))
		time.Sleep(1500 * time.Millisecond) // in the middle of a measurement
		for i, want := range []error{nil, nil, hook.ErrBacklogFull} {
			if i == 1 {
				late.waits.Store(0)
				time.Sleep(time.Second) // the next one has ended too
			}
			if _, err := r.accept(hook.Submission{}); !errors.Is(err, want) {
				t.Errorf("event %d: %v, want %v", i, err, want)
			}
		}
	})
}

func TestDiskReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		free.Store(1000)
		var broken atomic.Bool
		r, stop := newRig(t, func(c *ingest.Config) {
			c.DiskReserve = 500
			c.DiskFree = func() (int64, error) {
				if broken.Load() {
					return 0, errors.New("statfs failed")
				}
				return free.Load(), nil
			}
		})
		defer stop()
		for _, step := range []struct {
			free   int64
			broken bool
			want   error
		}{
			{free: 1000},
			{free: 500},
			{free: 499, want: hook.ErrStoreFull},
			{free: 499, broken: true, want: hook.ErrStoreFull},
			{free: 501},
		} {
			free.Store(step.free)
			broken.Store(step.broken)
			time.Sleep(2 * time.Second)
			if _, err := r.accept(hook.Submission{}); !errors.Is(err, step.want) {
				t.Errorf("with %d bytes free (unreadable: %v): %v, want %v", step.free, step.broken, err, step.want)
			}
		}
	})
}

func TestFullStoreTakesNoEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var full error
		r, stop := newRig(t, func(c *ingest.Config) { c.StoreFull = func() error { return full } })
		defer stop()
		for _, full = range []error{nil, fmt.Errorf("%w: its log is too long", hook.ErrStoreFull), nil} {
			if _, err := r.accept(hook.Submission{}); !errors.Is(err, full) {
				t.Errorf("accept = %v, want %v", err, full)
			}
		}
	})
}

// stalled is a store that does not answer.
type stalled struct{ ingest.Store }

func (stalled) TenantByID(ctx context.Context, _ hook.ID) (hook.Tenant, error) {
	<-ctx.Done()
	return hook.Tenant{}, ctx.Err()
}

// TestPublisherIsAnswered: with the store away the publisher gets an answer
// within a bounded time, and no promise.
func TestPublisherIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, stop := newRig(t, func(c *ingest.Config) { c.Store = stalled{c.Store} })
		defer stop()
		began := time.Now()
		_, err := r.accept(hook.Submission{})
		if took := time.Since(began); !errors.Is(err, hook.ErrStoreUnavailable) || took > 15*time.Second {
			t.Errorf("answered after %v with %v, want unavailable within 15s", took, err)
		}
	})
}

// torn changes the tenant between the two reads of a view, once.
type torn struct {
	ingest.Store
	change func()
}

func (s *torn) EndpointsOf(ctx context.Context, tenant hook.ID) ([]hook.Endpoint, int64, error) {
	if fn := s.change; fn != nil {
		s.change = nil
		fn()
	}
	return s.Store.EndpointsOf(ctx, tenant)
}

// TestViewIsOfOneMoment: a tenant's limits change while it is read. The old
// ones must not live on under the new revision.
func TestViewIsOfOneMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &torn{}
		r, stop := newRig(t, func(c *ingest.Config) { s.Store, c.Store = c.Store, s })
		defer stop()
		r.endpoint("", "*")
		s.change = func() {
			now, err := r.db.TenantByID(context.Background(), r.tenant.ID)
			r.must(err)
			now.Limits.MaxPending = 2
			_, err = r.db.UpdateTenant(context.Background(), now, r.audit())
			r.must(err)
		}
		time.Sleep(500 * time.Millisecond) // between two measurements: counts are exact
		ok := 0
		for range 5 {
			_, err := r.accept(hook.Submission{})
			switch {
			case err == nil:
				ok++
			case !errors.Is(err, hook.ErrBacklogFull):
				t.Fatal(err)
			}
		}
		if ok != 2 {
			t.Errorf("%d events accepted, want the 2 that the new limit allows", ok)
		}
	})
}

// counted counts how often endpoints are read, and takes its time over it.
type counted struct {
	ingest.Store
	reads atomic.Int64
}

func (s *counted) EndpointsOf(ctx context.Context, tenant hook.ID) ([]hook.Endpoint, int64, error) {
	s.reads.Add(1)
	endpoints, rev, err := s.Store.EndpointsOf(ctx, tenant)
	time.Sleep(100 * time.Millisecond)
	return endpoints, rev, err
}

// TestColdTenantIsReadOnce: many publishers of a tenant that is not in memory
// come together and share one read, even when the first of them leaves. A change
// meanwhile is seen by whoever comes after it.
func TestColdTenantIsReadOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &counted{}
		r, stop := newRig(t, func(c *ingest.Config) { s.Store, c.Store = c.Store, s })
		defer stop()
		r.endpoint("", "*")
		r.in.Forget(r.tenant.ID)
		s.reads.Store(0)
		leaving, leave := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = r.in.Accept(leaving, r.tenant.ID, &hook.Submission{Type: "x", Payload: []byte("{}")}) })
		synctest.Wait()
		for range 50 {
			wg.Go(func() {
				if _, err := r.accept(hook.Submission{}); err != nil {
					t.Errorf("accept: %v", err)
				}
			})
		}
		synctest.Wait()
		leave()
		wg.Wait()
		if n := s.reads.Load(); n != 1 {
			t.Errorf("%d reads for 51 publishers, want 1", n)
		}

		r.in.Forget(r.tenant.ID)
		wg.Go(func() { _, _ = r.accept(hook.Submission{}) })
		synctest.Wait()
		r.endpoint("", "*")
		r.in.Forget(r.tenant.ID)
		receipt, err := r.accept(hook.Submission{})
		if err != nil || receipt.Deliveries != 2 {
			t.Errorf("accept after a change = %+v, %v; want 2 deliveries", receipt, err)
		}
		wg.Wait()
	})
}

// TestStoredQuota: what a tenant has stored is bounded, also without any
// endpoint, and its own limit wins over the server's.
func TestStoredQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		each := store.StoredBy(0, 1000)
		r, stop := newRig(t, func(c *ingest.Config) { c.TenantMaxStored = 5 * each })
		defer stop()
		fill := func(want int) {
			t.Helper()
			for i := range want + 2 {
				var refused error
				if i >= want {
					refused = hook.ErrTenantFull
				}
				if _, err := r.accept(hook.Submission{Payload: make([]byte, 1000)}); !errors.Is(err, refused) {
					t.Errorf("event %d: %v, want %v", i, err, refused)
				}
				time.Sleep(400 * time.Millisecond) // within and across measurements
			}
		}
		fill(5)
		r.tenant = r.addTenant("large", hook.TenantLimits{MaxStoredBytes: 8 * each})
		fill(8)
		r.tenant = r.addTenant("small", hook.TenantLimits{MaxStoredBytes: 2 * each})
		if err := r.in.TenantRoom(r.tenant); err != nil {
			t.Errorf("TenantRoom of an empty tenant = %v", err)
		}
		fill(2)
		if err := r.in.TenantRoom(r.tenant); !errors.Is(err, hook.ErrTenantFull) {
			t.Errorf("TenantRoom of a full tenant = %v", err)
		}
	})
}

// TestChangesLeaveHalfOfTheReserve: changes of configuration may use half of
// what is kept back on the disk.
func TestChangesLeaveHalfOfTheReserve(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		r, stop := newRig(t, func(c *ingest.Config) {
			c.DiskReserve = 500
			c.DiskFree = func() (int64, error) { return free.Load(), nil }
		})
		defer stop()
		for _, step := range []struct {
			free int64
			want error
		}{{499, nil}, {250, nil}, {249, hook.ErrStoreFull}, {300, nil}} {
			free.Store(step.free)
			time.Sleep(2 * time.Second)
			if err := r.in.ControlRoom(); !errors.Is(err, step.want) {
				t.Errorf("with %d bytes free of a reserve of 500: %v, want %v", step.free, err, step.want)
			}
		}
	})
}
