package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/breakwaterhq/breakwater/internal/store/dirlock"
)

// errForeignLog means that the log beside the file is not this file's. Applying
// it would destroy the file; beginning anew would destroy the log.
var errForeignLog = errors.New("the log does not belong to the database file")

// checkFiles looks at the files before SQLite does. To SQLite a file that is
// missing or empty is a new database, and a log beside it is rubbish.
func checkFiles(path string) error {
	log, err := fileSize(path + "-wal")
	if err != nil || log == 0 {
		return err
	}
	file, err := fileSize(path)
	if err != nil {
		return err
	}
	if file == 0 {
		return fmt.Errorf("%w: %s is missing or empty, but %s-wal holds %d bytes that were accepted: bring the file back that the log belongs to, "+
			"or restore a backup into an empty folder; nothing was changed", errForeignLog, path, path, log)
	}
	return checkLog(path)
}

// checkUnused is checkFiles unless a server uses the files: it has looked at them
// itself, and they change while it runs.
func checkUnused(path string) error {
	lock, err := dirlock.Acquire(filepath.Dir(path))
	if errors.Is(err, dirlock.ErrLocked) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(checkFiles(path), lock.Release())
}

// fileSize returns 0 for a file that is not there.
func fileSize(path string) (int64, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("look at files: %w", err)
	default:
		return info.Size(), nil
	}
}
