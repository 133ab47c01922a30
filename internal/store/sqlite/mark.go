package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// A log belongs to one state of one file: applied to another, an older copy of
// the same file for one, it destroys it. SQLite does not notice, so the first
// page carries a mark. It is drawn anew
//
//   - before the log is moved to the file, so that a copy that was made earlier
//     does not have the file's mark when the log begins again, and
//   - in the first transaction of every log, which therefore tells the mark of
//     the file that it belongs to.
//
// The mark is the user_version, and application_id is the mark before it: the two
// numbers that SQLite keeps in the first page for whoever uses the file.
type mark struct{ before, now uint32 }

// Where the two are in the first page.
const (
	markAt       = 60
	markBeforeAt = 68
	fileHeader   = 100
)

func parseMark(page []byte) mark {
	return mark{
		before: binary.BigEndian.Uint32(page[markBeforeAt:]),
		now:    binary.BigEndian.Uint32(page[markAt:]),
	}
}

// newMark is never 0: that is a file without a mark.
func newMark() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return max(binary.BigEndian.Uint32(b[:])&0x7fffffff, 1)
}

// renewMark gives the file another mark, in a transaction of its own.
func (w *writer) renewMark(ctx context.Context) error {
	return w.transaction(ctx, func(t tx) error {
		var now int64
		if _, err := t.row("PRAGMA user_version", nil, &now); err != nil {
			return err
		}
		if _, err := t.Exec("PRAGMA application_id = " + strconv.FormatInt(now, 10)); err != nil {
			return err
		}
		_, err := t.Exec("PRAGMA user_version = " + strconv.FormatInt(int64(newMark()), 10))
		return err
	})
}

// markAlone gives a file that no process uses a mark that no log can have, and
// makes it durable.
func markAlone(file *os.File) error {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], newMark())
	if _, err := file.WriteAt(b[:], markAt); err != nil {
		return fmt.Errorf("mark file: %w", err)
	}
	clear(b[:])
	if _, err := file.WriteAt(b[:], markBeforeAt); err != nil {
		return fmt.Errorf("mark file: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("flush file: %w", err)
	}
	return nil
}

// checkLog fails when the log at path-wal is not that of the file at path.
func checkLog(path string) error {
	have, err := markOfFile(path)
	if err != nil {
		return err
	}
	first, marks, frames, err := marksOfLog(path + "-wal")
	if err != nil {
		return err
	}
	if frames == 0 {
		return nil // nothing would be applied
	}
	if len(marks) == 0 && have.now == 0 || len(marks) > 0 && first.before == have.now || marks[have.now] {
		return nil
	}
	return fmt.Errorf("%w: %s-wal was written to another state of %s: a copy was put in place beside an old log. "+
		"If the file is the one that you want, move the log away (and -shm with it); nothing was changed", errForeignLog, path, path)
}

func markOfFile(path string) (mark, error) {
	file, err := os.Open(path)
	if err != nil {
		return mark{}, fmt.Errorf("look at file: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	head := make([]byte, fileHeader)
	if _, err := io.ReadFull(file, head); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return mark{}, nil // no database; SQLite says so
		}
		return mark{}, fmt.Errorf("look at file: %w", err)
	}
	return parseMark(head), nil
}

// The format of the log, https://sqlite.org/fileformat.html#walformat.
const (
	logMagic       = 0x377f0682 // the last bit set: checksums of big-endian words
	logHeader      = 32
	logFrameHeader = 24
)

// marksOfLog returns the first mark of a log, all its marks and how many frames
// SQLite would apply.
func marksOfLog(path string) (first mark, marks map[uint32]bool, frames int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return first, nil, 0, fmt.Errorf("look at log: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	in := bufio.NewReaderSize(file, 1<<20)
	head := make([]byte, logHeader)
	if _, err := io.ReadFull(in, head); err != nil {
		return first, nil, 0, ignoreEnd(err)
	}
	magic, size := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[8:])
	sum := logSum{order: binary.LittleEndian}
	if magic&1 != 0 {
		sum.order = binary.BigEndian
	}
	sum.add(head[:24])
	if magic&^1 != logMagic || size < 512 || size > 65536 || size&(size-1) != 0 || !sum.is(head[24:]) {
		return first, nil, 0, nil // SQLite takes such a log for an empty one
	}
	marks = make(map[uint32]bool)
	var waiting []mark // of a transaction that has not ended
	frame := make([]byte, logFrameHeader+int(size))
	for n := 1; ; n++ {
		if _, err := io.ReadFull(in, frame); err != nil {
			return first, marks, frames, ignoreEnd(err)
		}
		page := frame[logFrameHeader:]
		sum.add(frame[:8])
		sum.add(page)
		if !bytes.Equal(frame[8:16], head[16:24]) || !sum.is(frame[16:24]) {
			return first, marks, frames, nil // left over from an earlier log, or cut short
		}
		if binary.BigEndian.Uint32(frame) == 1 {
			waiting = append(waiting, parseMark(page))
		}
		if binary.BigEndian.Uint32(frame[4:]) == 0 {
			continue
		}
		frames = n // a commit
		for _, m := range waiting {
			if len(marks) == 0 {
				first = m
			}
			marks[m.now] = true
		}
		waiting = waiting[:0]
	}
}

// ignoreEnd makes the end of a log no error: it may end anywhere.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return fmt.Errorf("look at log: %w", err)
}

// logSum is the running checksum of a log.
type logSum struct {
	order  binary.ByteOrder
	s0, s1 uint32
}

func (s *logSum) add(b []byte) {
	for ; len(b) >= 8; b = b[8:] {
		s.s0 += s.order.Uint32(b) + s.s1
		s.s1 += s.order.Uint32(b[4:]) + s.s0
	}
}

func (s *logSum) is(stored []byte) bool {
	return binary.BigEndian.Uint32(stored) == s.s0 && binary.BigEndian.Uint32(stored[4:]) == s.s1
}
