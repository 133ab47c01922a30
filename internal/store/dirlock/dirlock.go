// Package dirlock keeps two processes from using one data directory.
//
// The lock lives as long as the process: the kernel drops it when the process
// ends in whatever way, so nothing is left behind that a person would have to
// remove. It protects nothing on a network file system that ignores locks.
package dirlock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// FileName is the file that carries the lock. It stays when the lock is given
// up: removing it would let two processes lock two files of the same name.
const FileName = "breakwater.lock"

// ErrLocked means that another process uses the directory.
var ErrLocked = errors.New("directory is in use by another process")

// Lock is a locked directory.
type Lock struct{ file *os.File }

// Acquire locks dir or fails at once with ErrLocked. The directory must exist.
func Acquire(dir string) (*Lock, error) {
	name := filepath.Join(dir, FileName)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock file: %w", err)
	}
	if err := lock(file); err != nil {
		err = fmt.Errorf("lock %s%s: %w", name, holder(file), err)
		return nil, errors.Join(err, file.Close())
	}
	// The process id only helps people; a failure to write it costs nothing.
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &Lock{file: file}, nil
}

// holder names the process that holds the lock, for the error message.
func holder(file *os.File) string {
	buf := make([]byte, 20)
	n, _ := file.ReadAt(buf, 0)
	if pid := strings.TrimSpace(string(buf[:n])); pid != "" {
		return " (held by process " + pid + ")"
	}
	return ""
}

// Release gives the lock up.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("release lock file: %w", err)
	}
	return nil
}
