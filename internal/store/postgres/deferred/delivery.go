package deferred

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Delivery is a delivery as the row of its event names it: new, and due when
// accepted.
type Delivery struct {
	ID, Tenant, Event, Endpoint hook.ID

	Due  time.Time
	Size int

	known time.Time // when this process accepted it or heard of it
}

// Of returns what can be deferred; false when the delivery is one that waits, or
// that its name does not tell all of, so that its row is wanted at once.
func Of(d *hook.Delivery, now time.Time) (Delivery, bool) {
	p := &d.Progress
	isNew := d.State == hook.Pending && d.Attempts == 0 && d.ReplayID == 0 && d.Restore == nil &&
		p.Run == 1 && p.RunDueAt.Equal(d.DueAt) && p.Charged == 0 && p.BackoffSteps == 0 && p.FailedAttempts == 0 && p.Throttles == 0
	if !isNew || d.DueAt.After(now) {
		return Delivery{}, false
	}
	return Delivery{
		ID: d.ID, Tenant: d.TenantID, Event: d.EventID, Endpoint: d.EndpointID, Due: d.DueAt, Size: d.Size, known: now,
	}, true
}

// Pending returns the delivery as its row would tell of it.
func (d *Delivery) Pending() hook.Delivery {
	return hook.Delivery{
		ID: d.ID, TenantID: d.Tenant, EventID: d.Event, EndpointID: d.Endpoint, DueAt: d.Due, Size: d.Size,
		Progress: hook.Progress{Run: 1, RunDueAt: d.Due},
	}
}

// AppendNames appends what the row of an event keeps of its deliveries.
func AppendNames(dst []byte, e *hook.Event, deliveries []Delivery) []byte {
	for i := range deliveries {
		d := &deliveries[i]
		dst = binary.AppendVarint(dst, int64(d.ID-e.ID))
		dst = binary.AppendVarint(dst, int64(d.Endpoint))
		dst = binary.AppendVarint(dst, d.Due.UnixMicro()-e.CreatedAt.UnixMicro())
		dst = binary.AppendVarint(dst, int64(d.Size))
	}
	return dst
}

// NameOf returns the bytes that are among the names of an event if, and only if, they
// name a delivery to the endpoint. Nothing else in them looks like it: an id is far
// greater than the other numbers, so that it takes more bytes, and all but the last byte
// of a number tell that it goes on.
func NameOf(endpoint hook.ID) []byte { return binary.AppendVarint(nil, int64(endpoint)) }

var errCutShort = errors.New("the names of its deliveries are cut short")

// ParseNames reads what AppendNames wrote.
func ParseNames(b []byte, e *hook.Event) (out []Delivery, err error) {
	for len(b) > 0 {
		var v [4]int64
		for i := range v {
			value, n := binary.Varint(b)
			if n <= 0 {
				return nil, fmt.Errorf("event %d: %w", e.ID, errCutShort)
			}
			v[i], b = value, b[n:]
		}
		out = append(out, Delivery{
			ID: e.ID + hook.ID(v[0]), Tenant: e.TenantID, Event: e.ID, Endpoint: hook.ID(v[1]),
			Due: time.UnixMicro(e.CreatedAt.UnixMicro() + v[2]).UTC(), Size: int(v[3]),
		})
	}
	return out, nil
}

// Scope says whose rows are wanted; 0 means any.
type Scope struct{ Tenant, Endpoint, Event, Delivery hook.ID }

// Holds reports whether the row of the delivery is wanted.
func (s Scope) Holds(d *Delivery) bool {
	among := func(wanted, id hook.ID) bool { return wanted == 0 || wanted == id }
	return among(s.Tenant, d.Tenant) && among(s.Endpoint, d.Endpoint) && among(s.Event, d.Event) && among(s.Delivery, d.ID)
}

// ScopeOf returns which deferred deliveries a filter may match; false when it
// matches none: they are all pending and were never tried.
func ScopeOf(f *store.DeliveryFilter) (Scope, bool) {
	if f.Retrying || len(f.Reasons) > 0 || len(f.States) > 0 && !slices.Contains(f.States, hook.Pending) {
		return Scope{}, false
	}
	s := Scope{Tenant: f.Tenant, Event: f.Event}
	if len(f.Endpoints) == 1 {
		s.Endpoint = f.Endpoints[0]
	}
	if len(f.IDs) == 1 {
		s.Delivery = f.IDs[0]
	}
	return s, true
}

// Without returns the deliveries but for those with the given ids.
func Without(deliveries []Delivery, ids []hook.ID) []Delivery {
	among := make(map[hook.ID]bool, len(ids))
	for _, id := range ids {
		among[id] = true
	}
	return slices.DeleteFunc(deliveries, func(d Delivery) bool { return among[d.ID] })
}

// IDs returns the ids of the deliveries.
func IDs(deliveries []Delivery) []hook.ID {
	ids := make([]hook.ID, len(deliveries))
	for i := range deliveries {
		ids[i] = deliveries[i].ID
	}
	return ids
}

// Older returns the deliveries that this process has known from before the given
// moment, and the others.
func Older(deliveries []Delivery, than time.Time) (older, younger []Delivery) {
	for i := range deliveries {
		if deliveries[i].known.Before(than) {
			older = append(older, deliveries[i])
		} else {
			younger = append(younger, deliveries[i])
		}
	}
	return older, younger
}
