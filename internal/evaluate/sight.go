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
	// maxSubjects is how many endpoints and tenants one round reads; each costs a
	// read of figures, about half a millisecond on the embedded store and a round
	// trip on Postgres. Those with alerts come first, then those with something
	// new, then those that were not read for longest.
	maxSubjects = 2000
	// maxListed bounds the lists of open, halted and stormy lanes.
	maxListed = 5000
	// together is how many endpoints are read in one call.
	together = 100
	// freshTrouble is how long after its latest trouble a subject is read in every
	// round; until followed has passed it is read once in calmEvery.
	freshTrouble = 2 * time.Minute
	followed     = time.Hour
	calmEvery    = time.Minute
	// listEvery is how often what changes seldom is listed again.
	listEvery = time.Minute
)

// sight is what the evaluator knows of the fleet beside its alerts. It begins with
// nothing on every new owner and is then as good as the last one's after a few
// minutes; nothing of it is needed to keep an alert.
type sight struct {
	cfg     *Config
	figures *figures
	trouble map[stats.Subject]time.Time // latest, of endpoints and tenants
	// lookedBack is set once trouble reaches back as far as it is followed.
	lookedBack bool
	readAt     map[stats.Subject]time.Time
	lanes      map[hook.ID]*trail // by endpoint
	tenants    tenants
	fleet      fleet

	// Lists that are read once in listEvery.
	listedAt time.Time
	halted   []store.HaltedEndpoint
	replays  []hook.ReplayJob
}

func newSight(cfg *Config) *sight {
	return &sight{
		cfg: cfg, figures: newFigures(cfg.Store),
		trouble: make(map[stats.Subject]time.Time), readAt: make(map[stats.Subject]time.Time), lanes: make(map[hook.ID]*trail),
		tenants: newTenants(cfg), fleet: fleet{unowned: make(map[int]time.Time)},
	}
}

// look reads everything that may have something to tell. alerted are the subjects
// that have an alert: those of them that could not be read are returned. err says
// what went wrong; what was read is good all the same.
func (s *sight) look(ctx context.Context, now time.Time, alerted []hook.AlertSubject, channels []store.Channel) (readings []alert.Reading, unread []hook.AlertSubject, err error) {
	s.begin(now)
	failed := s.list(ctx, now)
	c := s.choose(ctx, now, alerted)
	failed = append(failed, c.err)

	seen := make(map[hook.AlertSubject]bool)
	take := func(r alert.Reading) {
		seen[r.Subject] = true
		readings = append(readings, r)
	}
	if r, err := s.system(ctx, now, channels); err != nil {
		failed = append(failed, fmt.Errorf("read the system: %w", err))
	} else {
		take(r)
	}
	failed = append(failed, s.readTenants(ctx, now, c, take), s.readEndpoints(ctx, now, c, take))
	countOpened(readings, now)
	for _, subject := range alerted {
		if !seen[subject] {
			unread = append(unread, subject)
		}
	}
	return readings, unread, errors.Join(failed...)
}

// openedSpan is "at the same time" for breakers.
const openedSpan = 5 * time.Minute

// countOpened tells the system of breakers that nodes have not counted yet: they do
// so every 15 s, and without it each breaker that opened since then would be told of
// on its own before one notice stands for all. Without any count of lanes the share
// of them that opened is not known.
func countOpened(readings []alert.Reading, now time.Time) {
	var opened int64
	for i := range readings {
		if at := readings[i].Lane.OpenedAt; !at.IsZero() && now.Sub(at) < openedSpan {
			opened++
		}
	}
	for i := range readings {
		if r := &readings[i]; r.Level() == hook.LevelSystem && r.System.LanesActive > 0 {
			r.System.LanesOpened = max(r.System.LanesOpened, opened)
		}
	}
}

// begin forgets what is too old to matter.
func (s *sight) begin(now time.Time) {
	s.figures.begin(now)
	for subject, at := range s.trouble {
		if now.Sub(at) > followed {
			delete(s.trouble, subject)
		}
	}
	for subject, at := range s.readAt {
		if now.Sub(at) > followed {
			delete(s.readAt, subject)
		}
	}
	for id, t := range s.lanes {
		if now.Sub(t.seenAt) > followed {
			delete(s.lanes, id)
		}
	}
}

// list reads what changes seldom, and what tenants are rarely asked for.
func (s *sight) list(ctx context.Context, now time.Time) []error {
	failed := []error{s.tenants.sweep(ctx, now)}
	if now.Sub(s.listedAt) < listEvery {
		return failed
	}
	halted, err := s.cfg.Store.HaltedEndpoints(ctx, maxListed)
	if err != nil {
		return append(failed, fmt.Errorf("list halted endpoints: %w", err))
	}
	replays, err := s.cfg.Store.ActiveReplays(ctx, maxListed)
	if err != nil {
		return append(failed, fmt.Errorf("list replays: %w", err))
	}
	s.listedAt, s.halted, s.replays = now, halted, replays
	return failed
}

// choice is what a round reads, the most important first.
type choice struct {
	endpoints []candidate
	tenants   []candidate
	err       error
}

// candidate is an endpoint or a tenant that a round may read.
type candidate struct {
	id      hook.ID
	tenant  hook.ID // of an endpoint with an alert
	alerted bool
	fresh   bool // something happens right now
	readAt  time.Time
}

// pool gathers candidates of one level.
type pool struct {
	s     *sight
	level stats.Level
	byID  map[hook.ID]*candidate
}

func (p *pool) add(id hook.ID, fresh bool) *candidate {
	c := p.byID[id]
	if c == nil {
		c = &candidate{id: id, readAt: p.s.readAt[stats.Subject{Level: p.level, ID: id}]}
		p.byID[id] = c
	}
	c.fresh = c.fresh || fresh
	return c
}

// choose lists whom to read.
func (s *sight) choose(ctx context.Context, now time.Time, alerted []hook.AlertSubject) choice {
	endpoints := &pool{s, stats.OfEndpoint, make(map[hook.ID]*candidate)}
	tenants := &pool{s, stats.OfTenant, make(map[hook.ID]*candidate)}
	for _, a := range alerted {
		switch {
		case a.Endpoint != 0:
			c := endpoints.add(a.Endpoint, true)
			c.alerted, c.tenant = true, a.Tenant
		case a.Tenant != 0:
			tenants.add(a.Tenant, true).alerted = true
		}
	}
	// A tenant with an endpoint in trouble is looked at, too.
	err := errors.Join(s.openLanes(ctx, endpoints, tenants), s.activeLanes(ctx, endpoints, tenants), s.troubled(ctx, now, endpoints, tenants))
	for _, h := range s.halted {
		endpoints.add(h.EndpointID, h.Reason != "manual" && !s.known(stats.OfEndpoint, h.EndpointID))
		if broken(h) {
			tenants.add(h.TenantID, false)
		}
	}
	for _, j := range s.replays {
		if j.State == hook.ReplayPaused {
			tenants.add(j.TenantID, true)
		}
	}
	for id := range s.tenants.slow {
		if s.tenants.of(id).interesting() {
			tenants.add(id, false)
		}
	}
	return choice{endpoints: s.first(now, endpoints), tenants: s.first(now, tenants), err: err}
}

// broken tells that an endpoint was disabled because it is gone or fails, and not
// by a person.
func broken(h store.HaltedEndpoint) bool {
	return h.State == hook.Disabled && (h.Reason == "gone" || h.Reason == "failing")
}

func (s *sight) known(level stats.Level, id hook.ID) bool {
	return !s.readAt[stats.Subject{Level: level, ID: id}].IsZero()
}

func (s *sight) openLanes(ctx context.Context, endpoints, tenants *pool) error {
	open := true
	list, err := s.cfg.Store.ListLanes(ctx, store.LaneFilter{Open: &open}, store.Page{Limit: maxListed})
	if err != nil {
		return fmt.Errorf("list open lanes: %w", err)
	}
	for i := range list {
		endpoints.add(list[i].ID, true)
		tenants.add(list[i].TenantID, true)
	}
	return nil
}

func (s *sight) activeLanes(ctx context.Context, endpoints, tenants *pool) error {
	rows, err := s.cfg.Store.ActiveLaneWatches(ctx, maxListed)
	if err != nil {
		return fmt.Errorf("list storms: %w", err)
	}
	for i := range rows {
		endpoints.add(rows[i].EndpointID, true)
		tenants.add(rows[i].TenantID, true)
	}
	return nil
}

// troubled adds whose figures show trouble. The first time it looks back as far as
// subjects are followed.
func (s *sight) troubled(ctx context.Context, now time.Time, endpoints, tenants *pool) error {
	since := freshTrouble
	if !s.lookedBack {
		since = followed
	}
	found, err := s.cfg.Store.Troubled(ctx, now.Add(-since))
	if err != nil {
		return fmt.Errorf("list troubled subjects: %w", err)
	}
	s.lookedBack = true
	for _, subject := range found {
		s.trouble[subject] = now
	}
	for subject, at := range s.trouble {
		to := endpoints
		if subject.Level == stats.OfTenant {
			to = tenants
		}
		if subject.Level != stats.OfSystem {
			to.add(subject.ID, now.Sub(at) < freshTrouble)
		}
	}
	return nil
}

// first puts the candidates in order and leaves out those whose turn it is not.
func (s *sight) first(now time.Time, p *pool) []candidate {
	var out []candidate
	for _, c := range p.byID {
		if c.fresh || now.Sub(c.readAt) >= calmEvery {
			out = append(out, *c)
		}
	}
	rank := func(c candidate) int {
		switch {
		case c.alerted:
			return 0
		case c.fresh:
			return 1
		default:
			return 2
		}
	}
	slices.SortFunc(out, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.readAt.Compare(b.readAt), cmp.Compare(a.id, b.id))
	})
	return out[:min(len(out), maxSubjects)]
}
