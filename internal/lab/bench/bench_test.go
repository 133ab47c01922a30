package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/cli"
	"github.com/breakwaterhq/breakwater/internal/lab/bench"
)

// envSubject makes the test binary the program that is measured: the product,
// or one that loses and repeats events.
const envSubject = "BENCH_TEST_SUBJECT"

func TestMain(m *testing.M) {
	switch os.Getenv(envSubject) {
	case "product":
		os.Exit(cli.Run(cli.Host{
			Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		}))
	case "careless":
		careless(os.Args[1:])
	default:
		os.Exit(m.Run())
	}
}

// startsProcesses leaves a test out of the quick ones.
func startsProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
}

// short is a benchmark that takes few seconds.
func short(t *testing.T) bench.Config {
	t.Helper()
	return bench.Config{
		Environ: append(os.Environ(), envSubject+"=product"), Dir: t.TempDir(),
		Subjects: []bench.Subject{bench.Relay, bench.SQLite}, Rounds: 1,
		WarmUp: 300 * time.Millisecond, Duration: 500 * time.Millisecond, Groups: 2,
	}
}

func rowNamed(t *testing.T, name string) bench.Row {
	t.Helper()
	for _, r := range bench.DefaultRows() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no row %s", name)
	return bench.Row{}
}

func run(t *testing.T, cfg bench.Config) *bench.Report {
	t.Helper()
	b, err := bench.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	report, err := b.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestComparison measures relay and product for a moment in the rows that
// differ most, and expects figures that make sense and no event lost.
func TestComparison(t *testing.T) {
	startsProcesses(t)
	cfg := short(t)
	for _, name := range []string{bench.Half, "fanout", "batch"} {
		row := rowNamed(t, name)
		// Small enough for a slow machine with the race detector on.
		row.Publishers, row.Batch, row.Fanout = 8, min(row.Batch, 10), min(row.Fanout, 3)
		cfg.Rows = append(cfg.Rows, row)
	}
	report := run(t, cfg)
	if got := len(report.Rows); got != 4 || report.Rows[0].Name != bench.Base {
		t.Fatalf("%d rows, the first %s; want base and the three", got, report.Rows[0].Name)
	}
	for _, row := range report.Rows {
		for _, res := range row.Results {
			m := res.Rounds[0]
			if m.Lost != 0 || m.Again != 0 {
				t.Errorf("%s, %s: %d lost, %d twice", row.Name, res.Subject, m.Lost, m.Again)
			}
			few := m.Delivered < 1000 // they may take less than the kernel's tick, on a busy machine
			if m.Delivered <= 0 || m.Accepted <= 0 || m.ServerCPU <= 0 && !few || m.ServerCPU > 100_000 || m.GeneratorCPU <= 0 || m.PeakMemory < 5<<20 {
				t.Errorf("%s, %s: odd figures %+v", row.Name, res.Subject, m)
			}
			if m.Arrival.P50 <= 0 || m.Arrival.P50 > m.Arrival.P99 || m.Arrival.P99 > m.Arrival.P999 || m.Accept.P50 <= 0 {
				t.Errorf("%s, %s: odd latencies %+v, %+v", row.Name, res.Subject, m.Accept, m.Arrival)
			}
			if wrote := m.Written > 0; wrote != (res.Subject == bench.SQLite) && report.Machine.Filesystem != "tmpfs" {
				t.Errorf("%s, %s: %v bytes written per event", row.Name, res.Subject, m.Written)
			}
			if row.Share > 0 && (m.Offered <= 0 || m.Delivered > 4*m.Offered) {
				t.Errorf("%s, %s: %v/s offered, %v/s delivered", row.Name, res.Subject, m.Offered, m.Delivered)
			}
		}
	}
	if left, err := os.ReadDir(cfg.Dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestInterrupt ends a benchmark in the middle of a measurement: it stops at
// once and leaves nothing behind.
// TestSettingsAreComparedInTurns: each store follows itself, with the settings.
func TestSettingsAreComparedInTurns(t *testing.T) {
	startsProcesses(t)
	cfg := short(t)
	cfg.Settings = []string{"--stats-enabled=false"}
	cfg.Rows = []bench.Row{rowNamed(t, bench.Base)}
	cfg.Rows[0].Publishers = 8
	report := run(t, cfg)
	var subjects []string
	for _, res := range report.Rows[0].Results {
		subjects = append(subjects, string(res.Subject))
		if m := res.Rounds[0]; m.Lost != 0 || m.Again != 0 {
			t.Errorf("%s: %d lost, %d twice", res.Subject, m.Lost, m.Again)
		}
	}
	if want := []string{"relay", "sqlite", "sqlite+"}; !slices.Equal(subjects, want) {
		t.Errorf("measured %v, want %v", subjects, want)
	}
	if !slices.ContainsFunc(report.Facts, func(f bench.Fact) bool {
		return f.Subject == bench.SQLite && strings.HasPrefix(f.Name, "base: delivered ÷ with the settings") && f.Value > 0
	}) {
		t.Errorf("nothing is told of the difference: %+v", report.Facts)
	}
	cfg.Settings = []string{"--stats-enabled=perhaps"}
	b, err := bench.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "stats.enabled") {
		t.Errorf("error %v, want one that names the setting", err)
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	startsProcesses(t)
	cfg := short(t)
	cfg.Duration = time.Hour
	cfg.Rows = []bench.Row{rowNamed(t, bench.Base)}
	cfg.Subjects = []bench.Subject{bench.SQLite}
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Told = func(bench.Step) { time.AfterFunc(time.Second, cancel) }
	b, err := bench.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := b.Run(ctx); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error %v, want one that says it was cancelled", err)
	}
	if took := time.Since(begin); took > 10*time.Minute { // of an hour
		t.Errorf("it took %v to stop", took)
	}
	if left, err := filepath.Glob(filepath.Join(cfg.Dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// careless takes the place of the relay: of every ten events it forgets one and
// sends another one twice.
func careless(args []string) {
	target := args[slices.Index(args, "--target")+1]
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var count atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		times := 1
		switch count.Add(1) % 10 {
		case 0:
			times = 0
		case 5:
			times = 2
		}
		for range times {
			answer, err := http.Post(target+"/0/0", "application/json", bytes.NewReader(body))
			if err != nil {
				panic(err)
			}
			_ = answer.Body.Close()
		}
		w.WriteHeader(http.StatusAccepted)
	})}
	fmt.Printf("{\"url\":\"http://%s\"}\n", listener.Addr())
	panic(server.Serve(listener))
}

// TestCarelessSubjectIsFoundOut: the benchmark is worth nothing if a subject
// that loses events looks like one that does not.
func TestCarelessSubjectIsFoundOut(t *testing.T) {
	startsProcesses(t)
	cfg := short(t)
	cfg.Environ = append(os.Environ(), envSubject+"=careless")
	cfg.Subjects = []bench.Subject{bench.Relay}
	cfg.Patience = 300 * time.Millisecond
	row := rowNamed(t, bench.Base)
	row.Publishers = 4
	cfg.Rows = []bench.Row{row}
	m := run(t, cfg).Rows[0].Results[0].Rounds[0]
	if sent := m.Accepted * m.Seconds; float64(m.Lost) < sent/20 || float64(m.Again) < sent/20 {
		t.Errorf("of about %.0f events %d lost and %d twice, want a tenth of each", sent, m.Lost, m.Again)
	}
}

// TestProgramThatDoesNotStart: the error says what the program said.
func TestProgramThatDoesNotStart(t *testing.T) {
	t.Parallel()
	startsProcesses(t)
	cfg := short(t)
	cfg.Program = []string{"/bin/sh", "-c", "echo no such option >&2; exit 3"}
	b, err := bench.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("error %v", err)
	}
}

// TestQuick runs the command as a person would.
func TestQuick(t *testing.T) {
	startsProcesses(t)
	out, dir := filepath.Join(t.TempDir(), "results"), t.TempDir()
	var stdout, stderr bytes.Buffer
	code := cli.Run(cli.Host{
		Args: []string{
			"bench", "--quick", "--only", "relay,sqlite", "--duration", "1s", "--warm-up", "300ms", "--publishers", "32",
			"--dir", dir, "--out", out, "--profile", filepath.Join(out, "profiles"),
		},
		Environ: append(os.Environ(), envSubject+"=product", "BREAKWATER_LOG_LEVEL=nonsense"),
		Stdout:  &stdout, Stderr: &stderr, Signals: make(chan os.Signal),
	})
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, stderr.String())
	}
	for _, want := range []string{"base: 32 publishers, 1 KiB, fan-out 1", "  relay ", "  sqlite ", "SQLite: delivered ÷ bare relay"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("no %q in\n%s", want, stdout.String())
		}
	}
	if !strings.Contains(stderr.String(), "2/2  round 1  base       sqlite") {
		t.Errorf("progress: %s", stderr.String())
	}
	for _, name := range []string{"bench.json", "bench.md", "bench.png", "bench.svg", "profiles/base-relay-1.pprof", "profiles/base-sqlite-1.pprof"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// perTenant is where a second tenant begins in the benchmark of many endpoints.
const perTenant = 100

// TestScenarios runs the other benchmarks for a moment.
func TestScenarios(t *testing.T) {
	startsProcesses(t)
	for name, tc := range map[string]struct {
		run    func(context.Context, *bench.Bench) (*bench.Report, error)
		groups int
		rows   []string
		facts  int
		goals  int
	}{
		"backlog": {
			func(ctx context.Context, b *bench.Bench) (*bench.Report, error) { return b.Backlog(ctx, []int64{500}) },
			2,
			[]string{"without 500", "with 500", "without-half 500", "with-half 500"},
			5, 5,
		},
		"endpoints": {
			func(ctx context.Context, b *bench.Bench) (*bench.Report, error) { return b.Endpoints(ctx) },
			perTenant + 10,
			[]string{"one each"},
			1, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := short(t)
			cfg.Groups = tc.groups
			row := rowNamed(t, bench.Base)
			row.Publishers = 16
			cfg.Rows = []bench.Row{row}
			b, err := bench.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			report, err := tc.run(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			var rows []string
			for _, r := range report.Rows {
				rows = append(rows, r.Name)
				t.Logf("%s: %s", r.Name, r.Results[0].Rounds[0])
				if m := r.Results[0].Rounds[0]; r.Results[0].Subject != bench.SQLite || m.Lost != 0 || m.Delivered <= 0 {
					t.Errorf("%s: %s %+v", r.Name, r.Results[0].Subject, m)
				}
			}
			if !slices.Equal(rows, tc.rows) || len(report.Facts) != tc.facts || len(report.Goals) != tc.goals {
				t.Errorf("rows %v, facts %+v, goals %+v", rows, report.Facts, report.Goals)
			}
		})
	}
}

func TestConfigMistakes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*bench.Config){
		"rounds":     func(c *bench.Config) { c.Rounds = -1 },
		"duration":   func(c *bench.Config) { c.Duration = time.Millisecond },
		"endpoints":  func(c *bench.Config) { c.Groups = 1 << 30 },
		"publishers": func(c *bench.Config) { c.Rows = []bench.Row{{Publishers: 0, Payload: 1024, Fanout: 1, Batch: 1}} },
		"payload":    func(c *bench.Config) { c.Rows = []bench.Row{{Publishers: 1, Payload: 10, Fanout: 1, Batch: 1}} },
		"fan-out":    func(c *bench.Config) { c.Rows = []bench.Row{{Publishers: 1, Payload: 1024, Fanout: 99, Batch: 1}} },
		"batch":      func(c *bench.Config) { c.Rows = []bench.Row{{Publishers: 1, Payload: 1024, Fanout: 1, Batch: 5000}} },
		"share": func(c *bench.Config) {
			c.Rows = []bench.Row{{Publishers: 1, Payload: 1024, Fanout: 1, Batch: 1, Share: 2}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := short(t)
			change(&cfg)
			if _, err := bench.New(cfg); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v, want one about %s", err, name)
			}
		})
	}
}
