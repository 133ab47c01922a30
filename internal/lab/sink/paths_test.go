package sink_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/lab/sink"
)

// served posts to each path in turn and tells who was served; a crash or a cut
// connection counts as not.
func served(s http.Handler, paths ...string) (out []bool) {
	for _, path := range paths {
		func() {
			defer func() {
				if recover() != nil {
					out = append(out, false)
				}
			}()
			out = append(out, post(s, path, "").Code == http.StatusOK)
		}()
	}
	return out
}

// TestPathsShareOneCapacity: twenty endpoints of one host are one destination,
// unless they are told to be many.
func TestPathsShareOneCapacity(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		perPath bool
		want    []bool
		crashes int64
	}{
		"shared":   {false, []bool{true, true, false, false}, 1},
		"per path": {true, []bool{true, true, true, true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, err := sink.New(sink.Config{Initial: sink.Behaviour{CrashOver: 2}, PerPath: tc.perPath})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, served(s, "/a", "/b", "/c", "/a")); diff != "" {
					t.Errorf("served (-want +got):\n%s", diff)
				}
				if got := s.Report().Crashes; got != tc.crashes {
					t.Errorf("%d crashes, want %d", got, tc.crashes)
				}
			})
		})
	}
}

// TestCrashOfOnePath leaves the others alone; a change for all reaches those
// that were never told anything of their own.
func TestCrashOfOnePath(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := sink.New(sink.Config{Initial: sink.Behaviour{CrashOver: 1, CrashFor: time.Minute}, PerPath: true})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]bool{true, false, true}, served(s, "/a", "/a", "/b")); diff != "" {
			t.Errorf("served (-want +got):\n%s", diff)
		}
		want := []sink.Crash{{At: time.Now(), Load: 2, Why: "arrivals", Path: "/a"}}
		if diff := cmp.Diff(want, s.Report().CrashLog); diff != "" {
			t.Errorf("crashes (-want +got):\n%s", diff)
		}
		control(t, s, "/b", `{"latency":"1s"}`)
		control(t, s, "", `{"heal":true,"fail":418}`)
		time.Sleep(time.Second)
		if a, b := post(s, "/a", "").Code, post(s, "/b", "").Code; a != 418 || b != 200 {
			t.Errorf("got %d and %d, want 418 as told to all, and 200 from the path that has a behaviour of its own", a, b)
		}
	})
}

// TestReport: what came, how fast, what it got, and on which path.
func TestReport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, sink.Behaviour{Next: []int{429, 503, 200, 200}, RetryAfter: 2, RefuseOver: 4})
		post(s, "/a", "1")                 // 429
		post(s, "/b", "1")                 // 503
		time.Sleep(999 * time.Millisecond) // still the same second
		post(s, "/a", "1")                 // early
		post(s, "/b", "1")                 // early too: a 503 may ask for silence as well
		time.Sleep(2 * time.Second)
		post(s, "/a", "1")
		control(t, s, "", `{"refuse_over":1}`)
		post(s, "/b", "2") // refused
		control(t, s, "", `{"down_for":"10s","down_status":502}`)
		post(s, "/a", "3")
		got := s.Report()
		want := sink.Tally{
			Requests: 7, MaxPerSecond: 4, OK: 3, Failed: 4, WhileDown: 1, Refused: 1, Throttled: 1,
			BrokenHolds: 2, Duplicates: 1, MaxInFlight: 1,
		}
		if diff := cmp.Diff(want, got.Tally); diff != "" {
			t.Errorf("all (-want +got):\n%s", diff)
		}
		paths := map[string]sink.Tally{
			"/a": {Requests: 4, MaxPerSecond: 2, OK: 2, Failed: 2, WhileDown: 1, Throttled: 1, BrokenHolds: 1, Duplicates: 1, MaxInFlight: 1},
			"/b": {Requests: 3, MaxPerSecond: 2, OK: 1, Failed: 2, Refused: 1, BrokenHolds: 1, MaxInFlight: 1},
		}
		if diff := cmp.Diff(paths, got.Paths); diff != "" {
			t.Errorf("paths (-want +got):\n%s", diff)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/_sink", http.NoBody))
		for _, want := range []string{`"requests":7`, `"max_per_second":4`, `"throttled":1`, `"broken_holds":2`, `"duplicates":1`, `"crash_log":[]`, `"paths":{"/a":{`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("GET /_sink has no %s: %s", want, w.Body)
			}
		}
	})
}

// TestOutageByControl begins and ends an outage; in between nobody is there.
func TestOutageByControl(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, sink.Behaviour{CrashOver: 100})
		want := func(up bool) {
			t.Helper()
			if got := served(s, "/")[0]; got != up {
				t.Errorf("served %v, want %v", got, up)
			}
		}
		control(t, s, "", `{"down_for":"30s"}`)
		time.Sleep(29 * time.Second)
		want(false)
		time.Sleep(time.Second)
		want(true)
		control(t, s, "", `{"down_for":"1h"}`)
		want(false)
		control(t, s, "", `{"down_for":"30s"}`)
		time.Sleep(20 * time.Second)
		control(t, s, "", `{"latency":"1ms"}`) // says nothing of the outage
		want(false)
		time.Sleep(10 * time.Second)
		want(true)
		control(t, s, "", `{"latency":"0s"}`)
		want(true)
		control(t, s, "", `{"down_for":"1h"}`)
		want(false)
		control(t, s, "", `{"down_for":"0s"}`)
		want(true)
		control(t, s, "", `{"down_for":"10s","after":"5s"}`)
		want(true)
		time.Sleep(5 * time.Second)
		want(false)
		control(t, s, "", `{"heal":true}`)
		want(true)
		if c := s.Report(); c.Crashes != 0 || c.WhileDown != 5 {
			t.Errorf("%d crashes, %d while down; want an outage not to count as a crash, and 5", c.Crashes, c.WhileDown)
		}
	})
}

// TestPrintedLines: people see the crashes, with the load, and every path.
func TestPrintedLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s, err := sink.New(sink.Config{Out: &out, Initial: sink.Behaviour{CrashOver: 3, Next: []int{429}}})
	if err != nil {
		t.Fatal(err)
	}
	served(s, "/a", "/a", "/b", "/b", "/b")
	control(t, s, "", `{"heal":true,"crash":true}`)
	last := s.PrintSecond(time.Now())
	s.PrintTotals()
	printed := out.String()
	for _, want := range []string{
		" crash: 4 requests within a second\n",
		" crash: told\n",
		" in 5 ok 2 fail 3 dup 0 badsig 0 inflight 0 down 2 429 1\n",
		"total 5 ok 2 fail 3 dup 0 badsig 0 unsigned 5 throttled 1 early 0 crashes 2 max-inflight 1 ids 0 refused 0 down 2 max-per-second 5\n",
		`  "/a" 2 ok 1 fail 1 dup 0 max-per-second 2 429 1` + "\n",
		`  "/b" 3 ok 1 fail 2 dup 0 max-per-second 3 down 2` + "\n",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("nothing says %q in:\n%s", want, printed)
		}
	}
	if last.Requests != 5 {
		t.Errorf("the next second begins at %d, want 5", last.Requests)
	}
}

func TestBadBehaviour(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		behaviour sink.Behaviour
		want      string
	}{
		{sink.Behaviour{Next: []int{1}}, "next: must be up to 1000 statuses between 200 and 599"},
		{sink.Behaviour{Fail: 99}, "fail: must be a status between 200 and 599; 0 is none"},
		{sink.Behaviour{FailRate: 1.1}, "fail_rate: must be a share between 0% and 100%"},
		{sink.Behaviour{Fail: 500, FailFor: -1}, "fail_for: must be a duration between 0s and 1d"},
		{sink.Behaviour{FailFor: 1}, "fail_for: goes with fail or fail_rate"},
		{sink.Behaviour{DownFor: 25 * time.Hour}, "down_for: must be a duration between 0s and 1d"},
		{sink.Behaviour{After: time.Second}, "after: goes with fail, fail_rate or down_for"},
		{sink.Behaviour{FlapEvery: time.Second}, "flap_for: must be more than 0s and less than flap_every"},
		{sink.Behaviour{FlapFor: time.Second}, "flap_for: must be more than 0s and less than flap_every"},
		{sink.Behaviour{FlapEvery: 1, FlapFor: 1}, "flap_for: must be more than 0s and less than flap_every"},
		{sink.Behaviour{CrashOver: 0.5}, "crash_over: must be requests per second between 1 and 1000000"},
		{sink.Behaviour{CrashFor: -1}, "crash_for: must be a duration"},
		{sink.Behaviour{DownStatus: 200}, "down_status: must be a status between 400 and 599"},
		{sink.Behaviour{DownStatus: 503, DownHangs: true}, "down_hangs: does not go with down_status"},
		{sink.Behaviour{RefuseOver: -1}, "refuse_over: must be requests per second between 1 and 1000000"},
		{sink.Behaviour{ThrottleOver: 2e6}, "throttle_over: must be requests per second between 0.01 and 1000000"},
		{sink.Behaviour{ThrottleOver: 1, ThrottleBurst: -1}, "throttle_burst: must be a number between 1 and 1000000"},
		{sink.Behaviour{ThrottleBurst: 1}, "throttle_burst: goes with throttle_over"},
		{sink.Behaviour{Stray429: -0.1}, "stray_429: must be a share"},
		{sink.Behaviour{One429Every: -1}, "one_429_every: must be a duration"},
		{sink.Behaviour{RetryAfter: 86_401}, "retry_after: must be whole seconds between 0 and 86400"},
		{sink.Behaviour{Latency: time.Hour}, "latency: must be a duration between 0s and 10m"},
		{sink.Behaviour{Capacity: -1}, "capacity: must be requests per second"},
		{sink.Behaviour{Workers: 10_001}, "workers: must be a number between 1 and 10000"},
		{sink.Behaviour{Queue: -1}, "queue: must be a number"},
	} {
		_, err := sink.New(sink.Config{Initial: tc.behaviour})
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("New(%+v) = %v, want %q", tc.behaviour, err, tc.want)
		}
	}
	if _, err := sink.New(sink.Config{Secrets: []string{"short"}}); err == nil || !strings.HasPrefix(err.Error(), "secret: ") {
		t.Errorf("New with a bad secret = %v", err)
	}
}

// TestFieldsReadText: every kind of value is written as people write it.
func TestFieldsReadText(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"next": "429, 503", "fail": "500", "fail_rate": "30%", "fail_for": "5s", "down_for": "1m", "after": "2s",
		"flap_every": "40s", "flap_for": "10s", "crash_over": "100/s", "crash_for": "7s", "down_status": "503", "down_hangs": "true",
		"refuse_over": "50", "throttle_over": "0.5/s", "throttle_burst": "3", "swallow": "3%", "stray_429": "0.003", "one_429_every": "38s",
		"retry_after": "5", "latency": "300us", "capacity": "10/s", "workers": "2", "queue": "4", "gone": "true", "slow_body": "1",
	}
	var got sink.Behaviour
	for _, f := range sink.Fields() {
		if err := f.Set(&got, texts[f.Name]); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		if err := f.Set(&got, "x"); err == nil {
			t.Errorf("%s takes x", f.Name)
		}
		if f.Type == "" || f.Help == "" {
			t.Errorf("%s has no type or no help", f.Name)
		}
	}
	want := sink.Behaviour{
		Next: []int{429, 503}, Fail: 500, FailRate: 0.3, FailFor: 5 * time.Second, DownFor: time.Minute, After: 2 * time.Second,
		FlapEvery: 40 * time.Second, FlapFor: 10 * time.Second, CrashOver: 100, CrashFor: 7 * time.Second, DownStatus: 503, DownHangs: true,
		RefuseOver: 50, ThrottleOver: 0.5, ThrottleBurst: 3, Swallow: 0.03, Stray429: 0.003, One429Every: 38 * time.Second, RetryAfter: 5,
		Latency: 300 * time.Microsecond, Capacity: 10, Workers: 2, Queue: 4, Gone: true, SlowBody: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
