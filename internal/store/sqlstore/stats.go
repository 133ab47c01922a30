package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const readFigures = `
SELECT at, data FROM stats WHERE level = $1 AND subject = $2 AND step = $3 AND at >= $4 AND at < $5 ORDER BY at`

// Stats implements store.StatsReader.
func (t *Tables) Stats(ctx context.Context, s stats.Subject, from, to time.Time) ([]stats.Point, error) {
	var out []stats.Point
	for _, step := range []stats.Step{stats.Days, stats.Hours, stats.Minutes} {
		q := &Query{SQL: readFigures, Args: []any{s.Level, s.ID, step, step.Floor(from).Unix(), to.Unix()}}
		err := t.dialect.Read(ctx, "read figures", q, func(r Row) error {
			var at int64
			var data []byte
			if err := r.Scan(&at, &data); err != nil {
				return err
			}
			out = t.unpack(out, s, at, data)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// unpack adds a row of figures to others. One that is damaged is left out: the rest
// is worth more than nothing.
func (t *Tables) unpack(to []stats.Point, of stats.Subject, at int64, data []byte) []stats.Point {
	p := stats.Point{At: time.Unix(at, 0).UTC()}
	var err error
	if p.Counts, err = stats.Unpack(data); err == nil {
		return append(to, p)
	}
	if t.figures.Damaged != nil {
		t.figures.Damaged(of, p.At)
	}
	return to
}

// TroubledQuery finds who had trouble. Without a hint SQLite would read all figures
// there are, in the order of subjects, to find each once.
func TroubledQuery(d Dialect, since time.Time) *Query {
	return &Query{
		SQL:  `SELECT DISTINCT level, subject FROM stats` + d.Hint("stats_trouble") + ` WHERE trouble = 1 AND at >= $1`,
		Args: []any{stats.Minutes.Floor(since).Unix()},
	}
}

// Troubled implements store.StatsReader.
func (t *Tables) Troubled(ctx context.Context, since time.Time) ([]stats.Subject, error) {
	return list(ctx, t, "find troubled endpoints", func(r Row, s *stats.Subject) error { return r.Scan(&s.Level, &s.ID) },
		TroubledQuery(t.dialect, since))
}

const insertLog = `INSERT INTO stats_log (at, data) VALUES ($1, $2)`

// Count logs in a transaction that something happened to n deliveries.
func (t *Tables) Count(tx Tx, now time.Time, of stats.Owner, c stats.Counter, n int64) error {
	if n == 0 || t.figures.Uncounted {
		return nil
	}
	var l stats.Log
	l.Begin(0, of)
	l.Count(c, uint64(n))
	l.End()
	_, err := tx.Exec(insertLog, now.Unix(), l.Packed())
	return err
}

// TellQueues implements store.StatsKeeper.
func (t *Tables) TellQueues(ctx context.Context, c store.QueueCount) error {
	logs := c.Logs()
	if len(logs) == 0 {
		return nil
	}
	rows := make([][]any, len(logs))
	for i := range logs {
		rows[i] = []any{logs[i].At.Unix(), logs[i].Packed}
	}
	return t.dialect.Change(ctx, "store what waits", func(tx Tx) error { return tx.ExecAll(insertLog, rows) })
}

const (
	sizesOfLogs = `SELECT length(data) FROM stats_log LIMIT $1`

	takeLogs = `DELETE FROM stats_log WHERE %s RETURNING at, data, written, ended`

	// logCost is what a log weighs beside its bytes.
	logCost = 64
)

// damage is what could not be read.
type damage struct{ err error }

func (d *damage) note(err error) { d.err = errors.Join(d.err, err) }

// FoldStats implements store.StatsKeeper. What is damaged is told and left out: it
// must not keep all other logs from being added up for ever.
func (t *Tables) FoldStats(ctx context.Context, limit int) (n int, err error) {
	var damaged damage
	err = t.dialect.Change(ctx, "add up figures", func(tx Tx) error {
		n, damaged = 0, damage{}
		if err := tx.Lock(LockStats, 0); err != nil {
			return err
		}
		logs, weight, err := t.takeLogs(tx, limit, &damaged)
		if err != nil {
			return err
		}
		n = weight
		sums := make(stats.Sums)
		for i := range logs {
			damaged.note(sums.Add(&logs[i]))
		}
		pieces := make(map[piece]stats.Counts, len(sums))
		for _, r := range sums.Rows() {
			pieces[piece{r.Subject.Level, stats.Minutes, r.Minute, r.Subject.ID}] = r.Counts
		}
		if err := t.tellPending(tx, pieces); err != nil {
			return err
		}
		return t.addFigures(tx, pieces, &damaged)
	})
	return n, errors.Join(err, damaged.err)
}

// takeLogs removes logs until they weigh limit.
func (t *Tables) takeLogs(tx Tx, limit int, damaged *damage) (logs []stats.Record, weight int, err error) {
	some := 0
	err = tx.Query(sizesOfLogs, []any{limit/logCost + 1}, func(r Row) error {
		var size int
		err := r.Scan(&size)
		if weight < limit {
			some, weight = some+1, weight+size+logCost
		}
		return err
	})
	if err != nil || some == 0 {
		return nil, 0, err
	}
	err = tx.Query(fmt.Sprintf(takeLogs, t.dialect.Some("stats_log")), []any{some},
		Collect(&logs, func(r Row, l *stats.Record) error { return scanLog(r, l, damaged) }))
	return logs, weight, err
}

const (
	pendingOf    = `SELECT tenant_id, CAST(sum(pending) AS bigint) FROM tenant_usage WHERE %s GROUP BY tenant_id`
	pendingOfAll = `SELECT CAST(coalesce(sum(pending), 0) AS bigint) FROM tenant_usage`
)

// tellPending tells how much is pending now, as of the latest minute that anything
// is known of.
func (t *Tables) tellPending(tx Tx, pieces map[piece]stats.Counts) error {
	latest := int64(0)
	for p := range pieces {
		latest = max(latest, p.at)
	}
	tell := func(p piece, n int64) {
		if c, ok := pieces[p]; ok {
			c.Tell(stats.Pending, uint64(max(n, 0)))
			pieces[p] = c
		}
	}
	var tenants []hook.ID
	for p := range pieces {
		if p.level == stats.OfTenant && p.at == latest {
			tenants = append(tenants, p.subject)
		}
	}
	if len(tenants) == 0 {
		return nil
	}
	find := fmt.Sprintf(pendingOf, t.dialect.Among("tenant_id", "$1"))
	err := tx.Query(find, []any{tenants}, func(r Row) error {
		var tenant hook.ID
		var n int64
		err := r.Scan(&tenant, &n)
		tell(piece{stats.OfTenant, stats.Minutes, latest, tenant}, n)
		return err
	})
	if err != nil {
		return err
	}
	all, err := one(tx, ScanValue[int64], pendingOfAll)
	tell(piece{stats.OfSystem, stats.Minutes, latest, 0}, all)
	return err
}

func scanLog(r Row, l *stats.Record, damaged *damage) error {
	var at int64
	var written, ended *string
	if err := r.Scan(&at, &l.Packed, &written, &ended); err != nil {
		return err
	}
	l.At = time.Unix(at, 0)
	var err, more error
	l.Written, err = idSet(written)
	l.Ended, more = idSet(ended)
	if err = errors.Join(err, more); err != nil {
		damaged.note(err)
		l.Packed = nil
	}
	return nil
}

// idSet reads ids between commas.
func idSet(text *string) (map[hook.ID]bool, error) {
	if text == nil {
		return nil, nil
	}
	set := make(map[hook.ID]bool)
	for word := range strings.SplitSeq(*text, ",") {
		if word == "" {
			continue
		}
		id, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			return nil, err
		}
		set[hook.ID(id)] = true
	}
	return set, nil
}

// piece names a row of figures.
type piece struct {
	level   stats.Level
	step    stats.Step
	at      int64
	subject hook.ID
}

const (
	findFigures = `
SELECT subject, data FROM stats WHERE level = $1 AND step = $2 AND at = $3 AND %s`

	putFigures = `
INSERT INTO stats (level, step, at, subject, trouble, data) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (level, subject, step, at) DO UPDATE SET trouble = excluded.trouble, data = excluded.data`
)

// addFigures adds to pieces, which nobody else does at the same time. It replaces
// those that are damaged.
func (t *Tables) addFigures(tx Tx, pieces map[piece]stats.Counts, damaged *damage) error {
	alike := make(map[piece][]hook.ID) // by all but the subject
	for p := range pieces {
		subject := p.subject
		p.subject = 0
		alike[p] = append(alike[p], subject)
	}
	for p, subjects := range alike {
		find := fmt.Sprintf(findFigures, t.dialect.Among("subject", "$4"))
		err := tx.Query(find, []any{p.level, p.step, p.at, subjects}, func(r Row) error {
			var data []byte
			if err := r.Scan(&p.subject, &data); err != nil {
				return err
			}
			before, err := stats.Unpack(data)
			damaged.note(err)
			before.Merge(pieces[p])
			pieces[p] = before
			return nil
		})
		if err != nil {
			return err
		}
	}
	rows := make([][]any, 0, len(pieces))
	for p, c := range pieces {
		if c.Empty() {
			continue
		}
		trouble := 0
		if c.Trouble() {
			trouble = 1
		}
		rows = append(rows, []any{p.level, p.step, p.at, p.subject, trouble, c.Append(nil)})
	}
	return tx.ExecAll(putFigures, rows)
}

const (
	oldFigures = `
SELECT level, subject, at, data FROM stats WHERE step = $1 AND at < $2 ORDER BY at LIMIT $3`

	dropFigures = `
DELETE FROM stats WHERE level = $1 AND step = $2 AND at = $3 AND subject = $4`
)

// oldPiece is a row that is past its age.
type oldPiece struct {
	piece
	counts stats.Counts
}

func (o *oldPiece) args() []any { return []any{o.level, o.step, o.at, o.subject} }

// takeOld removes pieces of a step that began before a moment. A damaged one is
// empty.
func takeOld(tx Tx, step stats.Step, before time.Time, limit int, damaged *damage) ([]oldPiece, error) {
	var rows []oldPiece
	err := tx.Query(oldFigures, []any{step, before.Unix(), limit},
		Collect(&rows, func(r Row, o *oldPiece) error { return scanOld(r, o, damaged) }))
	if err != nil {
		return nil, err
	}
	drop := make([][]any, len(rows))
	for i := range rows {
		rows[i].step = step
		drop[i] = rows[i].args()
	}
	return rows, tx.ExecAll(dropFigures, drop)
}

func scanOld(r Row, o *oldPiece, damaged *damage) error {
	var data []byte
	if err := r.Scan(&o.level, &o.subject, &o.at, &data); err != nil {
		return err
	}
	counts, err := stats.Unpack(data)
	damaged.note(err)
	o.counts = counts
	return nil
}

// RollUp implements store.StatsKeeper.
func (t *Tables) RollUp(ctx context.Context, from stats.Step, before time.Time, limit int) (n int, err error) {
	if from >= stats.Days {
		return 0, fmt.Errorf("roll up figures: nothing is coarser than step %d", from)
	}
	into := from + 1
	var damaged damage
	err = t.dialect.Change(ctx, "roll up figures", func(tx Tx) error {
		damaged = damage{}
		if err := tx.Lock(LockStats, 0); err != nil {
			return err
		}
		rows, err := takeOld(tx, from, into.Floor(before), limit, &damaged)
		if err != nil {
			return err
		}
		n = len(rows)
		pieces := make(map[piece]stats.Counts)
		for _, r := range rows {
			p := piece{r.level, into, into.Floor(time.Unix(r.at, 0)).Unix(), r.subject}
			sum := pieces[p]
			sum.Merge(r.counts)
			pieces[p] = sum
		}
		return t.addFigures(tx, pieces, &damaged)
	})
	return n, errors.Join(err, damaged.err)
}

// DropStats implements store.StatsKeeper.
func (t *Tables) DropStats(ctx context.Context, step stats.Step, before time.Time, limit int) (n int, err error) {
	err = t.dialect.Change(ctx, "remove old figures", func(tx Tx) error {
		var damaged damage // it goes anyway
		rows, err := takeOld(tx, step, before, limit, &damaged)
		n = len(rows)
		return err
	})
	return n, err
}
