package sqlite_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// TestLogPerEventAtALowRate publishes 77 events a second, each delivered 5 ms later,
// and measures how much log an event costs: results that wait a moment for each
// other must spare a fifth of it, most of their own share. docs/performance.md has
// the figures.
func TestLogPerEventAtALowRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(27 * 365 * 24 * time.Hour) // ids tell the time from 2024 on
		alone, shared := logPerEvent(t, 0), logPerEvent(t, 100*time.Millisecond)
		t.Logf("log per event at 77 events/s: %.1f KiB, and %.1f KiB with results that wait up to 100 ms", alone/1024, shared/1024)
		if shared > alone*4/5 {
			t.Errorf("%.0f bytes of log per event, %.0f without the wait: less than a fifth is spared", shared, alone)
		}
	})
}

func logPerEvent(t *testing.T, wait time.Duration) float64 {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Options{})
	check(t, err)
	w := newLoad(t, db, 4)
	writer, err := store.NewWriter(store.WriterConfig{
		DB: db, Node: w.node.ID, Local: true, SettleWait: wait, Committed: func(*store.Batch) {}, Log: slog.New(slog.DiscardHandler),
	})
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { check(t, writer.Run(ctx)) })
	const events = 150
	var before int64
	for i := range events + 20 {
		if i == 20 { // tables and indexes are there
			before = db.LogWritten()
		}
		w.now = time.Now().Truncate(time.Microsecond)
		a := w.batch(1).Accepts[0]
		check(t, writer.Accept(a.Event.TenantID, store.Load{Rows: 2}, func() []*store.Accept { return []*store.Accept{a} }))
		settle := w.success(a.Deliveries[0])
		time.AfterFunc(5*time.Millisecond, func() { writer.Settle(settle, nil) })
		time.Sleep(time.Second / 77)
	}
	stop()
	running.Wait()
	written := db.LogWritten() - before
	check(t, db.Close())
	return float64(written) / events
}

// TestLogThatAReaderHoldsIsShortenedAfterwards lets another connection read one
// state of the file while much is written: the log grows. When the reader has
// gone, it is shortened although nobody commits any more.
func TestLogThatAReaderHoldsIsShortenedAfterwards(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	db := open(t, path)
	w := newLoad(t, db, 1)
	reader, err := inspect(t, path).BeginTx(t.Context(), nil)
	check(t, err)
	var n int
	check(t, reader.QueryRowContext(t.Context(), "SELECT count(*) FROM events").Scan(&n))
	w.payload = make([]byte, 4_000_000)
	for range 17 {
		check(t, db.Commit(t.Context(), w.batch(1)))
		check(t, db.Tidy(t.Context()))
	}
	if held, err := db.TrimLog(t.Context()); err != nil || held < 68_000_000 {
		t.Fatalf("a log of %d bytes, %v; want all that was written", held, err)
	}
	check(t, reader.Rollback())
	if left, err := db.TrimLog(t.Context()); err != nil || left > 64<<20 {
		t.Errorf("a log of %d bytes, %v, after the reader has gone; want at most 64 MiB", left, err)
	}
}

// TestFullDiskAtTheStart starts on a file system without room: what is wrong and
// what to do is said in words.
func TestFullDiskAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		if ci, _ := strconv.ParseBool(os.Getenv("CI")); ci && os.Getuid() == 0 {
			t.Fatalf("mount a small file system: %v", err)
		}
		t.Skipf("NOT TESTED: a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	filler, err := os.Create(filepath.Join(dir, "filler"))
	check(t, err)
	for block := make([]byte, 4096); err == nil; {
		_, err = filler.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	check(t, filler.Close())
	for _, free := range []int64{0, 16 << 10, 64 << 10, 128 << 10} {
		check(t, os.Truncate(filler.Name(), 256<<10-free))
		db, err := sqlite.Open(t.Context(), filepath.Join(dir, sqlite.FileName), sqlite.Options{})
		if err == nil {
			check(t, db.Close())
			continue
		}
		if !errors.Is(err, hook.ErrStoreFull) || !strings.Contains(err.Error(), "make room") {
			t.Errorf("Open with %d bytes free = %v, want ErrStoreFull and what to do", free, err)
		}
	}
	check(t, os.Remove(filler.Name()))
}
