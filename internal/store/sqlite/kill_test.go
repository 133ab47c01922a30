package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

const childPath = "SQLITE_TEST_PATH"

// TestMain turns the test binary into a process that accepts events until it
// is killed.
func TestMain(m *testing.M) {
	path := os.Getenv(childPath)
	if path == "" {
		os.Exit(m.Run())
	}
	testing.Init()
	result := testing.Benchmark(func(b *testing.B) { acceptForEver(b, path) })
	fmt.Fprintln(os.Stderr, "ended by itself:", result)
	os.Exit(1)
}

// acceptForEver prints every event id after its commit.
func acceptForEver(b *testing.B, path string) {
	db, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	check(b, err)
	w := newLoad(b, db, 3)
	for {
		batch := w.batch(7)
		check(b, db.Commit(context.Background(), batch))
		for _, a := range batch.Accepts {
			fmt.Println(int64(a.Event.ID))
		}
	}
}

// TestKilledProcessLosesNothing kills a process in the middle of its commits:
// what it confirmed is there, whole, and the next process may begin at once.
func TestKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	path := filepath.Join(t.TempDir(), sqlite.FileName)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewScanner(out)
	var confirmed []hook.ID
	for lines.Scan() {
		id, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			break // a line cut short by the kill
		}
		if confirmed = append(confirmed, hook.ID(id)); len(confirmed) == 300 {
			check(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil || len(confirmed) < 300 {
		t.Fatalf("the process ended by itself after %d events: %v", len(confirmed), err)
	}

	db := open(t, path)
	for _, id := range confirmed {
		counts, err := db.CountDeliveries(t.Context(), 0, id)
		if err != nil || counts.Pending != 1 {
			t.Errorf("confirmed event %d: %+v, %v; want one pending delivery", id, counts, err)
		}
	}
	var verdict string
	check(t, inspect(t, path).QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict))
	if verdict != "ok" {
		t.Error(errors.New(verdict))
	}
}
