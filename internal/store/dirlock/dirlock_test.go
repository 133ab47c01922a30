package dirlock_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/store/dirlock"
)

const childDir = "DIRLOCK_TEST_DIR"

// TestMain turns the test binary into a second process that tries the lock.
func TestMain(m *testing.M) {
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	if _, err := dirlock.Acquire(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func child(t *testing.T, dir string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.Output()
	return string(out), err
}

func TestSecondHolderIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	held, err := dirlock.Acquire(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = dirlock.Acquire(dir)
	if !errors.Is(err, dirlock.ErrLocked) {
		t.Errorf("second Acquire = %v, want ErrLocked", err)
	}
	if want := fmt.Sprintf("process %d", os.Getpid()); !strings.Contains(err.Error(), want) {
		t.Errorf("second Acquire = %q, want it to name %q", err, want)
	}
	if out, err := child(t, dir); err == nil {
		t.Errorf("another process got the lock: %s", out)
	}

	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if out, err := child(t, dir); err != nil {
		t.Errorf("another process after the release: %v: %s", err, out)
	}
	// The other process ended without a release and left nothing behind.
	again, err := dirlock.Acquire(dir)
	if err != nil {
		t.Fatalf("Acquire after the release: %v", err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}

func TestMissingDirectory(t *testing.T) {
	t.Parallel()
	if _, err := dirlock.Acquire(filepath.Join(t.TempDir(), "none")); err == nil || errors.Is(err, dirlock.ErrLocked) {
		t.Errorf("Acquire = %v, want an error other than ErrLocked", err)
	}
}
