package deferred_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/deferred"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// owner returns a node that holds all shards.
func owner() *deferred.Node {
	n := deferred.NewNode(1)
	var held []store.Held
	for shard := range hook.Shards {
		held = append(held, store.Held{Shard: shard, Epoch: 1})
	}
	n.Took(visible.Made(), held, 1)
	return n
}

// accept lets the node commit one event with a delivery to each endpoint, with ids
// from the given one on.
func accept(n *deferred.Node, id hook.ID, now time.Time, endpoints ...hook.ID) {
	a := &store.Accept{Event: hook.Event{ID: id, TenantID: 7, CreatedAt: now}, Outcome: store.AcceptStored}
	for i, e := range endpoints {
		a.Deliveries = append(a.Deliveries, hook.Delivery{
			ID: id + hook.ID(i), TenantID: 7, EventID: id, EndpointID: e, DueAt: now, Progress: hook.Progress{Run: 1, RunDueAt: now},
		})
	}
	n.Begin(&store.Batch{Now: now, Accepts: []*store.Accept{a}}).Done()
}

// insertedAt returns the deliveries that a commit inserts because they have waited
// long enough.
func insertedAt(n *deferred.Node, now time.Time) (ids []hook.ID) {
	rows, _ := n.Begin(&store.Batch{Now: now}).Insert(nil, nil)
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	return ids
}

// TestCommitInsertsWhatWaits: a commit brings the rows that are a second late, and
// the oldest of too many, but not so many that whoever waits for it waits long.
func TestCommitInsertsWhatWaits(t *testing.T) {
	t.Parallel()
	n := owner()
	later := accepted.Add(900 * time.Millisecond)
	accept(n, 1, accepted, 1)
	accept(n, 2, later, 1)
	for _, c := range []struct {
		after time.Duration
		want  []hook.ID
	}{{999 * time.Millisecond, nil}, {time.Second, []hook.ID{1}}, {1900 * time.Millisecond, []hook.ID{1, 2}}} {
		if diff := cmp.Diff(c.want, insertedAt(n, accepted.Add(c.after))); diff != "" {
			t.Errorf("after %v: %s", c.after, diff)
		}
	}
	many := make([]hook.ID, 9000)
	accept(n, 10, later, many...)
	if n := len(insertedAt(n, later)); n != 9002-8192 {
		t.Errorf("%d are inserted of 9002, want all but 8192", n)
	}
	if n := len(insertedAt(n, later.Add(time.Second))); n != 2048 {
		t.Errorf("%d are inserted at once when 9002 are late, want 2048", n)
	}
	accept(n, 10_000, later, many...)
	if n := len(insertedAt(n, later)); n != (18_002-8192)/2 {
		t.Errorf("%d are inserted of 18002, want half of what is too much", n)
	}
}

// TestOverdueOfANodeThatCommitsNothing: what was handed off is looked at after a
// quarter of a second, what the node sends itself after two.
func TestOverdueOfANodeThatCommitsNothing(t *testing.T) {
	t.Parallel()
	n := deferred.NewNode(1)
	n.Took(visible.Made(), []store.Held{{Shard: hook.ShardOf(1), Epoch: 1}}, 1)
	foreign := hook.ID(2)
	for hook.ShardOf(foreign) == hook.ShardOf(1) {
		foreign++
	}
	accept(n, 10, accepted, 1, foreign)
	for _, c := range []struct {
		after          time.Duration
		handedOff, own []hook.ID
	}{
		{250 * time.Millisecond, nil, nil},
		{251 * time.Millisecond, []hook.ID{11}, nil},
		{2 * time.Second, []hook.ID{11}, nil},
		{2001 * time.Millisecond, []hook.ID{11}, []hook.ID{10}},
	} {
		handedOff, own := n.Overdue(accepted.Add(c.after))
		if !cmp.Equal(deferred.IDs(handedOff), c.handedOff, cmpopts.EquateEmpty()) || !cmp.Equal(deferred.IDs(own), c.own, cmpopts.EquateEmpty()) {
			t.Errorf("after %v: handed off %v, own %v", c.after, deferred.IDs(handedOff), deferred.IDs(own))
		}
	}
}

// TestLanesInsertWhatTheyDoNotKnow: lanes read what they do not hold in memory.
func TestLanesInsertWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	n := owner()
	for i := range hook.ID(6) {
		accept(n, 10+i, accepted, 100+i%3)
	}
	n.Inserted([]hook.ID{13})
	for name, tc := range map[string]struct {
		endpoints, known []hook.ID
		want             []hook.ID
	}{
		"all":               {nil, nil, []hook.ID{10, 11, 12, 14, 15}},
		"of two endpoints":  {[]hook.ID{100, 102}, nil, []hook.ID{10, 12, 15}},
		"not what is known": {[]hook.ID{100, 102}, []hook.ID{12, 11}, []hook.ID{10, 15}},
		"of nobody":         {[]hook.ID{7}, nil, nil},
	} {
		if diff := cmp.Diff(tc.want, deferred.IDs(n.OfLanes(tc.endpoints, tc.known)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := n.Since(14); len(got) != 2 {
		t.Errorf("endpoints since 14: %v, want those of the last two deliveries", got)
	}
}

// TestAnnouncedDeliveryIsDue: it was due on the node that accepted it, whatever the
// clock of the one that sends it says.
func TestAnnouncedDeliveryIsDue(t *testing.T) {
	t.Parallel()
	d := deferred.Delivery{ID: 11, Event: 10, Endpoint: 1, Due: accepted}
	now := accepted.Add(-time.Second)
	if got, ok := (deferred.Nodes{owner()}).Announced(d, now); !ok || got.DueAt.After(now) || got.Progress.RunDueAt.After(now) {
		t.Errorf("announced: %+v, %v; want it due at %v", got, ok, now)
	}
}
