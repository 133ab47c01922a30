package process_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
)

// staleTrigger records every attempt that is stored by a node that does not
// own the shard at that moment: as a row, or in that of its delivery. It also
// records which node owned which shard, and since when.
const staleTrigger = `
CREATE TABLE stale_writes (delivery_id bigint, node_id bigint, owner_id bigint);
CREATE TABLE good_writes (n serial);
CREATE FUNCTION note_stale(endpoint bigint, delivery bigint, node bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE owner bigint;
BEGIN
  SELECT s.owner_id INTO owner FROM endpoints e JOIN shards s ON s.shard = e.shard WHERE e.id = endpoint;
  IF owner IS DISTINCT FROM node THEN
    INSERT INTO stale_writes VALUES (delivery, node, owner);
  ELSE
    INSERT INTO good_writes DEFAULT VALUES;
  END IF;
END $$;
CREATE FUNCTION note_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM note_stale(NEW.endpoint_id, NEW.delivery_id, NEW.node_id);
  RETURN NEW;
END $$;
CREATE FUNCTION note_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM note_stale(NEW.endpoint_id, NEW.id, (NEW.first_attempt::json ->> 'node')::bigint);
  RETURN NEW;
END $$;
CREATE TRIGGER note_attempt BEFORE INSERT ON attempts FOR EACH ROW EXECUTE FUNCTION note_attempt();
CREATE TRIGGER note_row AFTER INSERT OR UPDATE OF first_attempt ON deliveries FOR EACH ROW
  WHEN (NEW.first_attempt IS NOT NULL) EXECUTE FUNCTION note_row();
CREATE TABLE owned (shard int, owner_id bigint, since timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION note_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO owned (shard, owner_id) VALUES (NEW.shard, NEW.owner_id);
  RETURN NEW;
END $$;
CREATE TRIGGER note_owner AFTER UPDATE ON shards FOR EACH ROW
  WHEN (NEW.owner_id IS DISTINCT FROM OLD.owner_id) EXECUTE FUNCTION note_owner();
INSERT INTO owned (shard, owner_id) SELECT shard, owner_id FROM shards`

// ownerAt names the node that owned the shard of an endpoint at a moment, and for
// so many seconds at least. The clock is that of the machine: the receiver's too.
const ownerAt = `
SELECT coalesce(n.name, '') FROM endpoints e
CROSS JOIN LATERAL (
  SELECT o.owner_id, o.since FROM owned o WHERE o.shard = e.shard AND o.since <= $2 ORDER BY o.since DESC LIMIT 1) o
LEFT JOIN nodes n ON n.id = o.owner_id AND o.since < $2 - make_interval(secs => $3)
WHERE e.url LIKE '%' || $1`

// TestPausedNodesSendAndWriteNothingStale stops each of three nodes past its lease.
// The others take over; woken up, it neither starts a request for what they own
// nor changes a row.
func TestPausedNodesSendAndWriteNothingStale(t *testing.T) {
	t.Parallel()
	const limit, endpoints, fleet = 4, 8, 3
	dsn := pgtest.DSN(t)
	var nodes []*server
	for i := range fleet {
		name := fmt.Sprint("node", i)
		nodes = append(nodes, serve(t, append(shortLease, "--database-url", dsn, "--node-name", name, "--egress-user-agent", name,
			"--dispatch-max-in-flight", fmt.Sprint(limit*endpoints))...))
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), staleTrigger); err != nil {
		t.Fatal(err)
	}
	r := receive(t)
	for i := range endpoints {
		path := fmt.Sprintf("/%d", i)
		nodes[0].endpoint(r.url+path, object{"types": []string{fmt.Sprintf("kind%d.*", i)}, "policy": object{"concurrency": limit}})
		r.on(path, func() int { time.Sleep(500 * time.Millisecond); return 200 })
	}
	eventually(t, time.Minute, "three nodes share the shards", func() bool { return shared(t, dsn, fleet) })
	for i := range endpoints { // so that every lane has more than it may send
		nodes[0].publish(fmt.Sprintf("kind%d.x", i), 10*limit)
	}
	var paused atomic.Int64
	l := publishFrom(t, 8, 200*time.Millisecond,
		func(c int) string { return nodes[(int(paused.Load())+1+c%(fleet-1))%fleet].url },
		func(n int) string { return fmt.Sprintf("kind%d.x", n%endpoints) })
	for i := range fleet {
		paused.Store(int64(i))
		l.more(t, 40)
		nodes[i].signal(syscall.SIGSTOP)
		eventually(t, time.Minute, "the others own everything", func() bool { return shared(t, dsn, fleet-1) })
		time.Sleep(3 * time.Second)
		nodes[i].signal(syscall.SIGCONT)
		eventually(t, time.Minute, "the woken node has its part again", func() bool { return shared(t, dsn, fleet) })
	}
	time.Sleep(time.Second)
	ids := l.stop()
	// Sent and not yet stored at a stop: at most what a node may have in flight.
	checkDelivered(t, r, ids, nil, endpoints, 2*limit, fleet*limit*endpoints)
	// A process may be stopped between the last look at its lease and the first
	// byte: one request of each.
	if stale := staleRequests(t, conn, r, endpoints); stale > fleet {
		t.Errorf("%d requests of nodes for shards that others owned for seconds", stale)
	}
	checkRows(t, conn, len(ids))
}

// staleRequests counts requests of nodes for shards that another one had owned for
// two seconds when they came.
func staleRequests(t *testing.T, conn *pgx.Conn, r *receiver, endpoints int) (stale int) {
	t.Helper()
	const slack = 2 // seconds, from the look at the lease to the arrival
	looked := 0
	for i := range endpoints {
		path := fmt.Sprintf("/%d", i)
		for _, a := range r.since(path, time.Time{}) {
			var owner string
			if err := conn.QueryRow(t.Context(), ownerAt, path, a.at, float64(slack)).Scan(&owner); err != nil {
				t.Fatal(err)
			}
			if owner != "" && owner != a.from {
				stale++
			}
			if owner != "" {
				looked++
			}
		}
	}
	t.Logf("%d of %d requests by a node that did not own the shard", stale, looked)
	if looked == 0 {
		t.Error("the owner of no request is known")
	}
	return stale
}

// checkRows waits until everything is stored, and looks for what a node stored that
// did not own the shard.
func checkRows(t *testing.T, conn *pgx.Conn, events int) {
	t.Helper()
	count := func(query string) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	eventually(t, time.Minute, "what was delivered is stored, and was looked at", func() bool {
		return count("SELECT count(*) FROM good_writes") >= events
	})
	if stale := count("SELECT count(*) FROM stale_writes"); stale > 0 {
		t.Errorf("%d stale writes were accepted", stale)
	}
	const gaps = `SELECT count(*) FROM deliveries d
WHERE d.attempts <> (d.first_attempt IS NOT NULL)::int + (SELECT count(*) FROM attempts a WHERE a.delivery_id = d.id)`
	if broken := count(gaps); broken > 0 {
		t.Errorf("%d deliveries whose attempts do not match their log", broken)
	}
}
