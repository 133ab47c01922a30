package dispatch_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// listener keeps the news.
type listener struct {
	unobserved
	mu    sync.Mutex
	lanes []dispatch.LaneNews
	nodes []dispatch.NodeNews
}

func (l *listener) LaneNews(n dispatch.LaneNews) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lanes = append(l.lanes, n)
}

func (l *listener) NodeNews(n dispatch.NodeNews) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = append(l.nodes, n)
}

// of counts the news of a type, and returns the first of them.
func (l *listener) of(t hook.OperationalType) (first dispatch.LaneNews, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, news := range l.lanes {
		if news.Type == t {
			if n++; n == 1 {
				first = news
			}
		}
	}
	return first, n
}

// TestLanesTellWhatHappens: each thing that is worth telling is told where it happens.
func TestLanesTellWhatHappens(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer egress.Result
		policy string
		run    func(*rig, hook.Endpoint)
		want   dispatch.LaneNews
		count  int // 0: at least one
	}{
		"a probe that fails": {
			egress.Result{Reason: hook.ConnectRefused},
			`{}`,
			func(r *rig, e hook.Endpoint) { r.publish(e, 10); time.Sleep(10 * time.Minute) },
			dispatch.LaneNews{Type: hook.BreakerProbeFailed, Reason: "connect_refused"},
			0,
		},
		"a destination that asks for time": {
			withHeader(egress.Result{Status: 429}, "Retry-After", "30"), `{}`,
			func(r *rig, e hook.Endpoint) { r.publish(e, 1); time.Sleep(10 * time.Second) },
			dispatch.LaneNews{Type: hook.LaneThrottled, Wait: 30 * time.Second},
			1,
		},
		"dead letters": {
			egress.Result{Status: 400},
			`{}`,
			func(r *rig, e hook.Endpoint) { r.publish(e, 7); time.Sleep(time.Minute) },
			dispatch.LaneNews{Type: hook.DeliveryDeadLettered, Reason: "permanent"},
			7,
		},
		"dead letters of an open lane": {
			egress.Result{Reason: hook.ConnectRefused},
			`{"breaker":{"max_hold":"1h"}}`,
			func(r *rig, e hook.Endpoint) { r.publish(e, 20); time.Sleep(3 * time.Hour) },
			dispatch.LaneNews{Type: hook.DeliveryDeadLettered, Reason: "expired"},
			20,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				heard := &listener{}
				r := newRig(t, func(arrival) egress.Result { return tc.answer }, settings(func(c *dispatch.Config) { c.Observer = heard }))
				defer r.close()
				e := r.endpoint(tc.policy)
				tc.run(r, e)
				tc.want.Tenant, tc.want.Endpoint = e.TenantID, e.ID
				first, n := heard.of(tc.want.Type)
				if first != tc.want || n == 0 || tc.count > 0 && n != tc.count {
					t.Errorf("told %d times, first %+v; want %+v, %d times", n, first, tc.want, tc.count)
				}
			})
		})
	}
}

// TestEndOfSlowStartIsTold: an endpoint with few servers comes back, and the lane finds
// out how much it takes.
func TestEndOfSlowStartIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		servers := make(chan struct{}, 4)
		heard := &listener{}
		r := newRig(t, func(arrival) egress.Result {
			if !up.Load() {
				return egress.Result{Reason: hook.ConnectRefused}
			}
			began := time.Now()
			servers <- struct{}{}
			time.Sleep(200 * time.Millisecond)
			<-servers
			return egress.Result{Status: 200, Latency: time.Since(began)}
		}, settings(func(c *dispatch.Config) { c.Observer = heard }))
		defer r.close()
		e := r.endpoint("{}")
		r.publish(e, 1000)
		time.Sleep(time.Minute)
		up.Store(true)
		time.Sleep(10 * time.Minute)
		if first, n := heard.of(hook.LaneSlowStartDone); n != 1 || first.Endpoint != e.ID {
			t.Errorf("told %d times, %+v; want once", n, first)
		}
	})
}

// TestRecoveryIsToldOnce: an endpoint that was warned of and answers well again has
// recovered. The node tells that it has joined and left.
func TestRecoveryIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		heard := &listener{}
		r := newRig(t, func(arrival) egress.Result {
			if up.Load() {
				return egress.Result{Status: 200}
			}
			return egress.Result{Status: 404}
		}, settings(func(c *dispatch.Config) { c.Observer = heard }))
		e := r.endpoint(`{"retry":{"max_attempts":2}}`)
		r.steadily(e, 2*time.Hour, 70*time.Hour)
		if _, n := heard.of(hook.EndpointRecovered); n != 0 {
			t.Errorf("told %d times before it answered well", n)
		}
		up.Store(true)
		r.steadily(e, 2*time.Hour, 10*time.Hour)
		if _, n := heard.of(hook.EndpointRecovered); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		r.close()
		if len(heard.nodes) != 2 || heard.nodes[0].Type != hook.NodeJoined || heard.nodes[1].Type != hook.NodeLeft {
			t.Errorf("of nodes it told %+v", heard.nodes)
		}
	})
}
