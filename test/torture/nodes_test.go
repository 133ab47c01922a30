package torture_test

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/pgcluster"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
)

const nodes = 3

// fleet is some nodes on one database, each behind a network of its own.
type fleet struct {
	*world
	db      *pgtest.Cluster
	dsn     string // past the networks
	nodes   []*server
	network []*proxy
}

func newFleet(t *testing.T, rng *rand.Rand, endpoints []*endpoint, args ...string) *fleet {
	t.Helper()
	f := &fleet{world: newWorld(t, rng, nil, endpoints), db: pgtest.Start(t)}
	dsn, _, err := pgcluster.CreateDatabase(f.db.DSN(), "torture_")
	if err != nil {
		t.Fatal(err)
	}
	f.dsn = dsn
	address, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	binary := binaryOf(t, product)
	for i := range nodes {
		network := newProxy(t, filepath.Join(address.Query().Get("host"), ".s.PGSQL.5432"))
		own := fmt.Sprintf("postgres://breakwater@%s%s?sslmode=disable", network.addr, address.Path)
		s := newServer(t, fmt.Sprintf("node%d", i+1), binary, filepath.Join(t.TempDir(), "data"),
			append([]string{"--database-url", own, "--lease-ttl", "5s", "--lease-renew", "1s"}, args...)...)
		restart(t, s)
		f.nodes, f.network = append(f.nodes, s), append(f.network, network)
	}
	f.create(f.nodes[0].url)
	return f
}

// publish asks another node when one does not answer.
func (f *fleet) publish(pause time.Duration) *publishers {
	urls := make([]string, len(f.nodes))
	for i, s := range f.nodes {
		urls[i] = s.url
	}
	return publish(f.t, f.world.dir, load{clients: 9, pause: pause}, f.rng, nil, f.names,
		func(client, try int) string { return urls[(client+try)%len(urls)] })
}

// heal ends every fault and starts what is not running.
func (f *fleet) heal() {
	f.t.Helper()
	f.all(connected)
	for _, s := range f.nodes {
		s.signal(syscall.SIGCONT)
		if s.proc == nil || s.died() {
			s.kill()
			restart(f.t, s)
		}
	}
}

// all sets the networks of all nodes.
func (f *fleet) all(state network) {
	for _, network := range f.network {
		network.set(state)
	}
}

// finish compares the accounts and fills in the line.
func (f *fleet) finish(p *publishers, line *result) {
	f.t.Helper()
	p.stop()
	f.heal()
	v := f.judge(f.nodes[f.rng.IntN(len(f.nodes))].url, 2*quietLimit)
	f.t.Logf("%s: %d accepted, %d arrived again", line.part, v.Accepted, v.Again)
	line.count(v)
}

// TestKillsPostgres kills nodes of a fleet at random moments under load.
func TestKillsPostgres(t *testing.T) {
	if !todo.long {
		t.Skip("part of `make torture`; test/process kills nodes too")
	}
	rng := chance(t)
	kills := todo.kills / 2
	line := result{part: "kill -9", store: "Postgres, 3 nodes", faults: fmt.Sprintf("%d kills", kills)}
	began := time.Now()
	rounds(kills, func(n int) {
		f := newFleet(t, rng, usual())
		p := f.publish(30 * time.Millisecond)
		for range n {
			time.Sleep(between(rng, 50*time.Millisecond, 1500*time.Millisecond))
			s := f.nodes[rng.IntN(nodes)]
			s.kill()
			time.Sleep(between(rng, 0, 300*time.Millisecond))
			restart(t, s)
		}
		f.finish(p, &line)
	})
	line.took = time.Since(began)
	fileLine(t, line)
	limitRepeats(t, line.again, kills, 1)
}

// TestPauses stops nodes for longer than their lease. A node that wakes up
// must not send for lanes that others own by then: none of its requests meets
// one of another node at the same endpoint, and no endpoint ever sees more
// requests at once than it allows. Answers take less than a lease; what takes
// longer cannot be called back.
func TestPauses(t *testing.T) {
	pauses := todo.kills / 25
	if pauses == 0 {
		t.Skip("part of `make torture`, from KILLS=25")
	}
	rng := chance(t)
	line := result{part: "stopped past the lease", store: "Postgres, 3 nodes", faults: fmt.Sprintf("%d pauses", pauses)}
	began := time.Now()
	var slow []*endpoint
	for i := range 8 {
		slow = append(slow, &endpoint{name: "slow" + strconv.Itoa(i), low: 600 * time.Millisecond, high: 1800 * time.Millisecond, concurrency: 4})
	}
	f := newFleet(t, rng, slow)
	p := f.publish(400 * time.Millisecond) // more than is sent, so that every lane is at its limit
	for range pauses {
		time.Sleep(between(rng, time.Second, 3*time.Second))
		s := f.nodes[rng.IntN(nodes)]
		f.wake("") // nobody
		s.signal(syscall.SIGSTOP)
		time.Sleep(between(rng, 7*time.Second, 12*time.Second))
		f.wake(s.source())
		s.signal(syscall.SIGCONT)
	}
	time.Sleep(3 * time.Second)
	over := f.overLimit()
	f.finish(p, &line)
	line.took, line.other = time.Since(began), line.other+len(over)
	fileLine(t, line)
	limitRepeats(t, line.again, pauses, 1)
	if len(over) > 0 {
		t.Errorf("not only the owner sent: %s", strings.Join(over, "; "))
	}
}

// TestPostgresFaults hurts the database and the way to it.
func TestPostgresFaults(t *testing.T) {
	rng := chance(t)
	faults := max(todo.kills/5, 3)
	line := result{part: "database restarted, connections ended, network cut", store: "Postgres, 3 nodes", faults: fmt.Sprintf("%d faults", faults)}
	began := time.Now()
	rounds(faults, func(n int) {
		f := newFleet(t, rng, usual())
		p := f.publish(30 * time.Millisecond)
		for range n {
			time.Sleep(between(rng, 200*time.Millisecond, 2*time.Second))
			t.Log(f.hurt())
		}
		f.finish(p, &line)
	})
	line.took = time.Since(began)
	fileLine(t, line)
	// A database that is away can leave every node with all it has in flight.
	limitRepeats(t, line.again, faults, nodes)
}

// hurt does one thing to the database or a network and ends it.
func (f *fleet) hurt() string {
	f.t.Helper()
	network := f.network[f.rng.IntN(nodes)]
	long := between(f.rng, 50*time.Millisecond, 8*time.Second)
	switch f.rng.IntN(7) {
	case 0:
		f.db.Crash()
		time.Sleep(long / 4)
		f.db.Restart(f.t)
		return "database ended at once and started"
	case 1:
		// PostgreSQL does not end while somebody keeps knocking.
		f.all(cut)
		f.db.Restart(f.t)
		f.all(connected)
		return "database stopped and started"
	case 2:
		f.sql("SELECT count(pg_terminate_backend(pid))::text FROM pg_stat_activity WHERE usename = current_user AND pid <> pg_backend_pid()")
		return "all connections ended"
	case 3:
		text := f.sql("SELECT coalesce(min(pid), 0)::text FROM (SELECT pid FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() LIMIT 1) one")
		if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return "a connection's process killed: the database recovers from a crash"
	case 4:
		network.set(cut)
		time.Sleep(long)
		network.set(connected)
		return fmt.Sprintf("network of a node cut for %v", long)
	case 5:
		network.set(silent)
		time.Sleep(long)
		network.set(connected)
		return fmt.Sprintf("network of a node silent for %v", long)
	default:
		for range 20 {
			network.cutAfter(f.rng.Int64N(50_000))
			time.Sleep(between(f.rng, 10*time.Millisecond, 200*time.Millisecond))
		}
		network.cutAfter(-1)
		return "connections of a node cut 20 times in the middle of something"
	}
}

// sql asks the database, past the networks. It may be recovering.
func (f *fleet) sql(query string) (text string) {
	f.t.Helper()
	var err error
	for range 100 {
		if text, err = pgcluster.Query(f.dsn, query); err == nil {
			return text
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatal(err)
	return ""
}
