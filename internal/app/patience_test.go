package app_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
)

// launch runs a server on a database until stop, and does not wait for it.
func launch(t *testing.T, dsn string) (log *logText, started <-chan app.Started, ended <-chan error, stop func()) {
	t.Helper()
	cfg, err := config.Load(config.Input{Version: "test", Environ: []string{
		"BREAKWATER_DATA_DIR=" + t.TempDir(), "BREAKWATER_LISTEN=127.0.0.1:0", "BREAKWATER_DEV=true", "BREAKWATER_DATABASE_URL=" + dsn,
		"BREAKWATER_ENCRYPTION_KEY=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	}})
	if err != nil {
		t.Fatal(err)
	}
	log = &logText{}
	up, done := make(chan app.Started, 1), make(chan error, 1)
	cfg.Options.Announce = func(s app.Started) { up <- s }
	cfg.Options.Log = slog.New(slog.NewTextHandler(log, nil))
	a, err := app.New(cfg.Options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		done <- a.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-over
	}
	t.Cleanup(stop)
	return log, up, done, stop
}

// kept returns a database with the schema in place in which a session keeps a lock
// until it is given back.
func kept(t *testing.T, lock string) (dsn string, giveBack func()) {
	t.Helper()
	dsn = pgtest.DSN(t)
	_, started, ended, stop := launch(t, dsn)
	select {
	case <-started:
	case err := <-ended:
		t.Fatalf("the server ended: %v", err)
	}
	stop()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	do := func(statement string) {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	do("BEGIN")
	do(lock)
	return dsn, func() { do("ROLLBACK") }
}

// awaitLine waits for a line of the log of a server that must not end.
func awaitLine(t *testing.T, log *logText, ended <-chan error, text string) {
	t.Helper()
	for !strings.Contains(log.String(), text) {
		select {
		case err := <-ended:
			t.Fatalf("the server ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestStartWaitsForASlowDatabase lets a step of the start run into the timeout of
// its statement, because another session keeps what it needs. The server waits,
// says so once, and goes on when the other one is done.
func TestStartWaitsForASlowDatabase(t *testing.T) {
	t.Parallel()
	const waits = "the start waits for it"
	for doing, keep := range map[string]string{
		"compare encryption keys": "LOCK TABLE settings IN ACCESS EXCLUSIVE MODE",
		"read the greatest id":    "LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE",
		"count admin keys":        "LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE",
	} {
		t.Run(doing, func(t *testing.T) {
			t.Parallel()
			dsn, giveBack := kept(t, keep)
			log, started, ended, stop := launch(t, dsn)
			awaitLine(t, log, ended, waits)
			time.Sleep(4 * time.Second) // for another try
			giveBack()
			select {
			case <-started:
			case err := <-ended:
				t.Fatalf("the server ended: %v", err)
			}
			stop()
			if text := log.String(); strings.Count(text, waits) != 1 || !strings.Contains(text, doing) || !strings.Contains(text, "the start goes on") {
				t.Errorf("want one line that tells of the wait and one of its end:\n%s", text)
			}
			if err := <-ended; err != nil {
				t.Errorf("Run = %v", err)
			}
		})
	}
}

// TestStartThatWaitsCanBeEnded: whoever stops the server does not wait for the
// database.
func TestStartThatWaitsCanBeEnded(t *testing.T) {
	t.Parallel()
	dsn, _ := kept(t, "LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE")
	log, _, ended, stop := launch(t, dsn)
	awaitLine(t, log, ended, "the start waits for it")
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want the end of its context", err)
	}
}

// TestStartWithoutADatabaseEnds: an address at which nobody answers may be wrong.
func TestStartWithoutADatabaseEnds(t *testing.T) {
	t.Parallel()
	_, _, ended, _ := launch(t, "postgres://nobody@127.0.0.1:1/none")
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "connect to the database") {
		t.Errorf("Run = %v, want that the database cannot be reached", err)
	}
}
