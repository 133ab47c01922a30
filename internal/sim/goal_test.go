package sim_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/sim"
)

func TestGoals(t *testing.T) {
	t.Parallel()
	u := sim.Summary{
		Recrashes: 2, Drain: 1.25, DrainMax: sim.Measure(math.Inf(1)), Peak: 1.5, DeadMax: 0.1, LiveP99: 12,
		Detect: sim.Measure(math.NaN()),
	}
	for text, want := range map[string][]string{
		"recrashes==2,drain<=1.25,peak<=1.5": nil,
		"recrashes==0":                       {"recrashes==0: it is 2.0000"},
		"drain<1.25, drain>1.2":              {"drain<1.25: it is 1.2500"},
		"drain_max<=100":                     {"drain_max<=100: it is never"},
		"drain_max>100":                      nil,
		"detect<=1":                          {"detect<=1: it is -"},
		"detect!=1":                          {"detect!=1: it is -"},
		"live_p99<=12s,live_p99>=0.2m":       nil,
		"live_p99 < 11s":                     {"live_p99 < 11s: it is 12.0000"},
		"dead==0":                            {"dead==0: it is 0.1000"},
		"recrashes!=2":                       {"recrashes!=2: it is 2.0000"},
	} {
		goals, err := sim.ParseGoals(text)
		if err != nil {
			t.Errorf("ParseGoals(%q): %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, u.Missed(goals)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestBadGoals(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":               `"" must be a comparison`,
		"drain":          `"drain" must be a comparison`,
		"drain=1":        `"drain=1" must be a comparison`,
		"drian<=1":       `"drian" is not known; known: broken_holds, crashes_between_max, dead,`,
		"drain<=fast":    `"fast" must be a number or a duration`,
		"drain<=nan":     `"nan" must be a number`,
		"drain<=1,":      `"" must be a comparison`,
		"drain<=1<=2":    `"1<=2" must be a number`,
		"recrashes==0;x": `must be a number`,
	} {
		if _, err := sim.ParseGoals(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseGoals(%q) = %v, want %q in it", text, err, want)
		}
	}
}

func FuzzParseGoals(f *testing.F) {
	f.Add("recrashes==0,drain<=1.2,peak<=1.5,waste<=0.01,dead==0")
	f.Fuzz(func(t *testing.T, text string) {
		goals, err := sim.ParseGoals(text)
		if err == nil && len(goals) == 0 {
			t.Error("neither goals nor an error")
		}
		new(sim.Summary).Missed(goals)
	})
}

// shortReports are two quick runs.
func shortReports(t *testing.T) []sim.Report {
	t.Helper()
	s := sim.Base()
	s.Outages[0].For = sim.Duration(30 * time.Second)
	s.Horizon = sim.Duration(2 * time.Minute)
	var reports []sim.Report
	for _, name := range []string{"law", "full-5+hold"} {
		st := strategy(t, name)
		reports = append(reports, sim.NewReport(s, st, []sim.Result{sim.Run(s, st, 1)}))
	}
	return reports
}

func TestCSV(t *testing.T) {
	t.Parallel()
	reports := shortReports(t)
	var out bytes.Buffer
	if err := sim.WriteCSV(&out, reports); err != nil {
		t.Fatalf("WriteCSV: %v", err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"strategy", "second", "arrivals", "delivered", "limit"}, rows[0]); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	sum := make(map[string]int)
	limits := make(map[string]int)
	for _, row := range rows[1:] {
		n, err := strconv.Atoi(row[3])
		if err != nil {
			t.Fatal(err)
		}
		sum[row[0]] += n
		if row[4] != "" {
			limits[row[0]]++
		}
	}
	want := 0
	for _, n := range reports[0].Results[0].Trace.Delivered {
		want += n
	}
	if sum["law"] != want || limits["law"] < 60 || limits["full-5+hold"] != 0 {
		t.Errorf("%d delivered, %d and %d limits; want %d, most seconds, none", sum["law"], limits["law"], limits["full-5+hold"], want)
	}
}

// TestReportJSON: what never happened is null, not an error.
func TestReportJSON(t *testing.T) {
	t.Parallel()
	reports := shortReports(t)
	raw, err := json.Marshal(reports)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	var got []struct {
		Scenario struct {
			Latency string
			Outages []struct{ At, For string }
		}
		Strategy string
		Summary  map[string]any
		Results  []map[string]any
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got[0].Strategy != "law" || got[0].Scenario.Latency != "200ms" || got[0].Scenario.Outages[0].For != "30s" {
		t.Errorf("report %+v", got[0])
	}
	if drain, ok := got[0].Results[0]["drain"].(float64); !ok || drain <= 0 {
		t.Errorf("the law drains: %v", got[0].Results[0])
	}
	if v, ok := got[1].Summary["drain_median"]; !ok || v != nil {
		t.Errorf("drain that never ends: %v, want null", v)
	}
}
