package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/store"
)

// fakeSchema is a database that remembers what ran.
type fakeSchema struct {
	lock    sync.Mutex // the migration lock
	applied []store.AppliedMigration
	ran     []string
	failOn  string
}

func (s *fakeSchema) AppliedMigrations(context.Context) ([]store.AppliedMigration, error) {
	return slices.Clone(s.applied), nil
}

func (s *fakeSchema) BeginMigration(context.Context) (store.MigrationTx, error) {
	s.lock.Lock()
	return &fakeTx{fakeSchema: s}, nil
}

type fakeTx struct {
	*fakeSchema
	scripts []string
	records []store.AppliedMigration
	done    bool
}

var errScript = errors.New("script failed")

func (t *fakeTx) ExecScript(_ context.Context, script string) error {
	if t.failOn != "" && strings.Contains(script, t.failOn) {
		return errScript
	}
	t.scripts = append(t.scripts, script)
	return nil
}

func (t *fakeTx) RecordMigration(_ context.Context, m store.AppliedMigration) error {
	t.records = append(t.records, m)
	return nil
}

func (t *fakeTx) Commit(context.Context) error {
	t.ran = append(t.ran, t.scripts...)
	t.applied = append(t.applied, t.records...)
	t.done = true
	t.lock.Unlock()
	return nil
}

func (t *fakeTx) Rollback() error {
	if !t.done {
		t.done = true
		t.lock.Unlock()
	}
	return nil
}

var now = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func load(t *testing.T, files map[string]string) []store.Migration {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	out, err := store.LoadMigrations(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func two(t *testing.T) []store.Migration {
	t.Helper()
	return load(t, map[string]string{"0001_first.sql": "one", "0002_second_step.sql": "two"})
}

func TestLoadMigrationsRefuses(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]string{
		"nothing":     {},
		"a gap":       {"0001_a.sql", "0003_c.sql"},
		"a late one":  {"0002_b.sql"},
		"a double":    {"0001_a.sql", "0001_b.sql"},
		"no name":     {"0001_.sql"},
		"no number":   {"first.sql"},
		"few digits":  {"1_a.sql"},
		"a bad digit": {"000x_a.sql"},
	} {
		fsys := fstest.MapFS{}
		for _, f := range files {
			fsys[f] = &fstest.MapFile{}
		}
		if got, err := store.LoadMigrations(fsys, "."); err == nil {
			t.Errorf("%s: loaded %v, want an error", name, got)
		}
	}
}

func TestMigrateUp(t *testing.T) {
	t.Parallel()
	s, known := &fakeSchema{}, two(t)
	if err := store.CheckSchema(t.Context(), s, known); !errors.Is(err, store.ErrSchemaPending) {
		t.Errorf("CheckSchema of an empty database = %v, want ErrSchemaPending", err)
	}
	applied, err := store.MigrateUp(t.Context(), s, known, now)
	if err != nil || len(applied) != 2 || applied[1].Name != "second_step" {
		t.Fatalf("MigrateUp = %v, %v; want both", applied, err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, s.ran); diff != "" {
		t.Errorf("scripts (-want +got):\n%s", diff)
	}
	if again, err := store.MigrateUp(t.Context(), s, known, now); err != nil || len(again) != 0 {
		t.Errorf("second MigrateUp = %v, %v; want nothing", again, err)
	}
	if err := store.CheckSchema(t.Context(), s, known); err != nil {
		t.Errorf("CheckSchema = %v", err)
	}
}

func TestMigrationList(t *testing.T) {
	t.Parallel()
	s, known := &fakeSchema{}, two(t)
	if _, err := store.MigrateUp(t.Context(), s, known[:1], now); err != nil {
		t.Fatal(err)
	}
	got, err := store.MigrationList(t.Context(), s, known)
	want := []store.MigrationStatus{{Version: 1, Name: "first", AppliedAt: now}, {Version: 2, Name: "second_step"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("MigrationList: %v (-want +got):\n%s", err, diff)
	}
}

func TestFailedMigrationLeavesTheEarlierOnes(t *testing.T) {
	t.Parallel()
	s, known := &fakeSchema{failOn: "two"}, two(t)
	applied, err := store.MigrateUp(t.Context(), s, known, now)
	if !errors.Is(err, errScript) || !strings.Contains(err.Error(), "0002_second_step") || len(applied) != 1 {
		t.Errorf("MigrateUp = %v, %v; want the first, and an error that names the second", applied, err)
	}
	if len(s.applied) != 1 || s.applied[0].Version != 1 {
		t.Errorf("applied = %v, want the first alone", s.applied)
	}
	s.failOn = ""
	if applied, err = store.MigrateUp(t.Context(), s, known, now); err != nil || len(applied) != 1 {
		t.Errorf("MigrateUp after the repair = %v, %v; want the second", applied, err)
	}
}

func TestMigrateRefusesForeignSchema(t *testing.T) {
	t.Parallel()
	known := two(t)
	record := func(version int, checksum [32]byte) store.AppliedMigration {
		return store.AppliedMigration{Version: version, Name: "x", Checksum: checksum[:], AppliedAt: now}
	}
	first, second := record(1, known[0].Checksum), record(2, known[1].Checksum)
	for name, tc := range map[string]struct {
		applied []store.AppliedMigration
		want    error
	}{
		"newer":   {[]store.AppliedMigration{first, second, record(3, [32]byte{})}, store.ErrSchemaNewer},
		"changed": {[]store.AppliedMigration{record(1, [32]byte{1})}, store.ErrSchemaChanged},
		"gap":     {[]store.AppliedMigration{second}, store.ErrSchemaGap},
	} {
		s := &fakeSchema{applied: tc.applied}
		if applied, err := store.MigrateUp(t.Context(), s, known, now); !errors.Is(err, tc.want) || len(applied) != 0 || len(s.ran) != 0 {
			t.Errorf("%s: MigrateUp = %v, %v; want %v", name, applied, err, tc.want)
		}
		if err := store.CheckSchema(t.Context(), s, known); !errors.Is(err, tc.want) {
			t.Errorf("%s: CheckSchema = %v, want %v", name, err, tc.want)
		}
		if _, err := store.MigrationList(t.Context(), s, known); !errors.Is(err, tc.want) {
			t.Errorf("%s: MigrationList = %v, want %v", name, err, tc.want)
		}
	}
}

// TestProcessesThatStartAtOnceTakeTurns runs every script once.
func TestProcessesThatStartAtOnceTakeTurns(t *testing.T) {
	t.Parallel()
	s, known := &fakeSchema{}, two(t)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = store.MigrateUp(t.Context(), s, known, now) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, s.ran); diff != "" {
		t.Errorf("scripts (-want +got):\n%s", diff)
	}
}
