package accept

import (
	"net/http"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestUntracedRequestsPayNothing: without a tracer, a request that belongs to no
// trace costs a look at one header.
func TestUntracedRequestsPayNothing(t *testing.T) {
	a, c, p := &acceptor{}, &rest.Call{}, &rest.Problem{}
	h := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer x"}}
	if n := testing.AllocsPerRun(1000, func() {
		tr := a.follow(c, "/", h)
		tr.accepted(hook.Receipt{})
		tr.refused(p)
		tr.answered(nil, nil)
		if tr.trace != nil {
			t.Fatal("a trace from nowhere")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkUntraced(b *testing.B) {
	a, c := &acceptor{}, &rest.Call{}
	h := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer x"}}
	b.ReportAllocs()
	for b.Loop() {
		tr := a.follow(c, "/", h)
		tr.accepted(hook.Receipt{})
	}
}
