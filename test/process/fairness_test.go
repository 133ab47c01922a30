package process_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fleets runs a test on one node with SQLite, and on three with Postgres.
func fleets(t *testing.T, args []string, test func(t *testing.T, nodes []*server)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, []*server{serve(t, args...)})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		nodes, dsn := cluster(t, 3, args...)
		eventually(t, time.Minute, "three nodes share the shards", func() bool { return shared(t, dsn, 3) })
		test(t, nodes)
	})
}

const (
	greedy = "greedy" // a tenant that takes all it can get
	modest = "modest" // one that wants to go on beside it
)

// bothTenants makes them.
func bothTenants(s *server) {
	s.t.Helper()
	for _, uid := range []string{greedy, modest} {
		s.ask(http.MethodPost, "/v1/tenants", object{"uid": uid, "name": uid}, nil)
	}
}

// endpointOf creates an endpoint of a tenant and returns its id.
func (s *server) endpointOf(tenant, url string, policy object) string {
	s.t.Helper()
	var made struct{ ID string }
	in := object{"url": url}
	if policy != nil {
		in["policy"] = policy
	}
	s.ask(http.MethodPost, "/v1/tenants/"+tenant+"/endpoints", in, &made)
	return made.ID
}

// batchOf is a request with n events.
func batchOf(eventType string, n int) object {
	events := make([]object, n)
	for i := range events {
		events[i] = object{"type": eventType, "payload": i}
	}
	return object{"events": events}
}

// publishAs sends n events of a tenant in one request.
func publishAs(ctx context.Context, s *server, tenant, eventType string, n int) error {
	var out struct{ Accepted int }
	err := call(ctx, http.MethodPost, s.url+"/v1/tenants/"+tenant+"/events/batch", batchOf(eventType, n), &out)
	if err == nil && out.Accepted != n {
		err = fmt.Errorf("%d of %d events were accepted", out.Accepted, n)
	}
	return err
}

// hangs makes endpoints of the greedy tenant that take requests and never answer,
// with all the concurrency and time that a policy can ask for.
func hangs(t *testing.T, s *server, r *receiver, endpoints int) {
	t.Helper()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	for i := range endpoints {
		path := fmt.Sprintf("/hang%d", i)
		r.on(path, func() int { <-end; return http.StatusOK })
		s.endpointOf(greedy, r.url+path, object{"concurrency": 1000, "timeout": object{"total": hangFor.String()}})
	}
}

// hangFor is how long a request is waited for that is never answered.
const hangFor = 2 * time.Minute

// hanging returns how many requests hang, and since when the first one does.
func hanging(r *receiver, endpoints int) (n int, since time.Time) {
	for i := range endpoints {
		path := fmt.Sprintf("/hang%d", i)
		n += r.inFlight(path)
		for _, a := range r.since(path, time.Time{}) {
			if since.IsZero() || a.at.Before(since) {
				since = a.at
			}
		}
	}
	return n, since
}

// arrive publishes events of the modest tenant and expects that all of them arrive
// before the first request that hangs is given up.
func arrive(t *testing.T, nodes []*server, r *receiver, paths int, since time.Time) {
	t.Helper()
	const each = 10
	var ids []string
	for i := range each {
		var made struct{ ID string }
		nodes[i%len(nodes)].ask(http.MethodPost, "/v1/tenants/"+modest+"/events", object{"type": "modest.x", "payload": i}, &made)
		ids = append(ids, made.ID)
	}
	missing := 0
	for deadline := since.Add(hangFor - 10*time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		missing = 0
		for i := range paths {
			missing += len(r.missing(fmt.Sprintf("/modest%d", i), ids))
		}
		if missing == 0 {
			return
		}
	}
	t.Errorf("%d of %d deliveries waited for requests of another tenant that hang", missing, paths*each)
}

// TestHangingTenantLeavesSlotsToOthers: endpoints of one tenant hang on every node
// and take all requests in flight that it may have. Another tenant's arrive.
func TestHangingTenantLeavesSlotsToOthers(t *testing.T) { //nolint:tparallel // the subtests are
	const slots, bad, good = 32, 36, 6 // so many that every node has some of them
	args := []string{"--dispatch-max-in-flight", fmt.Sprint(slots), "--policy-limits-max-timeout", hangFor.String()}
	fleets(t, args, func(t *testing.T, nodes []*server) {
		hang, well := receive(t), receive(t)
		bothTenants(nodes[0])
		for i := range good {
			nodes[0].endpointOf(modest, fmt.Sprintf("%s/modest%d", well.url, i), nil)
		}
		hangs(t, nodes[0], hang, bad)
		nodes[0].ask(http.MethodPost, "/v1/tenants/"+greedy+"/events/batch", batchOf("greedy.x", 20), nil)
		var since time.Time
		eventually(t, time.Minute, "the greedy tenant has most of the slots", func() bool {
			var n int
			n, since = hanging(hang, bad)
			return n >= len(nodes)*slots/2
		})
		arrive(t, nodes, well, good, since)
	})
}

// TestHangingTenantLeavesConnectionsToOthers: one tenant wants all connections of a
// host that both use. The other one's requests find some.
func TestHangingTenantLeavesConnectionsToOthers(t *testing.T) { //nolint:tparallel // the subtests are
	const conns, bad, good = 8, 27, 6
	args := []string{"--egress-max-conns-per-host", fmt.Sprint(conns), "--policy-limits-max-timeout", hangFor.String()}
	fleets(t, args, func(t *testing.T, nodes []*server) {
		r := receive(t)
		bothTenants(nodes[0])
		for i := range good {
			nodes[0].endpointOf(modest, fmt.Sprintf("%s/modest%d", r.url, i), nil)
		}
		hangs(t, nodes[0], r, bad)
		nodes[0].ask(http.MethodPost, "/v1/tenants/"+greedy+"/events/batch", batchOf("greedy.x", 20), nil)
		var since time.Time
		eventually(t, time.Minute, "the greedy tenant has most of the connections", func() bool {
			var n int
			n, since = hanging(r, bad)
			return n >= len(nodes)*conns/2
		})
		arrive(t, nodes, r, good, since)
	})
}

// TestBatchesOfATenantDoNotHoldUpOthers: clients of one tenant keep the queues of
// all nodes full with batches that fan out. An event of another tenant is not
// answered after all of them, but beside them.
func TestBatchesOfATenantDoNotHoldUpOthers(t *testing.T) { //nolint:tparallel // the subtests are
	const clients, fanout, batch, events = 8, 20, 150, 9
	fleets(t, nil, func(t *testing.T, nodes []*server) {
		bothTenants(nodes[0])
		for range fanout { // paused: nothing is sent, the rows are written all the same
			id := nodes[0].endpointOf(greedy, "http://127.0.0.1:9009/", nil)
			nodes[0].ask(http.MethodPost, "/v1/tenants/"+greedy+"/endpoints/"+id+"/pause", nil, nil)
		}
		ctx, stop := context.WithCancel(t.Context())
		answered := make([]atomic.Int64, len(nodes)) // batches
		var wg sync.WaitGroup
		for i := range nodes {
			for range clients {
				wg.Go(func() {
					for ctx.Err() == nil {
						err := publishAs(ctx, nodes[i], greedy, "greedy.x", batch)
						if refused := (*errAnswer)(nil); errors.As(err, &refused) && refused.status != http.StatusServiceUnavailable {
							t.Errorf("batch: %v", err)
							return
						}
						if err == nil {
							answered[i].Add(1)
						}
					}
				})
			}
		}
		for i := range nodes {
			eventually(t, time.Minute, "batches are written", func() bool { return answered[i].Load() > 2 })
		}
		var before []int64 // batches that were answered while an event waited
		for i := range events * len(nodes) {
			n := i % len(nodes)
			at := answered[n].Load()
			eventually(t, time.Minute, "an event of the modest tenant is accepted", func() bool {
				err := publishAs(ctx, nodes[n], modest, "modest.x", 1)
				if err != nil { // nobody is, on a machine that takes so long
					t.Logf("an event of the modest tenant: %v", err)
				}
				return err == nil
			})
			before = append(before, answered[n].Load()-at)
		}
		stop()
		wg.Wait()
		slices.Sort(before)
		t.Logf("batches answered while an event waited: %s", strings.Trim(fmt.Sprint(before), "[]"))
		if median := before[len(before)/2]; median > clients/2 {
			t.Errorf("half of the events waited for %d batches of %d clients of another tenant", median, clients)
		}
	})
}
