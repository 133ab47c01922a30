package sqlite

import (
	"context"
	"database/sql/driver"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Commit implements store.Committer.
func (d *DB) Commit(ctx context.Context, b *store.Batch) error {
	return d.exclusive(ctx, "commit batch", func(ctx context.Context) error {
		f := &d.write.fast
		var c commit
		err := f.transaction(ctx, d.write.conn, func() error {
			c = commit{
				fastPath: f, batch: b, shards: &d.shards,
				revs: make(map[hook.ID]int64, 4), usage: make(map[hook.ID]store.Usage, 4),
			}
			return c.run()
		})
		if err != nil {
			return err
		}
		return d.checkpointAt(ctx, checkpointLate)
	})
}

// commit is one batch on its way into the store.
type commit struct {
	*fastPath
	batch   *store.Batch
	shards  *shardTable
	revs    map[hook.ID]int64 // ConfigRev of the tenants met so far, 0: no such tenant
	usage   map[hook.ID]store.Usage
	replays store.ReplayTallies
	row     [6]driver.Value // of lookups
}

func (c *commit) run() error {
	c.figures.Reset()
	for _, step := range []func() error{c.writeAccepts, c.writeSettles, c.writeReplays, c.writeLanes, c.writeUsage, c.writeFigures} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// owns reports whether the batch's node holds the shard in that epoch. The
// writer's turn keeps it true until the transaction ends.
func (c *commit) owns(shard int, epoch int64) bool { return c.shards.holds(c.batch.Node, shard, epoch) }

// count notes that deliveries of a tenant became pending or stopped being so.
func (c *commit) count(tenant hook.ID, pending, bytes int64) {
	c.usage[tenant] = c.usage[tenant].Plus(store.Usage{Pending: pending, Bytes: bytes})
}

// keep notes that a tenant's rows take so much.
func (c *commit) keep(tenant hook.ID, stored int64) {
	c.usage[tenant] = c.usage[tenant].Plus(store.Usage{Stored: stored})
}

// addUsage moves the counters of one tenant and node.
const addUsage = `
INSERT INTO tenant_usage (tenant_id, node_id, pending, bytes, stored) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (tenant_id, node_id) DO UPDATE SET
  pending = pending + excluded.pending, bytes = bytes + excluded.bytes, stored = stored + excluded.stored`

func (c *commit) writeUsage() error {
	for tenant, u := range c.usage {
		if u == (store.Usage{}) {
			continue
		}
		if _, err := c.exec(c.addUsage.bind(int64(tenant), int64(c.batch.Node), u.Pending, u.Bytes, u.Stored)); err != nil {
			return err
		}
	}
	return nil
}

// logFigures stores what the commit counts. FoldStats adds it up.
const logFigures = `INSERT INTO stats_log (at, data) VALUES (?, ?)`

func (c *commit) writeFigures() error {
	packed := c.figures.Packed()
	if len(packed) == 0 {
		return nil
	}
	_, err := c.exec(c.logFigures.bind(c.batch.Now.Unix(), packed))
	return err
}

// addTally moves the counters of one replay.
const addTally = `
UPDATE replays SET answers = answers + ?, errors = errors + ?, refused = refused + ?, delivered = delivered + ?, failed = failed + ?
WHERE id = ?`

func (c *commit) writeReplays() error {
	for id, t := range c.replays {
		if _, err := c.exec(c.addTally.bind(t.Answers, t.Errors, t.Refused, t.Delivered, t.Failed, int64(id))); err != nil {
			return err
		}
	}
	return nil
}
