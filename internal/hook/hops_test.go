package hook_test

import (
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestHops(t *testing.T) {
	t.Parallel()
	for _, plain := range []string{"", "application/json", "text/plain; charset=utf-8"} {
		for hops := range 4 {
			got, n := hook.CutHops(hook.WithHops(plain, hops))
			if got != plain || n != hops {
				t.Errorf("%q with %d hops comes back as %q with %d", plain, hops, got, n)
			}
			trace := hook.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "a=1"}
			all := hook.WithTrace(hook.WithNamed(hook.WithHops(plain, hops)), trace)
			got, n = hook.CutHops(all)
			if _, back := hook.CutTrace(all); got != plain || n != hops || back != trace {
				t.Errorf("%q with %d hops, named and traced, comes back as %q with %d and %v", plain, hops, got, n, back)
			}
		}
	}
	for _, odd := range []string{"text/plain; breakwater-hops=", "text/plain; breakwater-hops=x", "text/plain; breakwater-hops=-1"} {
		if got, n := hook.CutHops(odd); got != odd || n != 0 {
			t.Errorf("CutHops(%q) = %q, %d", odd, got, n)
		}
	}
}
