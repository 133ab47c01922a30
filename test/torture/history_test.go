package torture_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/breakwaterhq/breakwater/test/torture/check"
)

// journal is one file of a history: a JSON line for each record.
type journal struct {
	mu      sync.Mutex // guards writing and written
	file    *os.File
	written int

	syncing sync.Mutex // held during an fsync; guards synced
	synced  int
}

func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{file: file}, nil
}

// write adds a record and returns its number.
func (j *journal) write(record any) (int, error) {
	line, err := json.Marshal(record)
	if err != nil {
		return 0, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return 0, err
	}
	j.written++
	return j.written, nil
}

// writeThrough adds a record and returns when it is on disk. Those that wait
// at the same time share one fsync.
func (j *journal) writeThrough(record any) error {
	n, err := j.write(record)
	if err != nil {
		return err
	}
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.synced >= n {
		return nil
	}
	j.mu.Lock()
	covered := j.written
	j.mu.Unlock()
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.synced = covered
	return nil
}

func (j *journal) close() error { return j.file.Close() }

// Names of the files of a history.
const (
	submittedFile = "submitted.jsonl"
	acceptedFile  = "accepted.jsonl"
	seenFile      = "seen.jsonl"
	eventsFile    = "events.jsonl"
	claimsFile    = "claims.jsonl"
)

// readHistory reads what was written of a run. Files that are not there yet
// are empty.
func readHistory(dir string) (h check.History, err error) {
	return h, errors.Join(
		readJournal(filepath.Join(dir, submittedFile), &h.Submitted),
		readJournal(filepath.Join(dir, acceptedFile), &h.Accepted),
		readJournal(filepath.Join(dir, seenFile), &h.Seen),
		readJournal(filepath.Join(dir, eventsFile), &h.Events),
		readJournal(filepath.Join(dir, claimsFile), &h.Claims),
	)
}

func readJournal[T any](path string, into *[]T) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var record T
		if err := json.Unmarshal(lines.Bytes(), &record); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		*into = append(*into, record)
	}
	return lines.Err()
}

// writeJournal writes a whole file of a history.
func writeJournal[T any](path string, records []T) error {
	var b bytes.Buffer
	for _, record := range records {
		line, err := json.Marshal(record)
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	return os.WriteFile(path, b.Bytes(), 0o600)
}
