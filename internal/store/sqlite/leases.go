package sqlite

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

// The directory's lock leaves one process, so leases never expire here: a shard
// marked as another node's is left over from a process that is gone.

const (
	findNode = `SELECT id, slot FROM nodes WHERE name = ?1`

	// freeSlot is the smallest slot without a node.
	freeSlot = `
SELECT min(s) FROM (SELECT 0 AS s UNION ALL SELECT slot + 1 FROM nodes) WHERE s NOT IN (SELECT slot FROM nodes)`

	insertNode = `
INSERT INTO nodes (id, slot, name, addr, version, draining, started_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`

	updateNode = `
UPDATE nodes SET addr = ?2, version = ?3, draining = ?4, started_at = ?5 WHERE id = ?1`
)

// Join implements store.Leases.
func (d *DB) Join(ctx context.Context, n hook.Node, newID hook.ID, _ time.Duration) (hook.Node, error) {
	err := d.update(ctx, "join", func(t tx) error {
		known, err := t.row(findNode, []any{n.Name}, &n.ID, &n.Slot)
		if err != nil {
			return err
		}
		if known {
			_, err = t.Exec(updateNode, n.ID, n.Addr, n.Version, n.Draining, n.StartedAt)
			return err
		}
		n.ID = newID
		if _, err := t.row(freeSlot, nil, &n.Slot); err != nil {
			return err
		}
		_, err = t.Exec(insertNode, n.ID, n.Slot, n.Name, n.Addr, n.Version, n.Draining, n.StartedAt)
		return err
	})
	return n, err
}

// Heartbeat returns the node itself: there is no other. It writes nothing.
func (d *DB) Heartbeat(_ context.Context, n hook.Node, _ time.Duration) ([]hook.Node, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	return []hook.Node{n}, nil
}

// shardTable mirrors the table of shards. Changing it takes the writer's turn
// and the mutex; reading it takes either. A commit reads it during its turn,
// which is what makes it a fence; others need not wait for the disk.
type shardTable struct {
	mu     sync.RWMutex
	leases [hook.Shards]store.ShardLease
}

// holds reports whether node holds the shard in that epoch.
func (s *shardTable) holds(node hook.ID, shard int, epoch int64) bool {
	if shard < 0 || shard >= hook.Shards {
		return false
	}
	lease := &s.leases[shard]
	return lease.Owner == node && lease.Epoch == epoch
}

func (s *shardTable) set(leases []store.ShardLease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range leases {
		l.Free = l.Owner == 0
		s.leases[l.Shard] = l
	}
}

// Shards implements store.Leases.
func (d *DB) Shards(context.Context, time.Duration) ([]store.ShardLease, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	d.shards.mu.RLock()
	defer d.shards.mu.RUnlock()
	return slices.Clone(d.shards.leases[:]), nil
}

const (
	listShards = `SELECT shard, coalesce(owner_id, 0), epoch FROM shards`

	// setOwner changes the owner of shards, and their epochs by none or one.
	setOwner = `
UPDATE shards SET owner_id = ?2, epoch = epoch + ?3 WHERE shard IN (SELECT value FROM json_each(?1))`
)

// loadShards fills the mirror.
func (d *DB) loadShards(ctx context.Context) error {
	return d.exclusive(ctx, "read shards", func(ctx context.Context) error {
		var all []store.ShardLease
		err := tx{ctx, d.write.conn}.Query(listShards, nil, sqlstore.Collect(&all, func(r sqlstore.Row, l *store.ShardLease) error {
			return r.Scan(&l.Shard, &l.Owner, &l.Epoch)
		}))
		d.shards.set(all)
		return err
	})
}

// TakeShards implements store.Leases. Having the writer's turn, it runs between
// commits; the next commit compares with the new epochs.
func (d *DB) TakeShards(ctx context.Context, node hook.ID, shards []int, mine bool, _ time.Duration) (held []store.Held, err error) {
	err = d.exclusive(ctx, "take shards", func(ctx context.Context) error {
		free := slices.DeleteFunc(slices.Clone(shards), func(s int) bool { return d.shards.leases[s].Owner == node && !mine })
		if err := d.setOwner(ctx, free, node, 1); err != nil {
			return err
		}
		for _, s := range free {
			held = append(held, store.Held{Shard: s, Epoch: d.shards.leases[s].Epoch})
		}
		return nil
	})
	return held, err
}

// ReleaseShards implements store.Leases.
func (d *DB) ReleaseShards(ctx context.Context, node hook.ID, held []store.Held) error {
	return d.exclusive(ctx, "release shards", func(ctx context.Context) error {
		var own []int
		for _, h := range held {
			if d.shards.holds(node, h.Shard, h.Epoch) {
				own = append(own, h.Shard)
			}
		}
		return d.setOwner(ctx, own, 0, 0)
	})
}

// setOwner stores a change of owner and then mirrors it. The caller has the
// writer's turn.
func (d *DB) setOwner(ctx context.Context, shards []int, owner hook.ID, epochs int64) error {
	err := d.write.transaction(ctx, func(t tx) error {
		_, err := t.Exec(setOwner, idList(shards), orNull(owner), epochs)
		return err
	})
	if err != nil {
		return err
	}
	changed := make([]store.ShardLease, len(shards))
	for i, s := range shards {
		changed[i] = store.ShardLease{Shard: s, Owner: owner, Epoch: d.shards.leases[s].Epoch + epochs}
	}
	d.shards.set(changed)
	return nil
}

// RenewShards implements store.Leases. There is nothing to extend.
func (d *DB) RenewShards(_ context.Context, node hook.ID, held []store.Held, _ time.Duration) ([]store.Held, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	d.shards.mu.RLock()
	defer d.shards.mu.RUnlock()
	return slices.DeleteFunc(slices.Clone(held), func(h store.Held) bool { return !d.shards.holds(node, h.Shard, h.Epoch) }), nil
}

// Leave has nothing to tell anybody: the row keeps id and slot for the next
// process of this name.
func (d *DB) Leave(context.Context, hook.Node) error { return d.usable() }

const allNodes = `SELECT id, slot, name, addr, version, draining, started_at FROM nodes ORDER BY name`

// Nodes implements store.NodeLog.
func (d *DB) Nodes(ctx context.Context) (out []store.NodeRow, err error) {
	err = d.readErr("read nodes", d.each(ctx, &sqlstore.Query{SQL: allNodes}, sqlstore.Collect(&out, func(r sqlstore.Row, n *store.NodeRow) error {
		return r.Scan(&n.ID, &n.Slot, &n.Name, &n.Addr, &n.Version, &n.Draining, sqlstore.Time(&n.StartedAt))
	})))
	return out, err
}
