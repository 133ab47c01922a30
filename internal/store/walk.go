package store

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// ScanLimit is how many deliveries a list or a count looks at unless Page.ScanLimit
// says otherwise, half as many when it also looks at their events. Where the filter leaves out nearly everything that an index
// holds, this is what keeps an answer short: a page ends here, with what was
// found, and the next one goes on behind it.
const ScanLimit = 10_000

// Walk is a way through the deliveries by one index, in the order of ids or
// over few of them. Both stores have the same ones.
type Walk uint8

const (
	// WalkAll goes through all tenants by the primary key.
	WalkAll Walk = iota
	// WalkTenant goes through those of a tenant by deliveries_tenant.
	WalkTenant
	// WalkDead goes through its dead letters by deliveries_dead_tenant.
	WalkDead
	// WalkEndpoint goes through those of an endpoint by deliveries_log.
	WalkEndpoint
	// WalkEndpointDead goes through its dead letters by deliveries_dead.
	WalkEndpointDead
	// WalkDue sorts all that is pending for some endpoints, found by
	// deliveries_due. It is for those that have little: see asksDue.
	WalkDue
	// WalkEvent sorts the deliveries of an event, found by deliveries_event.
	WalkEvent
	// WalkIDs takes deliveries that are named.
	WalkIDs
	// WalkAllDead goes through the dead letters of all tenants by
	// deliveries_dead_all.
	WalkAllDead
)

// maxDueEndpoints is for how many endpoints WalkDue is tried: each costs a look
// into the index.
const maxDueEndpoints = 1000

// asksDue tells whether WalkDue answers the filter for its endpoints, or for
// all of its tenant, or of all tenants, if no more is pending for them than a list
// may look at. Without it, the few that wait would have to be searched among all
// that has ended.
func (f *DeliveryFilter) asksDue() bool {
	return f.Event == 0 && len(f.IDs) == 0 && f.onlyPending() && len(f.Endpoints) <= maxDueEndpoints
}

// countsDue tells that all of a tenant, or of all, that is pending matches, be it for some
// of its endpoints or up to some due time only: then deliveries_due alone tells how many there are, and
// a count need not look at them.
func (f *DeliveryFilter) countsDue() bool {
	return f.asksDue() && !f.Retrying && f.takesPending() && len(f.Reasons) == 0 && len(f.Types) == 0 &&
		f.SettledBy.IsZero() && f.Since.IsZero() && f.Until.IsZero() && f.EventsUntil.IsZero()
}

// among returns those of a tenant's endpoints that the filter is about.
func (f *DeliveryFilter) among(endpoints []hook.ID) []hook.ID {
	if len(f.Endpoints) == 0 {
		return endpoints
	}
	return slices.DeleteFunc(endpoints, func(id hook.ID) bool { return !slices.Contains(f.Endpoints, id) })
}

// Walk returns where to look, when WalkDue does not do.
func (f *DeliveryFilter) Walk() Walk {
	switch {
	case len(f.IDs) > 0:
		return WalkIDs
	case f.Event != 0:
		return WalkEvent
	case len(f.Endpoints) == 1 && f.onlyDead():
		return WalkEndpointDead
	case len(f.Endpoints) == 1:
		return WalkEndpoint
	case f.Tenant == 0 && f.onlyDead():
		return WalkAllDead
	case f.Tenant == 0:
		return WalkAll
	case f.onlyDead():
		return WalkDead
	default:
		return WalkTenant
	}
}

func (f *DeliveryFilter) onlyDead() bool { return len(f.States) == 1 && f.States[0] == hook.Dead }

func (f *DeliveryFilter) onlyPending() bool {
	return f.Retrying || !f.DueBy.IsZero() || len(f.States) == 1 && f.States[0] == hook.Pending
}

func (f *DeliveryFilter) takesPending() bool {
	return len(f.States) == 0 || slices.Contains(f.States, hook.Pending)
}

// Short tells that a walk is over after few deliveries by itself.
func (w Walk) Short() bool { return w == WalkIDs || w == WalkEvent || w == WalkDue }

// Covers tells that everything on the walk matches: there is nothing to look
// past, and nothing to check.
func (f *DeliveryFilter) Covers(w Walk) bool {
	if w.Short() || f.Retrying || !f.DueBy.IsZero() || len(f.Reasons) > 0 || len(f.Types) > 0 || !f.EventsUntil.IsZero() {
		return false
	}
	switch w {
	case WalkDead, WalkAllDead:
		return len(f.Endpoints) == 0 && f.SettledBy.IsZero()
	case WalkTenant, WalkAll:
		return len(f.Endpoints) == 0 && len(f.States) == 0 && f.SettledBy.IsZero()
	case WalkEndpointDead:
		return f.Tenant == 0 && f.SettledBy.IsZero()
	default: // WalkEndpoint: the endpoint may be another tenant's
		return f.Tenant == 0 && len(f.States) == 0 && f.SettledBy.IsZero()
	}
}

// IDs is a range of ids: From is in it, To is not.
type IDs struct{ From, To hook.ID }

// Range returns the ids that may be on a page: a window of time is one of ids.
func (f *DeliveryFilter) Range(p Page) IDs {
	r := IDs{From: 0, To: math.MaxInt64}
	if !f.Since.IsZero() {
		r.From = hook.IDFloor(f.Since)
	}
	if !f.Until.IsZero() {
		r.To = hook.IDFloor(f.Until)
	}
	switch {
	case p.After == 0:
	case p.Asc:
		r.From = max(r.From, p.After+1)
	default:
		r.To = min(r.To, p.After)
	}
	return r
}

// before cuts the range off at stop, the first id in the order of the page that
// must not be looked at, and returns the After of a page that begins there.
func (r *IDs) before(stop hook.ID, p Page) (after hook.ID) {
	if p.Asc {
		r.To = stop
		return stop - 1
	}
	r.From = stop + 1
	return stop + 1
}

// Scanner is what a dialect does for lists and counts of deliveries.
type Scanner[R any] struct {
	// Stop returns the id behind the first n of a range, 0 when there is none.
	Stop func(w Walk, r IDs, n int) (hook.ID, error)
	// Read returns the first limit of a range that match.
	Read func(w Walk, r IDs, limit int) ([]R, error)
	// Count counts up to limit of a range that match.
	Count func(w Walk, r IDs, limit int) (int, error)
	// CountDue counts up to limit deliveries that are pending for some endpoints,
	// and due by a moment unless that is zero.
	CountDue func(endpoints []hook.ID, by time.Time, limit int) (int, error)
	// Endpoints returns up to limit endpoints of a tenant; 0: of all.
	Endpoints func(tenant hook.ID, limit int) ([]hook.ID, error)
}

// endpointsOf returns the endpoints of the filter that are the tenant's, or all
// of the tenant; false when it has too many to ask for each.
func (s *Scanner[R]) endpointsOf(f *DeliveryFilter) ([]hook.ID, bool, error) {
	endpoints, err := s.Endpoints(f.Tenant, maxDueEndpoints+1)
	if err != nil || len(endpoints) > maxDueEndpoints {
		return nil, false, err
	}
	return f.among(endpoints), true, nil
}

// choose returns the walk of a filter. What is pending is counted first where
// that may spare a long one; then f names all endpoints of the tenant.
func (s *Scanner[R]) choose(f *DeliveryFilter, p Page) (Walk, error) {
	if !f.asksDue() {
		return f.Walk(), nil
	}
	endpoints := f.Endpoints
	if len(endpoints) == 0 {
		var all bool
		var err error
		if endpoints, all, err = s.endpointsOf(f); err != nil || !all {
			return f.Walk(), err
		}
	}
	n, err := s.CountDue(endpoints, f.DueBy, f.ScanLimit(p)+1)
	if err != nil || n > f.ScanLimit(p) {
		return f.Walk(), err
	}
	f.Endpoints = endpoints
	return WalkDue, nil
}

// bound returns what to look at for a page, by which walk, and the After of what
// is behind that, 0 when there is nothing.
func (s *Scanner[R]) bound(f *DeliveryFilter, p Page) (w Walk, r IDs, after hook.ID, err error) {
	if w, err = s.choose(f, p); err != nil {
		return w, r, 0, err
	}
	r = f.Range(p)
	if w.Short() || f.Covers(w) {
		return w, r, 0, nil
	}
	stop, err := s.Stop(w, r, f.ScanLimit(p))
	if err != nil || stop == 0 {
		return w, r, 0, err
	}
	after = r.before(stop, p)
	return w, r, after, nil
}

// Newest returns the walk of a filter and the range of the newest that a page may
// look at; more tells that there is something behind it.
func (s *Scanner[R]) Newest(f *DeliveryFilter, p Page) (w Walk, r IDs, more bool, err error) {
	w, r = f.Walk(), f.Range(p)
	if w.Short() {
		return w, r, false, nil
	}
	stop, err := s.Stop(w, r, f.ScanLimit(p))
	if err != nil || stop == 0 {
		return w, r, false, err
	}
	r.before(stop, p)
	return w, r, true, nil
}

// Find reads a page. next is the After of the page behind it, 0 at the end; a
// page that is short has one when it ended because it had looked enough. The
// filter may be given more endpoints, which is why the dialect shares it.
func (s *Scanner[R]) Find(f *DeliveryFilter, p Page, id func(R) hook.ID) (rows []R, next hook.ID, err error) {
	w, r, next, err := s.bound(f, p)
	if err != nil {
		return nil, 0, err
	}
	if rows, err = s.Read(w, r, p.Limit); err != nil {
		return nil, 0, err
	}
	if len(rows) >= p.Limit {
		next = id(rows[len(rows)-1])
	}
	return rows, next, nil
}

// Counted is how many deliveries were counted.
type Counted struct {
	N     int
	Exact bool // false: there may be more
}

// atMost is the outcome of a count that stopped behind limit.
func atMost(n, limit int) Counted { return Counted{N: min(n, limit), Exact: n <= limit} }

// Counted counts up to p.Limit in what a page would look at.
func (s *Scanner[R]) Counted(f *DeliveryFilter, p Page) (Counted, error) {
	if f.countsDue() {
		endpoints, all, err := s.endpointsOf(f)
		if err != nil {
			return Counted{}, err
		}
		if all {
			n, err := s.CountDue(endpoints, f.DueBy, p.Limit+1)
			return atMost(n, p.Limit), err
		}
	}
	w, r, behind, err := s.bound(f, p)
	if err != nil {
		return Counted{}, err
	}
	n, err := s.Count(w, r, p.Limit+1)
	if err != nil {
		return Counted{}, err
	}
	c := atMost(n, p.Limit)
	c.Exact = c.Exact && behind == 0
	return c, nil
}

// ScanLimit is how many deliveries a page may look at. A type is looked up in the
// event, which costs more than the delivery itself.
func (f *DeliveryFilter) ScanLimit(p Page) int {
	if len(f.Types) > 0 {
		return cmp.Or(p.ScanLimit, ScanLimit/2)
	}
	return cmp.Or(p.ScanLimit, ScanLimit)
}
