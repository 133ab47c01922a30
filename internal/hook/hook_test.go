package hook_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Shards are stored: an endpoint that changed its shard would be owned by two
// nodes during an upgrade. Endpoint 0 is the first number of splitmix64 with
// seed 0, 0xe220a8397b1dcdaf.
func TestShardsArePinned(t *testing.T) {
	t.Parallel()
	if hook.Shards != 256 {
		t.Fatalf("Shards = %d, want 256 for ever", hook.Shards)
	}
	for endpoint, want := range map[hook.ID]int{
		0:                  0xaf,
		1:                  193,
		2:                  206,
		3:                  237,
		255:                180,
		256:                63,
		4096:               199,
		1 << 22:            187,
		264905529753600000: 129,
		maxID:              167,
	} {
		if got := hook.ShardOf(endpoint); got != want {
			t.Errorf("ShardOf(%d) = %d, want %d", endpoint, got, want)
		}
	}
}

// Endpoints get their ids in bursts, steadily, or from several nodes; lanes
// must spread over all shards in each case.
func TestShardsSpread(t *testing.T) {
	t.Parallel()
	const n = 51_200 // 200 endpoints a shard
	for name, draw := range map[string]func(i int) hook.ID{
		"one burst":          func(i int) hook.ID { return hook.IDFloor(newYear2026) + hook.ID(i) },
		"one a second":       func(i int) hook.ID { return hook.IDFloor(newYear2026.Add(time.Duration(i) * time.Second)) },
		"one an hour":        func(i int) hook.ID { return hook.ID(i) * (hook.DayOfIDs / 24) },
		"one of each slot":   func(i int) hook.ID { return hook.IDFloor(newYear2026) + hook.ID(i)<<12 },
		"every 256 of burst": func(i int) hook.ID { return hook.ID(i) * hook.Shards },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var count [hook.Shards]float64
			for i := range n {
				count[hook.ShardOf(draw(i))]++
			}
			const expected = float64(n) / hook.Shards
			chi2 := 0.0
			for _, c := range count {
				chi2 += (c - expected) * (c - expected) / expected
			}
			// 255 degrees of freedom: mean 255, standard deviation 22.6. Six
			// deviations up is far beyond chance; far below would be a counter
			// in disguise, which is fine for lanes.
			if chi2 > 255+6*22.6 {
				t.Errorf("chi-square = %.0f, want below %.0f", chi2, 255+6*22.6)
			}
		})
	}
}

func TestEndedDeliveriesAreKept(t *testing.T) {
	t.Parallel()
	const age = 30 * 24 * time.Hour
	accepted := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		state   hook.DeliveryState
		settled time.Duration // after it was accepted
		want    time.Time
	}{
		"pending":        {hook.Pending, 0, time.Time{}},
		"delivered":      {hook.Delivered, time.Hour, accepted.Add(age)},
		"dead at once":   {hook.Dead, time.Hour, accepted.Add(age)},
		"dead of late":   {hook.Dead, age - time.Hour, accepted.Add(age + 47*time.Hour)},
		"cancelled late": {hook.Cancelled, age - time.Hour, accepted.Add(age)},
	} {
		d := hook.Delivery{ID: hook.IDFloor(accepted.Add(time.Hour)), EventID: hook.IDFloor(accepted), State: tc.state, SettledAt: accepted.Add(tc.settled)}
		if got := d.KeptUntil(age); !got.Equal(tc.want) {
			t.Errorf("%s: until %v, want %v", name, got, tc.want)
		}
	}
}
