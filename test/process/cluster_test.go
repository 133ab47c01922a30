package process_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
)

// cluster starts nodes on one database.
func cluster(t *testing.T, n int, args ...string) (nodes []*server, dsn string) {
	t.Helper()
	dsn = pgtest.DSN(t)
	for range n {
		nodes = append(nodes, serve(t, append([]string{"--database-url", dsn}, args...)...))
	}
	return nodes, dsn
}

// shortLease lets a node that is gone be missed soon.
var shortLease = []string{"--lease-ttl", "5s", "--lease-renew", "1s"}

// longLease lets nodes keep their shards on a machine that has no time for them,
// where a test is not about losing them.
var longLease = []string{"--lease-ttl", "60s", "--lease-renew", "1s"}

// losses returns how often nodes have lost shards although they ran: a lease
// could not be renewed in time.
func losses(nodes []*server) (n int) {
	for _, s := range nodes {
		n += s.log.losses()
	}
	return n
}

// owners returns how many shards each node owns under a lease that has not
// ended.
func owners(t *testing.T, dsn string) map[int64]int {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT owner_id, count(*) FROM shards WHERE owner_id IS NOT NULL AND expires_at > clock_timestamp() GROUP BY 1")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[int64]int)
	for rows.Next() {
		var id int64
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			t.Fatal(err)
		}
		out[id] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// shared reports whether n nodes own all 256 shards, none of them much more
// than its part.
func shared(t *testing.T, dsn string, n int) bool {
	t.Helper()
	own := owners(t, dsn)
	sum, most := 0, 0
	for _, k := range own {
		sum += k
		most = max(most, k)
	}
	return len(own) == n && sum == 256 && most < 256*2/n+32
}

// TestNodesShareAndHandOver: nodes join and leave under load; shards move, the
// cap of every endpoint holds over all nodes at every instant, nothing is lost
// and nothing arrives twice.
func TestNodesShareAndHandOver(t *testing.T) {
	t.Parallel()
	const limit, endpoints = 4, 12
	nodes, dsn := cluster(t, 2, longLease...)
	r := receive(t)
	for i := range endpoints {
		path := fmt.Sprintf("/%d", i)
		nodes[0].endpoint(r.url+path, object{"types": []string{fmt.Sprintf("kind%d.*", i)}, "policy": object{"concurrency": limit}})
		r.on(path, func() int { time.Sleep(100 * time.Millisecond); return 200 })
	}
	eventually(t, time.Minute, "two nodes share the shards", func() bool { return shared(t, dsn, 2) })
	l := publishFrom(t, 12, 20*time.Millisecond, func(c int) string { return nodes[c%2].url }, func(n int) string { return fmt.Sprintf("kind%d.x", n%endpoints) })
	third := serve(t, append([]string{"--database-url", dsn}, longLease...)...)
	eventually(t, time.Minute, "three nodes share the shards", func() bool { return shared(t, dsn, 3) })
	l.more(t, 200)
	third.stop()
	if own := owners(t, dsn); len(own) > 2 {
		t.Errorf("shards by owner after a clean stop: %v, want none left to the node that stopped", own)
	}
	eventually(t, time.Minute, "a clean stop hands over", func() bool { return shared(t, dsn, 2) })
	l.more(t, 100)
	checkDelivered(t, r, l.stop(), nodes, endpoints, limit, 0)
}

// checkDelivered waits until all events have arrived and checks the cap of
// every endpoint and the number of repeats. The nodes are those that should have
// kept their shards: on a machine so busy that one could not renew its lease in
// time, requests of two owners meet, and what was in flight arrives again.
func checkDelivered(t *testing.T, r *receiver, ids []string, nodes []*server, endpoints, limit, repeats int) {
	t.Helper()
	lost := ids
	eventually(t, 3*time.Minute, "everything accepted is delivered", func() bool {
		lost = ids
		for i := range endpoints {
			lost = r.missing(fmt.Sprintf("/%d", i), lost)
		}
		return len(lost) == 0
	})
	early := losses(nodes)
	repeats += early * limit * endpoints
	if early > 0 {
		limit *= 2
	}
	again := 0
	for i := range endpoints {
		path := fmt.Sprintf("/%d", i)
		_, a := r.delivered(path)
		again += a
		if most := r.mostInFlight(path); most > limit {
			t.Errorf("%d requests at once at endpoint %d, its limit is %d", most, i, limit)
		}
	}
	t.Logf("%d accepted, 0 lost, %d arrived again; shards were lost %d times", len(ids), again, early)
	if again > repeats {
		t.Errorf("%d events arrived again, want at most %d", again, repeats)
	}
}

// TestKilledNodeIsReplaced: the lanes of a node that dies run again at others.
func TestKilledNodeIsReplaced(t *testing.T) {
	t.Parallel()
	const limit, endpoints = 4, 8
	nodes, dsn := cluster(t, 3, append(shortLease, "--dispatch-max-in-flight", fmt.Sprint(limit*endpoints))...)
	r := receive(t)
	for i := range endpoints {
		path := fmt.Sprintf("/%d", i)
		nodes[0].endpoint(r.url+path, object{"types": []string{fmt.Sprintf("kind%d.*", i)}, "policy": object{"concurrency": limit}})
		r.on(path, func() int { time.Sleep(30 * time.Millisecond); return 200 })
	}
	eventually(t, time.Minute, "three nodes share the shards", func() bool { return shared(t, dsn, 3) })
	l := publishFrom(t, 8, 20*time.Millisecond, func(c int) string { return nodes[c%2].url }, func(n int) string { return fmt.Sprintf("kind%d.x", n%endpoints) })
	l.more(t, 200)
	nodes[2].kill()
	killed := time.Now()
	eventually(t, time.Minute, "two nodes own everything", func() bool { return shared(t, dsn, 2) })
	taken := time.Now()
	eventually(t, time.Minute, "all endpoints are served again", func() bool {
		for i := range endpoints {
			if len(r.since(fmt.Sprintf("/%d", i), taken)) == 0 {
				return false
			}
		}
		return true
	})
	t.Logf("all lanes run again %v after the kill", time.Since(killed))
	checkDelivered(t, r, l.stop(), nodes[:2], endpoints, limit, limit*endpoints)
}

// TestKilledLenderLosesNothing: what a node has accepted for lanes of others and
// could not tell them of is found when it has died, whoever takes its shards.
func TestKilledLenderLosesNothing(t *testing.T) {
	t.Parallel()
	const limit, endpoints = 4, 8
	for n := 2; n <= 3; n++ {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
			t.Parallel()
			nodes, dsn := cluster(t, n, append(shortLease, "--dispatch-max-in-flight", fmt.Sprint(limit*endpoints))...)
			r := receive(t)
			for i := range endpoints {
				path := fmt.Sprintf("/%d", i)
				nodes[0].endpoint(r.url+path, object{"types": []string{fmt.Sprintf("kind%d.*", i)}, "policy": object{"concurrency": limit}})
				r.on(path, func() int { time.Sleep(200 * time.Millisecond); return 200 }) // slower than they are published
			}
			eventually(t, time.Minute, "the nodes share the shards", func() bool { return shared(t, dsn, n) })
			lender := nodes[n-1]
			l := publishFrom(t, 8, 10*time.Millisecond, func(int) string { return lender.url }, func(n int) string { return fmt.Sprintf("kind%d.x", n%endpoints) })
			l.more(t, 100)
			lender.kill()
			checkDelivered(t, r, l.stop(), nodes[:n-1], endpoints, limit, limit*endpoints)
		})
	}
}
