package sqlite

import (
	"bytes"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// Events and deliveries are inserted without a conflict clause: an id that
	// is taken is an error and never a silent loss. A rerun looks first which
	// events the earlier run has stored. OR FAIL spares SQLite a copy of every
	// page that the statement touches, kept to undo it alone: after an error
	// the whole transaction is undone anyway.
	insertEvents = `
INSERT OR FAIL INTO events (id, tenant_id, type, created_at, content_type, payload) VALUES `

	insertDeliveries = `
INSERT OR FAIL INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, size, run, run_due_at) VALUES `

	// claimKeys takes the keys that nobody has; of two equal keys in one
	// statement the first wins.
	claimKeys = `
INSERT OR FAIL INTO idempotency_keys (tenant_id, scope, key, event_id, body_hash, expires_at) VALUES `

	// replaceKey takes over a key that has expired.
	replaceKey = `
UPDATE idempotency_keys SET event_id = ?, body_hash = ?, expires_at = ?, answer = NULL
WHERE tenant_id = ? AND scope = 0 AND key = ?`

	findKey = `
SELECT event_id, body_hash, expires_at FROM idempotency_keys WHERE tenant_id = ? AND scope = 0 AND key = ?`

	findConfigRev = `
SELECT config_rev FROM tenants WHERE id = ?`

	findEvent = `
SELECT tenant_id, type, created_at, content_type, payload FROM events WHERE id = ?`

	countOfEvent = `
SELECT count(*) FROM deliveries WHERE event_id = ?`
)

// eventKeys is the scope of the keys that come with events.
const eventKeys = int64(0)

type acceptStatements struct {
	events, deliveries, keys                              bulk
	replaceKey, findKey, findRev, findEvent, countOfEvent single
}

func newAcceptStatements() acceptStatements {
	return acceptStatements{
		events:       bulk{head: insertEvents, row: "(?,?,?,?,?,?)"},
		deliveries:   bulk{head: insertDeliveries, row: "(?,?,?,?,?,?,?,?)"},
		keys:         bulk{head: claimKeys, row: "(?,?,?,?,?,?)", tail: " ON CONFLICT DO NOTHING"},
		replaceKey:   single{query: replaceKey},
		findKey:      single{query: findKey},
		findRev:      single{query: findConfigRev},
		findEvent:    single{query: findEvent},
		countOfEvent: single{query: countOfEvent},
	}
}

// undecided is the outcome of an accept while Commit is still looking.
const undecided = store.AcceptOutcome(0)

// writeAccepts decides the outcome of every accept and writes those that are
// stored. Keys come before events, because they decide; the answers of
// repetitions come last, because their first event may be in this batch.
func (c *commit) writeAccepts() error {
	if len(c.batch.Accepts) == 0 {
		return nil
	}
	for _, a := range c.batch.Accepts {
		if err := c.decide(a); err != nil {
			return err
		}
	}
	if err := c.claim(); err != nil {
		return err
	}
	for _, a := range c.batch.Accepts {
		if a.Outcome != undecided {
			continue
		}
		c.insert(a)
	}
	if _, err := c.flush(&c.accept.events); err != nil {
		return err
	}
	if _, err := c.flush(&c.accept.deliveries); err != nil {
		return err
	}
	return c.answerReplays()
}

// decide settles what can be known before any key is claimed: what an earlier
// run stored, and what was matched against an old configuration. A repetition
// is answered even then: its answer does not depend on the endpoints of today.
func (c *commit) decide(a *store.Accept) error {
	a.Outcome, a.EventID, a.Count = undecided, 0, 0
	if c.batch.Rerun {
		stored, err := c.alreadyStored(a)
		if err != nil || stored {
			return err
		}
	}
	rev, err := c.configRev(a.Event.TenantID)
	if err != nil || rev == a.ConfigRev && rev != 0 {
		return err
	}
	if a.Key != "" {
		if taken, _, err := c.lookUpKey(a); err != nil || taken {
			return err
		}
	}
	a.Outcome = store.AcceptStale
	return nil
}

// alreadyStored finds an event that an earlier run of the batch stored. The
// same id with other content is a collision of ids, which must not pass for a
// success.
func (c *commit) alreadyStored(a *store.Accept) (bool, error) {
	e := &a.Event
	row := c.row[:5]
	found, err := c.first(c.accept.findEvent.bind(int64(e.ID)), row)
	if err != nil || !found {
		return false, err
	}
	payload, _ := row[4].([]byte)
	if row[0] != int64(e.TenantID) || row[1] != e.Type || row[2] != e.CreatedAt.UnixMicro() ||
		row[3] != e.ContentType || !bytes.Equal(payload, e.Payload) {
		return false, fmt.Errorf("%w: event id %d is taken by another event", store.ErrRefused, e.ID)
	}
	a.Outcome, a.EventID, a.Count = store.AcceptStored, e.ID, len(a.Deliveries)
	return true, nil
}

// configRev returns the tenant's ConfigRev as this transaction sees it, 0 when
// there is no such tenant.
func (c *commit) configRev(tenant hook.ID) (int64, error) {
	if rev, ok := c.revs[tenant]; ok {
		return rev, nil
	}
	found, err := c.first(c.accept.findRev.bind(int64(tenant)), c.row[:1])
	if err != nil {
		return 0, err
	}
	var rev int64
	if found {
		rev, _ = c.row[0].(int64)
	}
	c.revs[tenant] = rev
	return rev, nil
}

// claim takes the keys of all accepts that are still undecided. Nearly always
// nobody has any of them; only otherwise each is looked at.
func (c *commit) claim() error {
	keys := int64(0)
	for _, a := range c.batch.Accepts {
		if a.Outcome == undecided && a.Key != "" {
			c.accept.keys.add(int64(a.Event.TenantID), eventKeys, a.Key, int64(a.Event.ID), a.KeyHash[:], a.KeyExpires.UnixMicro())
			keys++
		}
	}
	won, err := c.flush(&c.accept.keys)
	if err != nil || won == keys {
		return err
	}
	for _, a := range c.batch.Accepts {
		if a.Outcome != undecided || a.Key == "" {
			continue
		}
		taken, expired, err := c.lookUpKey(a)
		if err != nil {
			return err
		}
		if !taken && expired {
			if _, err := c.exec(c.accept.replaceKey.bind(int64(a.Event.ID), a.KeyHash[:], a.KeyExpires.UnixMicro(),
				int64(a.Event.TenantID), a.Key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookUpKey finds who has the key of a. When another event has it, the outcome
// is decided; when that other event's claim has expired, the key may be
// replaced.
func (c *commit) lookUpKey(a *store.Accept) (taken, expired bool, err error) {
	row := c.row[:3]
	found, err := c.first(c.accept.findKey.bind(int64(a.Event.TenantID), a.Key), row)
	if err != nil || !found {
		return false, false, err
	}
	event, _ := row[0].(int64)
	hash, _ := row[1].([]byte)
	expires, _ := row[2].(int64)
	switch {
	case event == int64(a.Event.ID):
		return false, false, nil
	case expires <= c.batch.Now.UnixMicro():
		return false, true, nil
	case bytes.Equal(hash, a.KeyHash[:]):
		a.Outcome, a.EventID = store.AcceptReplayed, hook.ID(event)
	default:
		a.Outcome = store.AcceptConflict
	}
	return true, false, nil
}

// insert adds the rows of one event.
func (c *commit) insert(a *store.Accept) {
	e := &a.Event
	payload := e.Payload
	if payload == nil {
		payload = []byte{} // nil would be NULL
	}
	c.accept.events.add(int64(e.ID), int64(e.TenantID), e.Type, e.CreatedAt.UnixMicro(), e.ContentType, payload)
	size := int64(0)
	for i := range a.Deliveries {
		d := &a.Deliveries[i]
		c.accept.deliveries.add(int64(d.ID), int64(d.TenantID), int64(d.EventID), int64(d.EndpointID),
			d.DueAt.UnixMicro(), int64(d.Size), int64(d.Progress.Run), d.Progress.RunDueAt.UnixMicro())
		size += int64(d.Size)
	}
	c.count(e.TenantID, int64(len(a.Deliveries)), size)
	c.keep(e.TenantID, store.StoredBy(len(a.Deliveries), len(payload)))
	if !c.batch.Uncounted {
		a.Log(&c.figures)
	}
	a.Outcome, a.EventID, a.Count = store.AcceptStored, e.ID, len(a.Deliveries)
}

// answerReplays counts the deliveries of the events that repetitions repeat.
func (c *commit) answerReplays() error {
	for _, a := range c.batch.Accepts {
		if a.Outcome != store.AcceptReplayed {
			continue
		}
		if _, err := c.first(c.accept.countOfEvent.bind(int64(a.EventID)), c.row[:1]); err != nil {
			return err
		}
		n, _ := c.row[0].(int64)
		a.Count = int(n)
	}
	return nil
}
