package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/breakwaterhq/breakwater/internal/store/postgres"
)

// The waits between two tries of a step of the start.
const (
	firstStartWait = 250 * time.Millisecond
	maxStartWait   = 10 * time.Second
)

// patiently makes a step of the start, which needs the database. One that has no
// time for it now, or went away after it was found, is waited for, as it is by a
// server that runs: who starts the process again would only add to its load.
func (a *App) patiently(ctx context.Context, doing string, step func(context.Context) error) error {
	return a.tryAgain(ctx, doing, step, func(err error) bool { return postgres.Slow(err) || postgres.Away(err) })
}

// tryAgain makes a step again as long as it fails with an error that passes. It
// tells of the first one; the next ones are there at level debug.
func (a *App) tryAgain(ctx context.Context, doing string, step func(context.Context) error, passes func(error) bool) error {
	level := slog.LevelWarn
	for wait := firstStartWait; ; wait = min(2*wait, maxStartWait) {
		err := step(ctx)
		switch {
		case err == nil && level != slog.LevelWarn:
			a.log.Info("the start goes on", "doing", doing)
			return nil
		case err == nil || a.opts.DatabaseURL == "" || ctx.Err() != nil || !passes(err):
			return err
		}
		a.log.Log(ctx, level, "the database has no time; the start waits for it", "doing", doing, "error", err)
		level = slog.LevelDebug
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}
