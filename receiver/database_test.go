package receiver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // driver pgx
	_ "modernc.org/sqlite"             // driver sqlite

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/receiver"
)

// database is an empty database of a test.
type database struct {
	driver, dsn string
	dialect     receiver.Dialect
}

// onEach runs a test on every database that can be had here. SQLite as people
// open it who read no manual is one of them: no time to wait for a lock, no WAL.
func onEach(t *testing.T, test func(t *testing.T, d database)) {
	t.Helper()
	on(t, test, "sqlite", "sqlite bare", "postgres")
}

// onEachThatWaits is for tests that look at the tables while somebody works: bare SQLite
// takes the look for a reason to fail, and works later.
func onEachThatWaits(t *testing.T, test func(t *testing.T, d database)) {
	t.Helper()
	on(t, test, "sqlite", "postgres")
}

func on(t *testing.T, test func(t *testing.T, d database), names ...string) {
	t.Helper()
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := "file:" + filepath.Join(t.TempDir(), "hooks.db")
			d := database{"sqlite", file, receiver.SQLite}
			switch name {
			case "sqlite":
				d.dsn += "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"
			case "postgres":
				d = database{"pgx", pgtest.DSN(t), receiver.Postgres}
			}
			test(t, d)
		})
	}
}

// open returns another pool of connections to the same data.
func (d database) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(8)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// prepare makes the tables, and one for the effects of work: it takes any number
// of rows per id, so that work that was done twice is seen.
func (d database) prepare(t testing.TB, o receiver.SQLOptions) (*sql.DB, *receiver.SQL) {
	t.Helper()
	db := d.open(t)
	s := d.on(t, db, o)
	execute(t, db, s.Schema())
	execute(t, db, s.Schema()) // again, as at every start
	execute(t, db, "CREATE TABLE IF NOT EXISTS effects (id TEXT NOT NULL)")
	return db, s
}

// on is another process's view of the same tables.
func (d database) on(t testing.TB, db *sql.DB, o receiver.SQLOptions) *receiver.SQL {
	t.Helper()
	o.Dialect = d.dialect
	if o.OnError == nil {
		o.OnError = func(e receiver.Event, err error) { t.Logf("event %q: %v", e.ID, err) }
	}
	s, err := receiver.NewSQL(db, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func execute(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	unlocked(t, statement, func() error {
		_, err := db.ExecContext(t.Context(), statement)
		return err
	})
}

func count(t testing.TB, db *sql.DB, from string) (n int) {
	t.Helper()
	unlocked(t, from, func() error { return db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+from).Scan(&n) })
	return n
}

// unlocked tries again while bare SQLite says that someone else is at it.
func unlocked(t testing.TB, what string, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "is locked") || time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// effect does the work of an event: it writes a row in the transaction of ctx.
func effect(ctx context.Context, id string) error {
	tx, ok := receiver.TxFrom(ctx)
	if !ok {
		return fmt.Errorf("no transaction for %s", id)
	}
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (id) VALUES ('"+id+"')")
	return err
}

// patient does what a sender does: it comes again when the answer is that someone
// else is at work. SQLite without WAL says so when a reader is in the way.
type patient struct{ *receiver.SQL }

func (p patient) Once(ctx context.Context, id string, fn func(context.Context) error) (ran bool, err error) {
	for ctx.Err() == nil {
		if ran, err = p.SQL.Once(ctx, id, fn); !errors.Is(err, receiver.ErrBusy) {
			return ran, err
		}
	}
	return ran, err
}

// eachOnce fails the test unless every one of n events had exactly one effect.
func eachOnce(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	if all, unique := count(t, db, "effects"), count(t, db, "(SELECT DISTINCT id FROM effects) AS u"); all != n || unique != n {
		t.Errorf("%d effects of %d events, want %d of as many", all, unique, n)
	}
}

// together starts n goroutines at the same moment and waits for all.
func together(n int, f func(i int)) {
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}
