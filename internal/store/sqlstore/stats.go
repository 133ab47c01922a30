package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
)

const readFigures = `
SELECT at, data FROM stats WHERE level = $1 AND subject = $2 AND step = $3 AND at >= $4 AND at < $5 ORDER BY at`

// Stats implements store.StatsReader.
func (t *Tables) Stats(ctx context.Context, s stats.Subject, from, to time.Time) ([]stats.Point, error) {
	var out []stats.Point
	for _, step := range []stats.Step{stats.Days, stats.Hours, stats.Minutes} {
		points, err := list(ctx, t, "read figures", scanPoint,
			&Query{SQL: readFigures, Args: []any{s.Level, s.ID, step, step.Floor(from).Unix(), to.Unix()}})
		if err != nil {
			return nil, err
		}
		out = append(out, points...)
	}
	return out, nil
}

func scanPoint(r Row, p *stats.Point) error {
	var at int64
	var data []byte
	if err := r.Scan(&at, &data); err != nil {
		return err
	}
	counts, err := stats.Unpack(data)
	p.At, p.Counts = time.Unix(at, 0).UTC(), counts
	return err
}

const (
	findFigures = `
SELECT data FROM stats WHERE level = $1 AND subject = $2 AND step = $3 AND at = $4 AND writer = $5`

	putFigures = `
INSERT INTO stats (level, subject, step, at, writer, data) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (level, subject, step, at, writer) DO UPDATE SET data = excluded.data`
)

// figuresKey is the key of a row of figures.
type figuresKey struct {
	subject stats.Subject
	step    stats.Step
	at      int64
	writer  hook.ID
}

func (k *figuresKey) args() []any {
	return []any{k.subject.Level, k.subject.ID, k.step, k.at, k.writer}
}

// addFigures adds to a row of figures, which nobody else may write meanwhile.
func addFigures(tx Tx, k figuresKey, c stats.Counts) error {
	err := tx.Query(findFigures, k.args(), func(r Row) error {
		var data []byte
		if err := r.Scan(&data); err != nil {
			return err
		}
		before, err := stats.Unpack(data)
		c.Merge(before)
		return err
	})
	if err != nil {
		return err
	}
	_, err = tx.Exec(putFigures, append(k.args(), c.Append(nil))...)
	return err
}

// CountCancelled counts deliveries that ended with their endpoint, whose number
// stands for the writer.
func CountCancelled(tx Tx, now time.Time, tenant, endpoint hook.ID, n int64) error {
	if n == 0 {
		return nil
	}
	if err := tx.Lock(LockStats, endpoint); err != nil {
		return err
	}
	return count(tx, endpoint, now, tenant, endpoint, stats.Cancelled, uint64(n))
}

// count counts deliveries of an endpoint that a person changed, in the change's
// own transaction. The writer is the change, or who else writes no two of them at
// a time.
func count(tx Tx, writer hook.ID, now time.Time, tenant, endpoint hook.ID, counter stats.Counter, n uint64) error {
	var c stats.Counts
	c.Add(counter, n)
	for _, s := range []stats.Subject{{Level: stats.OfEndpoint, ID: endpoint}, {Level: stats.OfTenant, ID: tenant}, {Level: stats.OfSystem}} {
		k := figuresKey{s, stats.Minutes, stats.Minutes.Floor(now).Unix(), writer}
		if err := addFigures(tx, k, c.Clone()); err != nil {
			return err
		}
	}
	return nil
}

const (
	oldFigures = `
SELECT level, subject, at, writer, data FROM stats WHERE step = $1 AND at < $2 ORDER BY at, level, subject, writer LIMIT $3`

	dropFigures = `
DELETE FROM stats WHERE level = $1 AND subject = $2 AND step = $3 AND at = $4 AND writer = $5`
)

// oldRow is a row of figures that becomes part of a coarser one.
type oldRow struct {
	figuresKey
	counts stats.Counts
}

// RollUp implements store.StatsKeeper.
func (t *Tables) RollUp(ctx context.Context, from stats.Step, before time.Time, limit int) (n int, err error) {
	if from >= stats.Days {
		return 0, fmt.Errorf("roll up figures: nothing is coarser than step %d", from)
	}
	into := from + 1
	err = t.dialect.Change(ctx, "roll up figures", func(tx Tx) error {
		if err := tx.Lock(LockStats, 0); err != nil {
			return err
		}
		var rows []oldRow
		if err := tx.Query(oldFigures, []any{from, into.Floor(before).Unix(), limit}, Collect(&rows, scanOld)); err != nil {
			return err
		}
		n = len(rows)
		sums := make(map[figuresKey]stats.Counts)
		var drop [][]any
		for _, r := range rows {
			r.step = from
			drop = append(drop, r.args())
			k := figuresKey{r.subject, into, into.Floor(time.Unix(r.at, 0)).Unix(), 0}
			sum := sums[k]
			sum.Merge(r.counts)
			sums[k] = sum
		}
		for k, c := range sums {
			if err := addFigures(tx, k, c); err != nil {
				return err
			}
		}
		return tx.ExecAll(dropFigures, drop)
	})
	return n, err
}

func scanOld(r Row, o *oldRow) error {
	var data []byte
	if err := r.Scan(&o.subject.Level, &o.subject.ID, &o.at, &o.writer, &data); err != nil {
		return err
	}
	counts, err := stats.Unpack(data)
	o.counts = counts
	return err
}

// DropStats implements store.StatsKeeper.
func (t *Tables) DropStats(ctx context.Context, step stats.Step, before time.Time, limit int) (n int, err error) {
	err = t.dialect.Change(ctx, "remove old figures", func(tx Tx) error {
		var rows []oldRow
		if err := tx.Query(oldFigures, []any{step, before.Unix(), limit}, Collect(&rows, scanOld)); err != nil {
			return err
		}
		n = len(rows)
		var drop [][]any
		for _, r := range rows {
			r.step = step
			drop = append(drop, r.args())
		}
		return tx.ExecAll(dropFigures, drop)
	})
	return n, err
}
