// Package sqlstore is the part of a store that all SQL dialects share: the
// tables that people fill and look at, and how conditions and values become SQL.
//
// Its statements are SQL that SQLite and PostgreSQL both understand; what they
// decide is decided once. Whatever a database does in a way of its own stays in
// its dialect: batches of events and results, the walks over deliveries, leases,
// the removal of old events. The package holds no connection and knows no driver.
package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// Dialect runs the statements of this package. Arguments are values of Go: the
// dialect knows how its database stores a time (the zero time is NULL), a
// document or a list. Errors come in the terms of the store's roles, those of
// package hook among them.
type Dialect interface {
	Deliveries

	// Read runs a query and hands its rows to scan.
	Read(ctx context.Context, doing string, q *Query, scan func(Row) error) error
	// ReadTogether runs several queries of lanes in one round trip, where there are
	// such, or in one state of the store.
	ReadTogether(ctx context.Context, doing string, parts ...Part) error
	// Snapshot runs fn in a transaction that sees one state of the store.
	Snapshot(ctx context.Context, doing string, fn func(Tx) error) error
	// Change runs fn in a transaction that is committed unless fn fails.
	Change(ctx context.Context, doing string, fn func(Tx) error) error
	// Among is the condition that a column holds a value of a list.
	Among(column, list string) string
	// Hint follows the name of a table and names the index to use, where the
	// dialect leaves that to its statements.
	Hint(index string) string
	// ForUpdate follows a query whose rows of one table nobody else may change
	// before the transaction ends.
	ForUpdate(table string) string
	// Some is the condition that a row is one of $1 rows of a table that has no
	// key, whichever.
	Some(table string) string
	// LanesFrom returns the source of a list of lanes and its first condition. It
	// begins with what is rarest: storms and warnings, then open lanes.
	LanesFrom(q *Query, f store.LaneFilter)
}

// Deliveries is the part of a dialect that is about deliveries.
type Deliveries interface {
	// MakeVisible makes sure that a read sees all deliveries that the filter may
	// match, and gives the leave to read them.
	MakeVisible(ctx context.Context, f *store.DeliveryFilter) (visible.Rows, error)
	// MakeLaneVisible is MakeVisible for the owner of a lane.
	MakeLaneVisible(ctx context.Context, endpoint hook.ID) (visible.Rows, error)
	// ReadLane is Read for the owner of a lane.
	ReadLane(ctx context.Context, doing string, q *Query, scan func(Row) error) error
	// FirstAttempt reads the attempt that was stored with the row of delivery $1
	// of tenant $2: delivery, tenant, endpoint, event, document, excerpt.
	FirstAttempt() visible.SQL
	// FirstAttempts is where attempts are that were stored with the row of their
	// delivery d, and how a list goes through them.
	FirstAttempts() AttemptWalk
	// CancelPending ends all that is pending for an endpoint that is deleted,
	// and returns how many deliveries that were.
	CancelPending(ctx context.Context, tenant, endpoint hook.ID, now time.Time) (int64, error)

	// EventsOf adds the events e of a tenant in a range of ids as a source with a
	// condition, and returns the order of their ids in the words of the index.
	EventsOf(q *Query, tenant hook.ID, r store.IDs) (order string)
	// WithoutDelivery adds the condition that an event e has no delivery to an
	// endpoint, neither a row nor a name of one that is deferred.
	WithoutDelivery(q *Query, endpoint hook.ID)
	// Pairs is the lists $1 and $2 as a source p of rows (id, event_id).
	Pairs() string

	// StopQuery steps over the first n of a walk and returns the id behind them.
	StopQuery(seen visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs, asc bool, n int) *Query
	// WalkQuery reads up to p.Limit of what matches of a range of a walk, in the
	// order of ids.
	WalkQuery(seen visible.Rows, w store.Walk, f *store.DeliveryFilter, r store.IDs, p store.Page, columns string) *Query
	// CountDue counts up to limit deliveries that are pending for some endpoints,
	// and due by a moment unless that is zero.
	CountDue(seen visible.Rows, endpoints []hook.ID, by time.Time, limit int) *Query
}

// Tx is a transaction. Its statements see what it wrote. A row that is not there,
// or whose parent is not, is hook.ErrNotFound, a name that is in use
// hook.ErrUIDTaken.
type Tx interface {
	// Exec runs a statement and returns how many rows it changed.
	Exec(query string, args ...any) (changed int64, err error)
	// ExecAll runs a statement once for each row of arguments.
	ExecAll(query string, rows [][]any) error
	// Query runs a statement and hands its rows to scan.
	Query(query string, args []any, scan func(Row) error) error
	// Lock waits until nobody else holds the lock, and holds it until the
	// transaction ends. A dialect with one writer has nothing to do.
	Lock(l Lock, id hook.ID) error
}

// Row is one row of a result.
type Row interface{ Scan(dest ...any) error }

// Lock is what a transaction keeps to itself.
type Lock uint8

// The locks.
const (
	LockConfig         Lock = 1 + iota // a tenant's endpoints and policy
	LockConfigShared                   // the same for all who need them to stay as they are; accepts hold it
	LockKeys                           // whoever revokes API keys, so that two cannot revoke the last two
	LockReplays                        // the replay that starts, so that two never feed one endpoint
	LockStats                          // whoever adds to figures
	LockShard                          // what depends on the owner of a shard, shared: it stays the owner
	LockChannels                       // whoever decides notices for channels, or removes channels
	LockPolicies                       // whoever makes, changes or removes named policies
	LockPoliciesShared                 // whoever needs a named policy to stay
	LockKeptShared                     // whoever creates deliveries of old events, so that retention does not pass them
)

// Tables implements most of the roles that serve people. A dialect embeds it.
type Tables struct {
	dialect Dialect
	figures store.FigureOptions
}

// New returns the tables of a dialect.
func New(d Dialect, figures store.FigureOptions) *Tables { return &Tables{d, figures} }

// list reads the rows of a query.
func list[T any](ctx context.Context, t *Tables, doing string, scan func(Row, *T) error, q *Query) (out []T, err error) {
	err = t.dialect.Read(ctx, doing, q, Collect(&out, scan))
	return out, err
}

// get reads the one row of a query; hook.ErrNotFound without it.
func get[T any](ctx context.Context, t *Tables, doing string, scan func(Row, *T) error, query string, args ...any) (v T, err error) {
	out, err := list(ctx, t, doing, scan, &Query{SQL: query, Args: args})
	switch {
	case err != nil:
		return v, err
	case len(out) == 0:
		return v, fmt.Errorf("%s: %w", doing, hook.ErrNotFound)
	default:
		return out[0], nil
	}
}

// one is get inside a transaction.
func one[T any](tx Tx, scan func(Row, *T) error, query string, args ...any) (v T, err error) {
	var out []T
	switch err := tx.Query(query, args, Collect(&out, scan)); {
	case err != nil:
		return v, err
	case len(out) == 0:
		return v, hook.ErrNotFound
	default:
		return out[0], nil
	}
}

// Collect returns what appends rows to out.
func Collect[T any](out *[]T, scan func(Row, *T) error) func(Row) error {
	return func(r Row) error {
		var v T
		if err := scan(r, &v); err != nil {
			return err
		}
		*out = append(*out, v)
		return nil
	}
}

// ScanValue reads a row of one column.
func ScanValue[T any](r Row, v *T) error { return r.Scan(v) }

// change runs fn and stores the record of it in one transaction.
func (t *Tables) change(ctx context.Context, doing string, a hook.Audit, fn func(Tx) error) error {
	return t.dialect.Change(ctx, doing, func(tx Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return WriteAudit(tx, a)
	})
}

// mismatchOrAbsent explains an update that found no row.
func mismatchOrAbsent(tx Tx, exists string, args ...any) error {
	there, err := one(tx, ScanValue[bool], exists, args...)
	if err == nil && there {
		return hook.ErrVersionMismatch
	}
	if err == nil {
		return hook.ErrNotFound
	}
	return err
}

const insertAudit = `
INSERT INTO audit (id, tenant_id, actor, action, subject, diff, request_id, remote_ip, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`

// WriteAudit stores the record of a change in the change's own transaction, and the
// claim of the request that asked for it.
func WriteAudit(tx Tx, a hook.Audit) error {
	if err := claim(tx, &a); err != nil {
		return err
	}
	var diff any
	if len(a.Diff) > 0 {
		diff = a.Diff
	}
	_, err := tx.Exec(insertAudit, a.ID, OrNull(a.TenantID), a.Actor, a.Action, a.Subject, diff, OrNull(a.RequestID), OrNull(a.RemoteIP), a.At)
	return err
}

// WriteAudit implements store.Maintenance.
func (t *Tables) WriteAudit(ctx context.Context, a hook.Audit) error {
	return t.change(ctx, "write audit record", a, func(Tx) error { return nil })
}

// claimSetting writes the row also when it is there, to learn its value even if
// another node has stored it after this statement began.
const claimSetting = `
INSERT INTO settings AS s (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = s.value RETURNING value`

// ClaimSetting implements store.Maintenance.
func (t *Tables) ClaimSetting(ctx context.Context, name, value string) (stored string, err error) {
	err = t.dialect.Change(ctx, "claim setting", func(tx Tx) (err error) {
		stored, err = one(tx, ScanValue[string], claimSetting, name, value)
		return err
	})
	return stored, err
}

const savePolicy = `INSERT INTO policies (hash, name, body, updated_at) VALUES ($1, '', $2, $3) ON CONFLICT DO NOTHING`

// SavePolicy implements store.LaneReader.
func (t *Tables) SavePolicy(ctx context.Context, hash hook.PolicyHash, body []byte, now time.Time) error {
	return t.dialect.Change(ctx, "save policy", func(tx Tx) error {
		_, err := tx.Exec(savePolicy, hash[:], raw(body), now)
		return err
	})
}

// AppliedMigrations reads what ScanMigration scans.
const AppliedMigrations = `SELECT version, name, checksum, applied_at FROM schema_migrations ORDER BY version`

// ScanMigration reads the record of a migration.
func ScanMigration(r Row, m *store.AppliedMigration) error {
	return r.Scan(&m.Version, &m.Name, &m.Checksum, Time(&m.AppliedAt))
}
