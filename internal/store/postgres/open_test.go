package postgres_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

func TestRefusesToConfirmWhatIsNotDurable(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	name := value[string](t, dsn, "SELECT current_database()")
	for setting, wanted := range map[string]bool{"off": false, "local": true, "remote_write": true, "on": true} {
		exec(t, dsn, "ALTER DATABASE "+name+" SET synchronous_commit = "+setting)
		db, err := postgres.Open(t.Context(), dsn, postgres.Options{})
		if err == nil {
			_ = db.Close()
		}
		if (err == nil) != wanted {
			t.Errorf("Open with synchronous_commit = %s: %v", setting, err)
		}
		if !wanted && !strings.Contains(err.Error(), "synchronous_commit") {
			t.Errorf("the error does not name the setting: %v", err)
		}
	}
}

func TestConnectionsRefuseASettingThatChangedLater(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	db := open(t, dsn)
	name := value[string](t, dsn, "SELECT current_database()")
	exec(t, dsn, "ALTER DATABASE "+name+" SET synchronous_commit = off")
	exec(t, dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	eventually(t, "refusal", func() bool {
		err := db.Ping(t.Context())
		return err != nil && strings.Contains(err.Error(), "synchronous_commit")
	})
}

func TestNodesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			db, err := postgres.Open(t.Context(), dsn, postgres.Options{})
			if err == nil {
				err = errors.Join(db.Ping(t.Context()), db.Close())
			}
			errs[i] = err
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("Open: %v", err)
	}
	if n := value[int](t, dsn, "SELECT count(*) FROM schema_migrations WHERE version = 1"); n != 1 {
		t.Errorf("%d records of the first migration, want 1", n)
	}
}

func TestSchemaMustFit(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	_, err := postgres.Open(t.Context(), dsn, postgres.Options{SkipMigrate: true})
	if !errors.Is(err, store.ErrSchemaPending) {
		t.Errorf("Open of an empty database without migrating = %v, want %v", err, store.ErrSchemaPending)
	}
	open(t, dsn)
	db, err := postgres.Open(t.Context(), dsn, postgres.Options{SkipMigrate: true})
	if err != nil {
		t.Fatalf("Open of a migrated database: %v", err)
	}
	defer func() { _ = db.Close() }()
	exec(t, dsn, "INSERT INTO schema_migrations SELECT max(version) + 1, 'future', '', now() FROM schema_migrations")
	if err := db.Ping(t.Context()); !errors.Is(err, store.ErrSchemaNewer) {
		t.Errorf("Ping of a newer schema = %v, want %v", err, store.ErrSchemaNewer)
	}
}

func TestPingSeesMissingPartitions(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	db := open(t, dsn)
	tomorrow := value[string](t, dsn, "SELECT to_char(now() AT TIME ZONE 'UTC' + interval '1 day', 'YYYYMMDD')")
	exec(t, dsn, "DROP TABLE attempts_"+tomorrow)
	if err := db.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "partition") {
		t.Errorf("Ping = %v, want an error about partitions", err)
	}
}

func TestSettingsAreClaimedOnce(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	a, b := open(t, dsn), open(t, dsn)
	for _, db := range []*postgres.DB{a, b, a} {
		got, err := db.ClaimSetting(t.Context(), "key", map[*postgres.DB]string{a: "first", b: "second"}[db])
		if err != nil || got != "first" {
			t.Errorf("ClaimSetting = %q, %v; want the value that came first", got, err)
		}
	}
}

// TestPayloadsAreStoredCheaply: no partition compresses payloads as Postgres
// does by default, neither one that was there before nor one that is made now.
func TestPayloadsAreStoredCheaply(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	db := open(t, dsn)
	if err := db.Prepare(t.Context(), time.Now().AddDate(0, 2, 0)); err != nil {
		t.Fatal(err)
	}
	var tables, slow int
	err := connect(t, dsn).QueryRow(t.Context(), `
SELECT count(*), count(*) FILTER (WHERE attcompression <> 'l' AND attstorage <> 'e')
FROM pg_attribute WHERE attname = 'payload' AND attrelid IN (SELECT oid FROM pg_class WHERE relkind IN ('r', 'p') AND relname LIKE 'events%')`).
		Scan(&tables, &slow)
	if err != nil || tables < 20 || slow > 0 {
		t.Errorf("%d of %d tables compress payloads by default, error %v; want none of at least 20", slow, tables, err)
	}
}
