package process_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/program"
)

// destination is a `breakwater sink`: it misbehaves as told and keeps a log.
type destination struct {
	t   *testing.T
	url string
	log string
}

type sinkReport struct {
	Requests    int64 `json:"requests"`
	OK          int64 `json:"ok"`
	Failed      int64 `json:"failed"`
	Throttled   int64 `json:"throttled"`
	BrokenHolds int64 `json:"broken_holds"`
	Crashes     int64 `json:"crashes"`
	Dup         int64 `json:"duplicates"`
	BadSig      int64 `json:"bad_signatures"`
	UniqueIDs   int64 `json:"unique_ids"`
	InFlight    int64 `json:"in_flight"`
	MaxFlight   int64 `json:"max_in_flight"`
}

// arrival is one request as the sink has seen it.
type arrival struct {
	At       time.Time `json:"t"`
	Event    string    `json:"webhook_id"`
	Path     string    `json:"path"`
	Status   int       `json:"status"`
	InFlight int64     `json:"in_flight"`
}

func startSink(t *testing.T, args ...string) *destination {
	t.Helper()
	log := filepath.Join(t.TempDir(), "sink.log")
	sink, err := program.StartSink(binary, append([]string{"--log", log}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sink.Stop)
	return &destination{t: t, url: sink.URL, log: log}
}

func (d *destination) tell(what object) {
	d.t.Helper()
	if err := call(d.t.Context(), http.MethodPost, d.url+"/_sink", what, nil); err != nil {
		d.t.Fatal(err)
	}
}

func (d *destination) report() sinkReport {
	d.t.Helper()
	var r sinkReport
	if err := call(d.t.Context(), http.MethodGet, d.url+"/_sink", nil, &r); err != nil {
		d.t.Fatal(err)
	}
	return r
}

// arrivals returns everything that has come since the sink started, in the
// order it came. The log is written once a second.
func (d *destination) arrivals() []arrival {
	d.t.Helper()
	now := d.report()
	time.Sleep(time.Second)
	var out []arrival
	eventually(d.t, time.Minute, "the sink's log is written", func() bool {
		out = d.readLog()
		return int64(len(out)) >= now.OK+now.Failed
	})
	slices.SortFunc(out, func(a, b arrival) int { return a.At.Compare(b.At) })
	return out
}

func (d *destination) readLog() []arrival {
	d.t.Helper()
	raw, err := os.ReadFile(d.log)
	if err != nil {
		d.t.Fatal(err)
	}
	var out []arrival
	for line := range strings.Lines(string(raw)) {
		var a arrival
		if !strings.HasSuffix(line, "\n") {
			break // the rest of it is not written yet
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			d.t.Fatalf("sink log: %v in %q", err, line)
		}
		out = append(out, a)
	}
	return out
}

// between returns the arrivals from one moment to another.
func between(all []arrival, from, to time.Time) []arrival {
	return slices.DeleteFunc(slices.Clone(all), func(a arrival) bool { return a.At.Before(from) || !a.At.Before(to) })
}

// leastGap is the shortest wait between two probes: two seconds, less a fifth.
const leastGap = 1600 * time.Millisecond

// checkProbes checks requests to a lane that is open: one at a time, and one
// per gap. The gap is counted from an answer to the next request, so the
// distance of two arrivals cannot be shorter however busy the machine is.
func checkProbes(t *testing.T, probes []arrival) {
	t.Helper()
	for i, p := range probes {
		if p.InFlight > 1 {
			t.Errorf("probe %d of %d met %d others in flight", i, len(probes), p.InFlight-1)
		}
		if i == 0 {
			continue
		}
		if gap := p.At.Sub(probes[i-1].At); gap < leastGap {
			t.Errorf("probe %d of %d came %v after the one before, want at least %v", i, len(probes), gap, leastGap)
		}
	}
}
