package sink_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/lab/sink"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func newSink(t *testing.T, b sink.Behaviour) *sink.Sink {
	t.Helper()
	s, err := sink.New(sink.Config{Initial: b})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// post hands one request to the sink without a network.
func post(s http.Handler, path, id string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"a":1}`))
	if id != "" {
		r.Header.Set("webhook-id", id)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func control(t *testing.T, s http.Handler, path, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/_sink"+path, strings.NewReader(body)))
	if w.Code != http.StatusOK {
		t.Fatalf("control %s %s: %d %s", path, body, w.Code, w.Body)
	}
}

func TestFailRate(t *testing.T) {
	t.Parallel()
	s := newSink(t, sink.Behaviour{FailRate: 0.3})
	for range 2000 {
		post(s, "/", "")
	}
	if failed := s.Report().Failed; failed < 450 || failed > 750 { // 600 ± 7 standard deviations
		t.Errorf("%d of 2000 failed, want about 600", failed)
	}
}

func TestLatencyAndHangUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, sink.Behaviour{Latency: 200 * time.Millisecond})
		start := time.Now()
		post(s, "/", "a")
		if took := time.Since(start); took != 200*time.Millisecond {
			t.Errorf("answer took %v, want 200ms", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", http.NoBody)
		r.Header.Set("webhook-id", "a")
		s.ServeHTTP(httptest.NewRecorder(), r)
		if c := s.Report(); c.OK != 1 || c.Failed != 1 || c.Duplicates != 0 {
			t.Errorf("a sender that hung up got no answer, so it is no duplicate: %+v", c.Counts)
		}
	})
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, sink.Behaviour{ThrottleOver: 20, RetryAfter: 7})
		for i := range 30 {
			w := post(s, "/", "")
			want, header := http.StatusOK, ""
			if i >= 20 {
				want, header = http.StatusTooManyRequests, "7"
			}
			if w.Code != want || w.Header().Get("Retry-After") != header {
				t.Fatalf("request %d: %d, Retry-After %q; want %d, %q", i, w.Code, w.Header().Get("Retry-After"), want, header)
			}
		}
		time.Sleep(time.Second)
		if code := post(s, "/", "").Code; code != http.StatusOK {
			t.Errorf("a second later: %d, want 200", code)
		}
		if c := s.Report(); c.Throttled != 10 || c.OK != 21 {
			t.Errorf("throttled %d ok %d, want 10 and 21", c.Throttled, c.OK)
		}
	})
}

// TestRateBurst: a bucket of five, refilled with two per second.
func TestRateBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, sink.Behaviour{ThrottleOver: 2, ThrottleBurst: 5})
		take := func(want int64) {
			t.Helper()
			before := s.Report().OK
			for range 20 {
				post(s, "/", "")
			}
			if got := s.Report().OK - before; got != want {
				t.Errorf("%d were let through, want %d", got, want)
			}
		}
		take(5)
		take(0)
		time.Sleep(1500 * time.Millisecond)
		take(3)
		time.Sleep(time.Hour)
		take(5)
		control(t, s, "", `{"throttle_burst":1}`)
		take(1)
	})
}

// TestBrokenHolds: who asks for silence notices who does not keep it.
func TestBrokenHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, sink.Behaviour{ThrottleOver: 1, RetryAfter: 3})
		want := func(broken int64) {
			t.Helper()
			if got := s.Report().BrokenHolds; got != broken {
				t.Errorf("%d broken holds after %v, want %d", got, time.Now(), broken)
			}
		}
		post(s, "/a", "")
		post(s, "/a", "")
		want(0)
		time.Sleep(200 * time.Millisecond)
		post(s, "/a", "") // was on its way; the hold now lasts until 3.2 s
		want(0)
		time.Sleep(2900 * time.Millisecond)
		post(s, "/b", "") // another endpoint has not been asked
		want(0)
		post(s, "/a", "") // throttled again: until 6.1 s
		want(1)
		time.Sleep(3 * time.Second)
		post(s, "/a", "")
		want(1)
		control(t, s, "", `{"reset":true}`)
		want(0)
	})
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	s := newSink(t, sink.Behaviour{})
	control(t, s, "", `{"fail":500}`)
	post(s, "/a", "one") // not answered 2xx: the next one is no duplicate
	control(t, s, "", `{"fail":0}`)
	post(s, "/a", "one")
	post(s, "/b", "one") // another endpoint gets the same id
	post(s, "/a", "two")
	post(s, "/a", "one")
	post(s, "/a", "")
	post(s, "/a", "")
	got := s.Report()
	if got.Duplicates != 1 || got.UniqueIDs != 3 || got.Paths["/a"].Duplicates != 1 || got.Paths["/b"].Duplicates != 0 {
		t.Errorf("want one duplicate on /a and 3 ids: %+v", got)
	}
}

func TestDuplicatesOfManyAtOnce(t *testing.T) {
	t.Parallel()
	s := newSink(t, sink.Behaviour{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				post(s, "/"+strconv.Itoa(i%10), strconv.Itoa(i))
			}
		})
	}
	wg.Wait()
	got := s.Report()
	if got.Requests != 4000 || got.UniqueIDs != 500 || got.Duplicates != 3500 || got.InFlight != 0 || len(got.Paths) != 10 {
		t.Errorf("want 4000 requests, 500 ids, 3500 duplicates on 10 paths: %+v", got.Counts)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s, err := sink.New(sink.Config{MaxIDs: 640})
	if err != nil {
		t.Fatal(err)
	}
	post(s, "/", "first")
	for i := range 20_000 {
		post(s, "/"+strconv.Itoa(i), "filler")
	}
	post(s, "/", "first")
	got := s.Report()
	if got.Duplicates != 0 {
		t.Error("the first id should be forgotten by now")
	}
	if len(got.Paths) > 10_001 {
		t.Errorf("%d paths are kept, want at most 10,001", len(got.Paths))
	}
	if got.Paths["(other)"].Requests == 0 {
		t.Error("paths beyond the bound are not counted")
	}
}

func sign(r *http.Request, key, id, body string, at time.Time) {
	raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whsec_"))
	mac := hmac.New(sha256.New, raw)
	fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := sink.New(sink.Config{Secrets: []string{secret}, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	send := func(mutate func(*http.Request)) int {
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader("body"))
		mutate(r)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	if code := send(func(r *http.Request) { sign(r, secret, "a", "body", time.Now()) }); code != 200 {
		t.Errorf("good signature: %d", code)
	}
	if code := send(func(r *http.Request) { sign(r, secret, "b", "other", time.Now()) }); code != 401 {
		t.Errorf("signature of another body: %d, want 401", code)
	}
	if code := send(func(r *http.Request) { sign(r, secret, "c", "body", time.Now().Add(-time.Hour)) }); code != 401 {
		t.Errorf("old signature: %d, want 401", code)
	}
	if code := send(func(*http.Request) {}); code != 401 {
		t.Errorf("no signature: %d, want 401", code)
	}
	if c := s.Report(); c.OK != 1 || c.BadSignatures != 2 || c.Unsigned != 1 || c.Failed != 3 {
		t.Errorf("counts %+v", c.Counts)
	}
	// A path may have a secret of its own, given when the endpoint exists.
	other := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	control(t, s, "/hook", `{"secrets":["`+other+`"]}`)
	if code := send(func(r *http.Request) { sign(r, other, "d", "body", time.Now()) }); code != 200 {
		t.Errorf("signature with the path's own secret: %d", code)
	}
}

func TestPathsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newSink(t, sink.Behaviour{})
	control(t, s, "/bad/one", `{"fail":418}`)
	if a, b := post(s, "/bad/one", "").Code, post(s, "/good", "").Code; a != 418 || b != 200 {
		t.Errorf("got %d and %d, want 418 on its own path and 200 elsewhere", a, b)
	}
	r := httptest.NewRequest(http.MethodDelete, "/_sink/bad/one", http.NoBody)
	s.ServeHTTP(httptest.NewRecorder(), r)
	if code := post(s, "/bad/one", "").Code; code != 200 {
		t.Errorf("after DELETE: %d, want 200", code)
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, sink.Behaviour{Latency: time.Second})
		control(t, s, "", `{"fail":503,"for":"5s","latency":"0s"}`)
		start := time.Now()
		if code := post(s, "/", "").Code; code != 503 || time.Since(start) != 0 {
			t.Errorf("got %d after %v, want 503 at once", code, time.Since(start))
		}
		time.Sleep(5 * time.Second)
		if code := post(s, "/", "").Code; code != 200 {
			t.Errorf("after 5s: %d, want 200", code)
		}
		control(t, s, "", `{"reset":true,"throttle_over":"1/s"}`)
		post(s, "/", "")
		post(s, "/", "")
		if c := s.Report(); c.Requests != 2 || c.Throttled != 1 {
			t.Errorf("after reset: %+v, want 2 requests, 1 throttled", c.Counts)
		}
		control(t, s, "", `{"heal":true}`)
		if code := post(s, "/", "").Code; code != 200 {
			t.Errorf("healed: %d, want 200", code)
		}
	})
	s := newSink(t, sink.Behaviour{})
	for body, want := range map[string]string{
		`{"fial":1}`:          "fial: there is no such setting",
		`{"fail":42}`:         "fail: must be a status between 200 and 599",
		`{"fail_for":"soon"}`: "fail_for: must be a duration between 0s and 1d",
		`{"fail_for":"5s"}`:   "fail_for: goes with fail",
		`{"for":"5s"}`:        "fail_for: goes with fail",
		`{"fail":503,"for":"5s","fail_for":"9s"}`: "for: is said twice",
		`{"after":"5s"}`:             "after: goes with fail, fail_rate or down_for",
		`{"flap_every":"1s"}`:        "flap_for: must be more than 0s and less than flap_every",
		`{"throttle_over":"x"}`:      "throttle_over: must be requests per second",
		`{"secrets":["x"]}`:          "secrets: ",
		`{"secrets":1}`:              "secrets: must be a list",
		`{`:                          "read change: ",
		`{"fail_rate":2}`:            "fail_rate: must be a share",
		`{"next":[429,99]}`:          "next: must be up to 1000 statuses",
		`{"crash":"yes"}`:            "crash: must be true or false",
		`{"crash_over":null}`:        "crash_over: must be requests per second",
		`{"workers":-1,"queue":"x"}`: `queue: must be a number between 1 and 1000000; 0 is the default\nworkers: `,
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/_sink", strings.NewReader(body)))
		if w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s, want 422 and %q", body, w.Code, w.Body, want)
		}
	}
	if code := post(s, "/", "").Code; code != http.StatusOK {
		t.Errorf("after refused changes: %d, want 200", code)
	}
}

// run serves a sink on a real port until the test ends.
func run(t *testing.T, cfg sink.Config) (s *sink.Sink, url string, stop func()) {
	t.Helper()
	addr := make(chan net.Addr, 1)
	cfg.Listen, cfg.OnListen = "127.0.0.1:0", func(a net.Addr) { addr <- a }
	s, err := sink.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	t.Cleanup(stop)
	return s, "http://" + (<-addr).String(), stop
}

func TestCrashResetsConnections(t *testing.T) {
	t.Parallel()
	s, url, _ := run(t, sink.Config{Initial: sink.Behaviour{CrashFor: time.Hour}})
	control(t, s, "", `{"crash":true}`)
	for range 2 {
		resp, err := http.Post(url, "application/json", strings.NewReader("{}"))
		if err == nil {
			resp.Body.Close()
			t.Errorf("a crashed sink answered %s, want a reset", resp.Status)
		}
	}
	if c := s.Report(); c.Crashes != 1 || c.Failed != 2 || c.OK != 0 {
		t.Errorf("counts %+v, want 1 crash and 2 failed", c.Counts)
	}
	control(t, s, "", `{"heal":true}`)
	resp, err := http.Post(url, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatalf("healed: %v", err)
	}
	resp.Body.Close()
}

// resets posts so many requests at once and returns how many were reset.
func resets(s *sink.Sink, requests int) int {
	var n atomic.Int64
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			defer func() {
				if err, ok := recover().(error); ok && errors.Is(err, http.ErrAbortHandler) {
					n.Add(1)
				}
			}()
			post(s, "/", "")
		})
	}
	wg.Wait()
	return int(n.Load())
}

// TestCrashOver: the fourth request of a second is too many. It takes all that
// are in flight down, and what comes after it finds the sink down.
func TestCrashOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSink(t, sink.Behaviour{CrashOver: 3, CrashFor: time.Hour, Latency: 100 * time.Millisecond})
		if n := resets(s, 3); n != 0 {
			t.Errorf("%d of 3 requests reset, want none", n)
		}
		time.Sleep(time.Second)
		if n := resets(s, 5); n != 5 {
			t.Errorf("%d of 5 requests reset, want all", n)
		}
		if c := s.Report(); c.Crashes != 1 || c.Failed != 5 || c.OK != 3 {
			t.Errorf("counts %+v, want 1 crash, 5 failed and 3 ok", c.Counts)
		}
	})
}

// lines is an output that tells of each line.
type lines struct {
	bytes.Buffer
	written chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	defer func() { l.written <- struct{}{} }()
	return l.Buffer.Write(p)
}

func TestRunPrintsSecondsAndTotals(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	out := &lines{written: make(chan struct{}, 10)}
	_, url, stop := run(t, sink.Config{Out: out, Log: &log})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/hook", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("webhook-id", "evt_1")
	req.Header.Set("breakwater-delivery", "dlv_1")
	req.Header.Set("breakwater-attempt", "2")
	req.Header.Set("breakwater-type", "order.paid")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	resp, err = http.Get(url + "/_sink")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	var report sink.Report
	if err := json.Unmarshal(body, &report); err != nil || report.Requests != 1 || report.Paths["/hook"].MaxInFlight != 1 {
		t.Errorf("GET /_sink = %s, %v", body, err)
	}
	select {
	case <-out.written:
	case <-time.After(5 * time.Minute):
		t.Error("no line after five minutes")
	}
	stop()
	printed := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(printed) != 2 || !strings.HasSuffix(printed[0], " ok 1 fail 0 dup 0 badsig 0 inflight 0") ||
		!strings.HasPrefix(printed[1], "total 1 ok 1 fail 0 dup 0 badsig 0 unsigned 1") {
		t.Errorf("output:\n%s", out.String())
	}
	var entry map[string]any
	if err := json.Unmarshal(log.Bytes(), &entry); err != nil {
		t.Fatalf("log %q: %v", log.String(), err)
	}
	delete(entry, "t")
	want := map[string]any{
		"webhook_id": "evt_1", "delivery": "dlv_1", "attempt": 2.0, "type": "order.paid", "path": "/hook", "status": 200.0,
		"in_flight": 1.0, "duplicate": false, "signature": "none",
	}
	if diff := cmp.Diff(want, entry); diff != "" {
		t.Errorf("log entry (-want +got):\n%s", diff)
	}
}

func TestSlowBodyEndsWithRun(t *testing.T) {
	t.Parallel()
	_, url, stop := run(t, sink.Config{Initial: sink.Behaviour{SlowBody: true}})
	resp, err := http.Post(url, "", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	first := make([]byte, 1)
	if _, err := io.ReadFull(resp.Body, first); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %q, %v; want 200 and a first byte", resp.StatusCode, first, err)
	}
	stop() // must not wait for the five minutes of the body
}

// TestDownHangs: whoever comes while it is down gets nothing until he gives up, and so does
// what was on its way when it crashed. It is counted at once, and Run does not wait for it.
func TestDownHangs(t *testing.T) {
	t.Parallel()
	s, url, stop := run(t, sink.Config{Initial: sink.Behaviour{CrashOver: 2, CrashFor: time.Hour, DownHangs: true, Latency: 100 * time.Millisecond}})
	const patience = 500 * time.Millisecond
	client := &http.Client{Timeout: patience}
	var ends sync.WaitGroup
	for range 4 { // the third crashes it while the others wait for their answer
		ends.Go(func() {
			began := time.Now()
			resp, err := client.Post(url, "", http.NoBody)
			if err == nil {
				resp.Body.Close()
				t.Errorf("status %d from one that hangs, want a timeout", resp.StatusCode)
			}
			if waited := time.Since(began); waited < patience*9/10 {
				t.Errorf("%v after %v, want nothing until the timeout", err, waited)
			}
		})
	}
	ends.Wait()
	if c := s.Report(); c.Crashes != 1 || c.Failed != 4 {
		t.Errorf("%d crashes, %d failed; want 1, and all 4", c.Crashes, c.Failed)
	}
	go func() { _, _ = http.Post(url, "", http.NoBody) }()
	for s.Report().Failed < 5 {
		time.Sleep(time.Millisecond)
	}
	stop()
}

// TestSwallows: a request that is swallowed gets nothing until its sender gives up, and
// the others their answers meanwhile.
func TestSwallows(t *testing.T) {
	t.Parallel()
	s, url, stop := run(t, sink.Config{Initial: sink.Behaviour{Swallow: 0.5}})
	client := &http.Client{Timeout: 300 * time.Millisecond}
	var answered, swallowed atomic.Int64
	var ends sync.WaitGroup
	for range 60 {
		ends.Go(func() {
			resp, err := client.Post(url, "", http.NoBody)
			if err != nil {
				swallowed.Add(1)
				return
			}
			resp.Body.Close()
			answered.Add(1)
		})
	}
	ends.Wait()
	if answered.Load() < 10 || swallowed.Load() < 10 {
		t.Errorf("%d answered, %d swallowed; want about 30 each", answered.Load(), swallowed.Load())
	}
	if c := s.Report(); c.Failed != swallowed.Load() {
		t.Errorf("%d failed, want %d", c.Failed, swallowed.Load())
	}
	stop()
}

func BenchmarkServe(b *testing.B) {
	s, err := sink.New(sink.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader("{}"))
		r.Header.Set("webhook-id", strconv.Itoa(i))
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
}
