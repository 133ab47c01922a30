package app_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
)

// TestAbsenceOfTheDatabaseIsToldOnce lets many parts complain, and some of them
// once more when the database is back.
func TestAbsenceOfTheDatabaseIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &logText{}
		var away atomic.Bool
		gone := fmt.Errorf("connect:\n\t127.0.0.1:5432: %w\n\t[::1]:5432: no", io.EOF)
		log, run := app.OutageLog(slog.NewTextHandler(out, nil), func(context.Context) error {
			if away.Load() {
				return gone
			}
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()

		for range 2 {
			away.Store(true)
			for i := range 30 {
				log.Warn("part could not go on", "part", i, "error", gone)
				time.Sleep(100 * time.Millisecond)
			}
			away.Store(false)
			time.Sleep(time.Second)
			log.With("part", "late").Error("a broken connection", "error", gone)
			time.Sleep(10 * time.Second)
		}
		log.Warn("something else", "error", errors.New("two\nlines"))
		stop()
		if err := <-done; err != nil {
			t.Errorf("run = %v", err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 5 {
			t.Fatalf("%d lines, want 5:\n%s", len(lines), out)
		}
		for i, want := range []string{"the database is away", "the database is back", "the database is away", "the database is back", "two lines"} {
			if !strings.Contains(lines[i], want) || strings.Contains(lines[i], `\n`) {
				t.Errorf("line %d: %s, want %q", i, lines[i], want)
			}
		}
	})
}

// TestPostgresAwayForAWhile stops the database of a server that has nothing to do.
func TestPostgresAwayForAWhile(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Start(t)
	cfg, err := config.Load(config.Input{Version: "test", Environ: []string{
		"BREAKWATER_DATA_DIR=" + t.TempDir(), "BREAKWATER_LISTEN=127.0.0.1:0", "BREAKWATER_DEV=true",
		"BREAKWATER_DATABASE_URL=" + cluster.Database(t),
	}})
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan app.Started, 1)
	log := &logText{}
	cfg.Options.Announce = func(s app.Started) { started <- s }
	cfg.Options.Log = slog.New(slog.NewTextHandler(log, nil))
	a, err := app.New(cfg.Options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	select {
	case <-started:
	case err := <-done:
		t.Fatalf("the server ended: %v", err)
	}
	cluster.Crash()
	awaitLine(t, log, done, "the database is away")
	time.Sleep(time.Second) // for others who meet it
	cluster.Restart(t)
	awaitLine(t, log, done, "the database is back")
	time.Sleep(2 * time.Second) // for those who hear of it late
	stop()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
	lines := 0
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "level=INFO") && !strings.Contains(line, "DEV MODE") {
			lines++
		}
	}
	if lines != 1 {
		t.Errorf("%d warnings, want 1 that tells of the absence:\n%s", lines, log)
	}
}
