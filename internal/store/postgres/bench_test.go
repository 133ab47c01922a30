package postgres_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// BenchmarkCommit accepts and settles events of 1 KiB to ten endpoints in
// batches, one transaction for each, as the writer does under load. An
// operation is one event through both. On a busy machine the time says little;
// the processor time of client and server, and the bytes of WAL, do.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmarkCommit(b, size) })
	}
}

func benchmarkCommit(b *testing.B, size int) {
	dsn := pgtest.DSN(b)
	n := join(b, dsn, "bench")
	n.own(false)
	ten := n.tenant()
	targets := make([]hook.Endpoint, 10)
	for i := range targets {
		targets[i] = n.endpoint(ten)
	}
	rev := n.configRev(ten.ID)
	payload := make([]byte, 1024)
	var settles []*store.Settle
	meter := newCostMeter(b, dsn)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += size {
		accepts := make([]*store.Accept, size)
		for i := range accepts {
			accepts[i] = n.accept(ten.ID, rev, targets[i%10].ID)
			accepts[i].Event.Payload = payload
		}
		n.commit(&store.Batch{Accepts: accepts, Settles: settles})
		settles = settles[:0]
		for _, a := range accepts {
			settles = append(settles, n.answered(a.Deliveries[0]))
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed())/float64(time.Microsecond)/float64(b.N), "wall-µs/event")
	meter.report()
}

// answered prepares the settle of a 200 as the dispatcher does: with all that is
// known of request and answer.
func (n *node) answered(d hook.Delivery) *store.Settle {
	s := n.success(d)
	s.Delivery.Progress.Charged++
	a := s.Attempt
	a.Charged, a.U, a.Excerpt = true, 0.5, []byte("ok")
	a.Detail.RequestHeaders, a.Detail.ResponseHeaders = requestHeaders, responseHeaders
	a.Detail.Phases = hook.Phases{FirstByte: 12 * time.Millisecond}
	return s
}

var (
	requestHeaders = map[string][]string{
		"Accept-Encoding": {"identity"}, "Breakwater-Attempt": {"1"}, "Breakwater-Delivery": {"dlv_0123456789abc"},
		"Content-Type": {"application/json"}, "User-Agent": {"Breakwater/1"}, "Webhook-Id": {"evt_0123456789abc"},
		"Webhook-Signature": {"***"}, "Webhook-Timestamp": {"1789000000"},
	}
	responseHeaders = map[string][]string{
		"Content-Length": {"2"}, "Content-Type": {"text/plain"}, "Date": {"Sun, 01 Mar 2026 10:00:00 GMT"},
	}
)

// costMeter measures what a benchmark costs besides time.
type costMeter struct {
	b          *testing.B
	dsn        string
	postmaster string // its process id; empty when the server runs elsewhere
	before     cost
}

// cost is what has been used up so far.
type cost struct {
	client, server time.Duration // of the processors
	wal            int64         // bytes
}

func newCostMeter(b *testing.B, dsn string) *costMeter {
	b.Helper()
	m := &costMeter{b: b, dsn: dsn, postmaster: postmaster(b, dsn)}
	m.before = m.now()
	return m
}

func (m *costMeter) report() {
	after, events := m.now(), float64(m.b.N)
	perEvent := func(d time.Duration) float64 { return float64(d.Microseconds()) / events }
	m.b.ReportMetric(perEvent(after.client-m.before.client), "client-µs/event")
	if m.postmaster != "" {
		m.b.ReportMetric(perEvent(after.server-m.before.server), "server-µs/event")
	}
	m.b.ReportMetric(float64(after.wal-m.before.wal)/events, "WAL-B/event")
}

func (m *costMeter) now() cost {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		m.b.Fatal(err)
	}
	return cost{
		client: time.Duration(own.Utime.Nano() + own.Stime.Nano()),
		server: serverTime(m.postmaster),
		wal:    value[int64](m.b, m.dsn, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"),
	}
}

// The fields of /proc/<pid>/stat that follow the name, from the state on.
const (
	statParent = 1
	statTimes  = 11 // user and system time, then those of children that have ended
)

// stat reads those fields; nil when there is no such process.
func stat(pid string) []string {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return nil
	}
	_, fields, _ := strings.Cut(string(text), ") ")
	return strings.Fields(fields)
}

// postmaster finds the server's first process by one of its children.
func postmaster(b *testing.B, dsn string) string {
	b.Helper()
	conn := connect(b, dsn)
	fields := stat(strconv.Itoa(int(conn.PgConn().PID())))
	if fields == nil {
		return ""
	}
	return fields[statParent]
}

// serverTime sums the processor time of the postmaster, of its children, and of
// those that have ended.
func serverTime(postmaster string) (sum time.Duration) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		pid := filepath.Base(p)
		fields := stat(pid)
		switch {
		case fields == nil: // ended meanwhile
		case pid == postmaster:
			sum += ticks(fields[statTimes : statTimes+4])
		case fields[statParent] == postmaster:
			sum += ticks(fields[statTimes : statTimes+2])
		}
	}
	return sum
}

// ticks sums times that the kernel gives in hundredths of a second.
func ticks(fields []string) (sum time.Duration) {
	for _, f := range fields {
		n, _ := strconv.ParseInt(f, 10, 64)
		sum += time.Duration(n) * 10 * time.Millisecond
	}
	return sum
}
