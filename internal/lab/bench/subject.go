package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/usage"
)

// Subject is what is measured.
type Subject string

// The subjects.
const (
	Relay    Subject = "relay" // with the product's HTTP client
	Plain    Subject = "plain" // the same relay with Go's own HTTP client
	SQLite   Subject = "sqlite"
	Postgres Subject = "postgres"
)

// Subjects returns all of them, in the order in which they take turns.
func Subjects() []Subject { return []Subject{Relay, Plain, SQLite, Postgres} }

// twinMark ends the names of twins.
const twinMark = "+"

// twin is the same store with Config.Settings.
func (s Subject) twin() Subject { return s + twinMark }

// store is what a subject keeps its data in, whatever its settings.
func (s Subject) store() Subject { return Subject(strings.TrimSuffix(string(s), twinMark)) }

// withTwins lets each store be followed by its twin.
func withTwins(subjects []Subject) (out []Subject) {
	for _, s := range subjects {
		out = append(out, s)
		if !s.isRelay() {
			out = append(out, s.twin())
		}
	}
	return out
}

// isRelay reports whether s is a yardstick, which keeps nothing.
func (s Subject) isRelay() bool { return s == Relay || s == Plain }

// takesPart reports whether s is measured in a row: the second yardstick only
// where the most is asked for.
func (s Subject) takesPart(row *Row) bool { return s != Plain || row.Name == Base }

// site is a subject that is running: one process, or several nodes.
type site struct {
	subject  Subject
	nodes    []*child
	key      string // of publishers; empty: none is asked for
	admin    string
	database *database // that the nodes use; nil: none
	dsn      string    // of their database there; empty: none
	profiler string    // address; empty: off
	// perTenant is how many groups belong to each tenant; 0: all to default.
	perTenant int
	cleanup   []func() error
}

// start runs a subject that takes the events of row: the relay with its routes,
// or an empty server with its endpoints.
func (b *Bench) start(ctx context.Context, s Subject, row *Row) (*site, error) {
	if s.isRelay() {
		return b.startRelay(ctx, s, row)
	}
	st, err := b.startServers(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	if err := b.addEndpoints(ctx, st, row.Fanout); err != nil {
		st.close()
		return nil, err
	}
	return st, nil
}

func (b *Bench) startRelay(ctx context.Context, s Subject, row *Row) (*site, error) {
	args := []string{
		"bench", "relay", "--target", b.receiver.URL(),
		"--groups", strconv.Itoa(b.cfg.Groups), "--fanout", strconv.Itoa(row.Fanout),
	}
	if s == Plain {
		args = append(args, "--standard")
	}
	st := &site{subject: s}
	profiling, err := b.profiling(ctx, st)
	if err != nil {
		return nil, err
	}
	c, err := b.place.start(ctx, nil, append(args, profiling...)...)
	if err != nil {
		return nil, err
	}
	st.nodes = []*child{c}
	return st, nil
}

// adminKey and sealingKey are those of every server here: nodes of one database
// need the same.
const (
	adminKey   = "benchmark-admin-key-of-no-value"
	sealingKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// startServers runs n nodes on one empty store.
func (b *Bench) startServers(ctx context.Context, s Subject, n int) (*site, error) {
	st := &site{subject: s, admin: adminKey}
	args := []string{"serve", "--json", "--dev", "--listen", "127.0.0.1:0", "--ingest-tenant-max-endpoints", "1000000"}
	if s != s.store() {
		args = append(args, b.cfg.Settings...)
	}
	if s.store() == Postgres {
		if b.postgres == nil {
			return nil, errors.New("there is no Postgres")
		}
		dsn, drop, err := b.postgres.create()
		if err != nil {
			return nil, err
		}
		st.database, st.dsn = b.postgres, dsn
		st.cleanup = append(st.cleanup, drop)
		args = append(args, "--database-url", dsn)
	}
	if n == 1 {
		profiling, err := b.profiling(ctx, st)
		if err != nil {
			return nil, err
		}
		args = append(args, profiling...)
	}
	for range n {
		if err := b.addNode(ctx, st, args); err != nil {
			st.close()
			return nil, err
		}
	}
	key, err := st.call(ctx, "/v1/keys", map[string]string{"name": "publishers", "scope": "tenant:send", "tenant": "default"}, "key")
	if err != nil {
		st.close()
		return nil, err
	}
	st.key = key
	return st, nil
}

func (b *Bench) addNode(ctx context.Context, st *site, args []string) error {
	dir, err := b.place.folder()
	if err != nil {
		return err
	}
	c, err := b.place.start(ctx, serverEnviron, append(args, "--data-dir", dir)...)
	if err != nil {
		return err
	}
	st.nodes = append(st.nodes, c)
	return nil
}

var serverEnviron = []string{"BREAKWATER_ADMIN_KEY=" + adminKey, "BREAKWATER_ENCRYPTION_KEY=" + sealingKey}

// addEndpoints makes the endpoints of every group.
func (b *Bench) addEndpoints(ctx context.Context, st *site, fanout int) error {
	for g := range b.cfg.Groups {
		for f := range fanout {
			_, err := st.call(ctx, "/v1/tenants/default/endpoints", map[string]any{
				"url": fmt.Sprintf("%s/%d/%d", b.receiver.URL(), g, f), "types": []string{typeOf(g)},
			}, "id")
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// address of a node, for publishers.
func (st *site) address(publisher int) string {
	return strings.TrimPrefix(st.nodes[publisher%len(st.nodes)].banner.URL, "http://")
}

// usage is what the subject's processes and its database have used.
func (st *site) usage() (server, database usage.Usage, err error) {
	for _, c := range st.nodes {
		u, err := usage.Of(c.pid())
		if err != nil {
			return server, database, fmt.Errorf("%w\n%s", err, c.logTail())
		}
		server = server.Add(u)
	}
	database, _, err = st.database.usage()
	return server, database, err
}

// close ends the subject. Its data is of no use any more.
func (st *site) close() {
	for _, c := range st.nodes {
		c.kill()
	}
	for _, clean := range st.cleanup {
		_ = clean() // what is left goes with the folder
	}
}
