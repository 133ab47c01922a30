package sqlite_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// abandoned returns the path of a store whose process ended without closing it:
// everything is in the log, nothing has been moved to the file. Its copies of the
// files are those of the moment after so many commits.
func abandoned(t *testing.T) (path string, log []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path)
	w := newLoad(t, db, 1)
	check(t, db.Commit(t.Context(), w.batch(20)))
	file, err := os.ReadFile(path)
	check(t, err)
	log, err = os.ReadFile(path + "-wal")
	check(t, err)
	path = filepath.Join(t.TempDir(), sqlite.FileName)
	check(t, errors.Join(os.WriteFile(path, file, 0o600), os.WriteFile(path+"-wal", log, 0o600)))
	return path, log
}

// TestLogWithoutItsFileIsKept starts beside a log whose database file is gone or
// was emptied: no start, and no byte of the log is touched.
func TestLogWithoutItsFileIsKept(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{
		"missing": os.Remove,
		"empty":   func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, log := abandoned(t)
			check(t, lose(path))
			before, err := os.Stat(path)
			for _, open := range []func() error{
				func() error { _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); return err },
				func() error { _, err := sqlite.OpenSchema(t.Context(), path); return err },
			} {
				if err := open(); !errors.Is(err, sqlite.ErrForeignLog) {
					t.Errorf("open = %v, want a refusal", err)
				}
			}
			after, afterErr := os.Stat(path)
			if (err == nil) != (afterErr == nil) || err == nil && before.Size() != after.Size() {
				t.Errorf("the file changed: %v, %v", after, afterErr)
			}
			if kept, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(kept, log) {
				t.Errorf("the log changed (%v)", err)
			}
		})
	}
}
