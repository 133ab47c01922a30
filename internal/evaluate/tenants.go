package evaluate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// slowFor is for how long it is known what of a tenant waits for long or is
	// about to expire: both are about days.
	slowFor = 5 * time.Minute
	// maxPendingTenants is of how many tenants, those with most pending first, it is
	// counted what waits for long.
	maxPendingTenants = 500
	// expiringPerRound is of how many tenants a round counts the dead letters that
	// are about to expire, beside those with an alert.
	expiringPerRound = 50
	// counted is where counting stops.
	counted = 10_000
)

// tenants follows what is slow to find out and slow to change.
type tenants struct {
	cfg   *Config
	slow  map[hook.ID]*slowFacts
	names map[hook.ID]tenantName

	sweptAt time.Time
	turn    []hook.ID // whose dead letters are counted next
}

type slowFacts struct {
	pendingLong int64
	pendingAt   time.Time
	expiring    int64
	expiringAt  time.Time
}

func newTenants(cfg *Config) tenants {
	return tenants{cfg: cfg, slow: make(map[hook.ID]*slowFacts), names: make(map[hook.ID]tenantName)}
}

// tenantName is what people call a tenant.
type tenantName struct {
	text string
	gone bool // it is deleted
}

func (t *tenants) of(id hook.ID) *slowFacts {
	f := t.slow[id]
	if f == nil {
		f = &slowFacts{}
		t.slow[id] = f
	}
	return f
}

func (f *slowFacts) interesting() bool { return f.pendingLong > 0 || f.expiring > 0 }

// sweep counts what waits for long, of all tenants every slowFor, and the dead
// letters that expire, of some tenants in every round. What tenants use is one row
// for each of them and node.
func (t *tenants) sweep(ctx context.Context, now time.Time) error {
	if now.Sub(t.sweptAt) >= slowFor {
		usage, err := t.cfg.Store.Usage(ctx)
		if err != nil {
			return fmt.Errorf("read usage of tenants: %w", err)
		}
		if err := t.sweepPending(ctx, now, usage); err != nil {
			return err
		}
		t.sweptAt = now
		clear(t.names) // they may change
		if len(t.turn) == 0 {
			for id, u := range usage {
				if u.Stored > 0 {
					t.turn = append(t.turn, id)
				}
			}
			slices.Sort(t.turn)
		}
	}
	for range min(len(t.turn), expiringPerRound) {
		if err := t.countExpiring(ctx, now, t.turn[0]); err != nil {
			return err
		}
		t.turn = t.turn[1:]
	}
	return nil
}

func (t *tenants) sweepPending(ctx context.Context, now time.Time, usage map[hook.ID]store.Usage) error {
	var busy []hook.ID
	for id, u := range usage {
		if u.Pending > 0 {
			busy = append(busy, id)
		}
	}
	slices.SortFunc(busy, func(a, b hook.ID) int {
		return cmp.Or(cmp.Compare(usage[b].Pending, usage[a].Pending), cmp.Compare(a, b))
	})
	if len(busy) > maxPendingTenants {
		busy = busy[:maxPendingTenants]
	}
	for id, f := range t.slow {
		if usage[id].Pending == 0 {
			f.pendingLong, f.pendingAt = 0, now
		}
	}
	for _, id := range busy {
		if err := t.countPending(ctx, now, id); err != nil {
			return err
		}
	}
	return nil
}

// countPending counts what has been pending for long: what is due for that long,
// and what was tried and is older. A scheduled delivery is neither before its time.
// Each count ends after a bounded number of rows.
func (t *tenants) countPending(ctx context.Context, now time.Time, id hook.ID) error {
	long := now.Add(-t.cfg.Thresholds.Duration(alert.LongRetry, "age"))
	var n [3]int
	for i, f := range []store.DeliveryFilter{
		{Tenant: id, DueBy: long},
		{Tenant: id, Retrying: true, Until: long},
		{Tenant: id, Retrying: true, Until: long, DueBy: long}, // in both of the others
	} {
		c, err := t.cfg.Store.CountMatching(ctx, f, store.Page{Limit: counted})
		if err != nil {
			return fmt.Errorf("count what is pending for long: %w", err)
		}
		n[i] = c.N
	}
	facts := t.of(id)
	facts.pendingLong, facts.pendingAt = int64(n[0]+max(n[1]-n[2], 0)), now
	return nil
}

// countExpiring counts the dead letters that retention removes soon: old ones, and
// young ones of old events, which replays have created. Each count ends after a bounded
// number of rows.
func (t *tenants) countExpiring(ctx context.Context, now time.Time, id hook.ID) error {
	within := t.cfg.Thresholds.Duration(alert.LettersExpire, "within")
	soon := now.Add(within).Add(-t.cfg.Retention)
	dead := []hook.DeliveryState{hook.Dead}
	facts := t.of(id)
	facts.expiring, facts.expiringAt = 0, now
	for _, f := range []store.DeliveryFilter{
		{Tenant: id, States: dead, SettledBy: soon, Until: soon},
		{Tenant: id, States: dead, SettledBy: now.Add(within - hook.DeadGrace), Since: soon, EventsUntil: soon},
	} {
		c, err := t.cfg.Store.CountMatching(ctx, f, store.Page{Limit: counted, Asc: true})
		if err != nil {
			return fmt.Errorf("count dead letters that expire: %w", err)
		}
		facts.expiring += int64(c.N)
	}
	return nil
}

// refresh finds out what is not known of a tenant, or not any more.
func (t *tenants) refresh(ctx context.Context, now time.Time, c candidate) error {
	f := t.of(c.id)
	if f.pendingAt.IsZero() && c.alerted {
		if err := t.countPending(ctx, now, c.id); err != nil {
			return err
		}
	}
	if (c.alerted || f.expiring > 0) && now.Sub(f.expiringAt) >= slowFor {
		return t.countExpiring(ctx, now, c.id)
	}
	return nil
}

// pendingLong is the sum of all tenants.
func (t *tenants) pendingLong() (n int64) {
	for _, f := range t.slow {
		n += f.pendingLong
	}
	return n
}

func (t *tenants) name(ctx context.Context, id hook.ID) (tenantName, error) {
	if name, ok := t.names[id]; ok {
		return name, nil
	}
	tenant, err := t.cfg.Store.TenantByID(ctx, id)
	gone := errors.Is(err, hook.ErrNotFound)
	if err != nil && !gone {
		return tenantName{}, err
	}
	t.names[id] = tenantName{cmp.Or(tenant.Name, tenant.UID), gone}
	return t.names[id], nil
}

// errNotListed is when the lists that tenants are read from are not there yet.
var errNotListed = errors.New("replays and halted endpoints are not known yet")

// readTenants reads the tenants of a round.
func (s *sight) readTenants(ctx context.Context, now time.Time, c choice, take func(alert.Reading)) error {
	if len(c.tenants) == 0 {
		return nil
	}
	if s.listedAt.IsZero() {
		return fmt.Errorf("read tenants: %w", errNotListed)
	}
	disabled, replays := make(map[hook.ID]int64), make(map[hook.ID][]alert.PausedReplay)
	for _, h := range s.halted {
		if broken(h) {
			disabled[h.TenantID]++
		}
	}
	for i := range s.replays {
		if j := &s.replays[i]; j.State == hook.ReplayPaused {
			replays[j.TenantID] = append(replays[j.TenantID], alert.PausedReplay{ID: j.ID, Reason: j.PauseReason, Fed: j.Counts.Fed, Total: j.Total})
		}
	}
	var failed error
	for _, c := range c.tenants {
		r, err := s.tenant(ctx, now, c)
		if err != nil {
			failed = fmt.Errorf("read tenants: %w", err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		r.Tenant.Disabled, r.Tenant.Replays = disabled[c.id], replays[c.id]
		s.readAt[stats.Subject{Level: stats.OfTenant, ID: c.id}] = now
		take(r)
	}
	return failed
}

func (s *sight) tenant(ctx context.Context, now time.Time, c candidate) (alert.Reading, error) {
	r := alert.Reading{At: now, Subject: hook.AlertSubject{Tenant: c.id}}
	name, err := s.tenants.name(ctx, c.id)
	if err != nil || name.gone {
		return r, err // what was wrong with it is over, though its figures stay for a while
	}
	if err := s.tenants.refresh(ctx, now, c); err != nil {
		return r, err
	}
	w, err := s.figures.read(ctx, stats.Subject{Level: stats.OfTenant, ID: c.id}, now, c.alerted)
	if err != nil {
		return r, err
	}
	f := s.tenants.of(c.id)
	r.Name, r.Quarter, r.Hour, r.Day = name.text, w.quarter, w.hour, w.day
	r.Tenant.PendingLong, r.Tenant.Expiring = f.pendingLong, f.expiring
	return r, nil
}
