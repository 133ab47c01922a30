package storetest

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// BusyMinute returns packed figures as a busy endpoint has them.
func BusyMinute() []byte {
	var c stats.Counts
	for _, counter := range []stats.Counter{
		stats.Events, stats.Accepted, stats.Attempts(hook.First), stats.Attempts(hook.Retry), stats.Delivered(1), stats.Delivered(2),
		stats.Failed(hook.ServerError), stats.TriesOfDelivered,
	} {
		c.Add(counter, 300)
	}
	for took := time.Millisecond; took < 600*time.Millisecond; took = took*5/4 + time.Millisecond {
		c.Add(stats.AttemptTook(took), 20)
		c.Add(stats.DeliveryTook(took), 20)
	}
	for _, gauge := range []stats.Counter{stats.Limit, stats.InFlight, stats.Retrying, stats.Held, stats.Oldest} {
		c.Tell(gauge, 17)
	}
	return c.Append(nil)
}

// MeasureOverview measures what the dashboard asks of a store, one call after the
// other: the whole of /v1/stats over an hour and over a day, and its parts.
func MeasureOverview(b *testing.B, db store.DB, now time.Time) {
	b.Helper()
	ctx := b.Context()
	system := stats.Subject{Level: stats.OfSystem}
	var strips, worst []hook.ID
	for id := range 50 {
		strips = append(strips, hook.ID(id+1))
	}
	for id := range 10 {
		worst = append(worst, hook.ID(100*(id+1)))
	}
	read := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	window := func(d time.Duration) func() {
		return func() { _, err := db.Stats(ctx, system, now.Add(-d), now); read(err) }
	}
	parts := []struct {
		name string
		run  func()
	}{
		{"lanes", func() { _, err := db.CountLanes(ctx, 0, now); read(err) }},
		{"lanes of a tenant", func() { _, err := db.CountLanes(ctx, 3, now); read(err) }},
		{"dead", func() { _, err := db.CountDead(ctx, 0, 10_000); read(err) }},
		{"dead of a tenant", func() { _, err := db.CountDead(ctx, 3, 10_000); read(err) }},
		{"worst", func() { _, err := db.WorstLanes(ctx, 0, 10); read(err) }},
		{"worst of a tenant", func() { _, err := db.WorstLanes(ctx, 3, 10); read(err) }},
		{"hour of ten", func() { _, err := db.EndpointStats(ctx, worst, now.Add(-time.Hour), now); read(err) }},
		{"hour", window(time.Hour)},
		{"day", window(24 * time.Hour)},
		{"month", window(30 * 24 * time.Hour)},
		{"strips of fifty", func() { _, err := db.EndpointStats(ctx, strips, now.Add(-24*time.Hour), now); read(err) }},
	}
	for _, part := range parts {
		part.run()
		b.Run(part.name, func(b *testing.B) {
			for b.Loop() {
				part.run()
			}
		})
	}
}
