package bench_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/lab/bench"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample is a made-up report with two rounds.
func sample(t *testing.T) *bench.Report {
	t.Helper()
	started := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	measure := func(delivered, cpu, database, p99 float64) *bench.Measure {
		return &bench.Measure{
			Seconds: 8, Accepted: delivered, Delivered: delivered,
			Accept:    bench.Latency{P50: p99 / 9, P99: p99 / 2, P999: p99},
			Arrival:   bench.Latency{P50: p99 / 5, P99: p99, P999: 2 * p99},
			ServerCPU: cpu, DatabaseCPU: database, GeneratorCPU: 12.5, OtherCPU: 0.07,
			PeakMemory: 64 << 20, DatabaseMemory: int64(database) << 20, Written: 20 * cpu, DatabaseKnown: database > 0,
		}
	}
	lossy := measure(9_000, 80, 40, 22)
	lossy.Lost, lossy.Again, lossy.Refused = 3, 2, 1
	rows := bench.DefaultRows()
	r := &bench.Report{
		Kind: "comparison", Version: "1.2.3", Started: started,
		Machine: bench.Machine{
			CPU: "Some Processor 3000", Cores: 2, Memory: 8 << 30, Kernel: "6.1.0", Filesystem: "ext4",
			Go: "go1.26.0", Postgres: "PostgreSQL 15.1", SyncP50: 0.8, SyncP99: 4,
		},
		Settings: bench.Settings{Rounds: 2, WarmUp: 2, Duration: 8, Endpoints: 8, Product: "defaults", Database: "temporary"},
		Rows: []bench.RowReport{
			{Row: rows[0], Text: rows[0].About(), Results: []bench.Result{
				{Subject: bench.Relay, Rounds: []*bench.Measure{measure(20_000, 40, 0, 12), measure(18_000, 44, 0, 14)}},
				{Subject: bench.SQLite, Rounds: []*bench.Measure{measure(15_000, 60, 0, 20), measure(14_400, 65, 0, 25)}},
				{Subject: bench.Postgres, Rounds: []*bench.Measure{measure(8_500, 75, 38, 30), lossy}},
			}},
			{Row: rows[1], Text: rows[1].About(), Results: []bench.Result{
				{Subject: bench.SQLite, Rounds: []*bench.Measure{measure(7_500, 70, 0, 24), measure(7_200, 72, 0, 30)}},
			}},
		},
		Facts:   []bench.Fact{{Subject: bench.SQLite, Name: "kill -9 and start to first delivery", Value: 0.123, Unit: "s"}},
		Skipped: []bench.Skip{{Subject: bench.Postgres, Reason: "only in this test"}},
	}
	r.Conclude(started.Add(90 * time.Second))
	return r
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got), rewrite with -update:\n%s", name, diff)
	}
}

func TestReportText(t *testing.T) {
	t.Parallel()
	r := sample(t)
	var table, page bytes.Buffer
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteMarkdown(&page); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", table.Bytes())
	golden(t, "page.md", page.Bytes())
	_, rows, _ := strings.Cut(table.String(), "SUBJECT")
	for line := range strings.Lines(rows) {
		if n := utf8.RuneCountInString(line); n > 120 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
}

func TestReportVerdict(t *testing.T) {
	t.Parallel()
	r := sample(t)
	if got := r.Lost(); got != 3 {
		t.Errorf("%d lost, want 3", got)
	}
	var missed []string
	for _, g := range r.Missed() {
		missed = append(missed, g.Name+": "+g.Got)
	}
	want := []string{"Postgres: delivered ÷ bare relay: 0.46", "SQLite: accept to arrival, p99 at half load: 27.0 ms"}
	if diff := cmp.Diff(want, missed); diff != "" {
		t.Errorf("missed goals (-want +got):\n%s", diff)
	}
}

func TestReportFiles(t *testing.T) {
	t.Parallel()
	r, dir := sample(t), t.TempDir()
	if err := r.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var again bench.Report
	if err := json.Unmarshal(read("bench.json"), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, &again); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if _, err := png.Decode(bytes.NewReader(read("bench.png"))); err != nil {
		t.Errorf("bench.png: %v", err)
	}
	for _, want := range []string{"<svg", "base", "sqlite"} {
		if !bytes.Contains(read("bench.svg"), []byte(want)) {
			t.Errorf("no %q in bench.svg", want)
		}
	}
	if len(read("bench.md")) == 0 {
		t.Error("bench.md is empty")
	}
	if err := r.WriteFiles(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("no error for a folder that is not there")
	}
}
