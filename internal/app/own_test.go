package app_test

import (
	"context"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/app"
)

// TestProfilesAreNoDestination: not even where loopback destinations are allowed.
func TestProfilesAreNoDestination(t *testing.T) {
	t.Parallel()
	a, err := app.New(app.Options{Dev: true, PprofListen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.ServePprof(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for a.PprofAddr() == "" {
		time.Sleep(time.Millisecond)
	}
	if a.Allows("http://" + a.PprofAddr() + "/debug/pprof/") {
		t.Error("a webhook may go to the profiles")
	}
	if !a.Allows("http://127.0.0.1:8099/") {
		t.Error("with dev a webhook may not go to a neighbour on loopback")
	}
}
