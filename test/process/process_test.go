// Package process tests the product as its users run it: the real binary as
// real processes, spoken to over HTTP, killed, stopped and restarted. It uses
// no internal package of the product but those that start PostgreSQL and a mail
// server.
package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/program"
)

// binary is the built product.
var binary string

func TestMain(m *testing.M) {
	if err := shareTheMachine(); err != nil {
		panic(err)
	}
	program.Main(m.Run, &binary)
}

// shareTheMachine runs many tests at a time unless told otherwise, however few
// cores there are: most of them wait most of the time.
func shareTheMachine() error {
	flag.Parse()
	const parallel = "test.parallel"
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == parallel })
	if told {
		return nil
	}
	atATime := "8"
	if timesJudged() {
		atATime = "4"
	}
	return flag.Set(parallel, atATime)
}

// timesJudged reports whether it matters how fast something was. On a machine
// that others use it says nothing about the product, so it does not unless all
// is asked for, on a quiet one: make storms.
func timesJudged() bool { return os.Getenv("STORM_IN_FULL") != "" }

// inFull skips what takes minutes of real time, or asserts times: the rules
// themselves are tested in virtual time.
func inFull(t *testing.T) {
	t.Helper()
	if !timesJudged() {
		t.Skip("takes minutes and a quiet machine: make storms")
	}
}

// within is how long something may take: so long where times are judged, and
// much longer where a minute may pass in which nothing runs.
func within(judged time.Duration) time.Duration {
	if timesJudged() {
		return judged
	}
	return max(10*judged, time.Minute)
}

const (
	adminKey      = program.AdminKey
	encryptionKey = program.EncryptionKey
)

// server is one `breakwater serve` that can be killed and started again.
type server struct {
	t    *testing.T
	dir  string
	args []string
	// descriptors is how many the process may have; 0: as many as we.
	descriptors int
	env         []string // beside ours
	url         string
	cmd         *exec.Cmd
	log         *tail
	done        chan error
}

// serve starts a server on a free port. args come after `serve`.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	return serveWith(t, 0, args...)
}

// serveWith is serve with a limit of descriptors.
func serveWith(t *testing.T, descriptors int, args ...string) *server {
	t.Helper()
	return (&server{t: t, args: args, descriptors: descriptors}).first()
}

// serveIn is serve with more in its environment.
func serveIn(t *testing.T, env []string, args ...string) *server {
	t.Helper()
	return (&server{t: t, args: args, env: env}).first()
}

// first starts a server for the first time, and ends it with the test.
func (s *server) first() *server {
	t := s.t
	t.Helper()
	s.dir, s.log = t.TempDir(), &tail{}
	s.start()
	t.Cleanup(func() {
		if s.cmd != nil {
			s.signal(syscall.SIGCONT)
			s.kill()
		}
		if t.Failed() {
			t.Logf("log of the server in %s:\n%s", s.dir, s.log)
		}
	})
	return s
}

// start runs the process and waits until it serves. A restart keeps the
// address, so that clients need not look for it. Like a supervisor it tries again
// when someone else has the address for a moment.
func (s *server) start() {
	s.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		listen := strings.TrimPrefix(s.url, "http://")
		if listen == "" {
			listen = program.Address()
		}
		err := s.startAt(listen)
		switch {
		case err == nil:
			return
		case !strings.Contains(s.log.String(), "address already in use") || time.Now().After(deadline):
			s.t.Fatalf("server did not start: %v\n%s", err, s.log)
		}
		s.log.clear()
	}
}

func (s *server) startAt(listen string) error {
	p, err := program.Serve(&program.Options{
		Binary: binary, Dir: s.dir, Listen: listen, Args: s.args, Env: s.env, Descriptors: s.descriptors, Log: s.log,
	})
	if err != nil {
		return err
	}
	s.cmd, s.done = p.Cmd, p.Done
	if s.url == "" { // clients read it while the server is restarted
		s.url = p.URL
	}
	return nil
}

func (s *server) signal(sig os.Signal) {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(sig)
	}
}

// kill ends the process as a crash would.
func (s *server) kill() {
	s.signal(syscall.SIGKILL)
	<-s.done
	s.cmd = nil
}

// stop asks the process to end and expects that it does so well.
func (s *server) stop() {
	s.t.Helper()
	s.signal(syscall.SIGTERM)
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Errorf("server ended with %v\n%s", err, s.log)
		}
	case <-time.After(3 * time.Minute):
		s.t.Fatalf("server did not stop\n%s", s.log)
	}
	s.cmd = nil
}

// rss returns the resident memory in bytes.
func (s *server) rss() int64 {
	s.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return kb << 10
		}
	}
	s.t.Fatal("no VmRSS")
	return 0
}

// liveHeap returns how much of the memory survived the last garbage collection,
// by what the server says of the next one: it begins when the heap has doubled.
func (s *server) liveHeap() int64 {
	s.t.Helper()
	const gauge = "\ngo_memstats_next_gc_bytes "
	res, err := client.Get(s.url + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), gauge)
	next, err := strconv.ParseFloat(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 64)
	if !found || err != nil {
		s.t.Fatalf("/metrics has no %s: %v", gauge, err)
	}
	return int64(next) / 2
}

// tail keeps the end of a log, and counts how often a node has lost shards.
type tail struct {
	mu   sync.Mutex
	buf  []byte
	lost int
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost += bytes.Count(p, []byte("shards lost to other nodes"))
	b.buf = append(b.buf, p...)
	if len(b.buf) > 64<<10 {
		b.buf = b.buf[len(b.buf)-(32<<10):]
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}

func (b *tail) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = nil
}

func (b *tail) losses() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

var client = &http.Client{
	Timeout:   time.Minute,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// errAnswer is an answer that was not 2xx.
type errAnswer struct {
	status int
	body   string
}

func (e *errAnswer) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// call makes one API request and decodes the answer into out.
func call(ctx context.Context, method, url string, in, out any, header ...string) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return &errAnswer{res.StatusCode, string(data)}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// api calls the default tenant's part of the API.
func (s *server) api(method, path string, in, out any) {
	s.t.Helper()
	s.ask(method, "/v1/tenants/default"+path, in, out)
}

// ask calls the API and fails the test on errors. Like any good client it asks
// again when the server has no time for it.
func (s *server) ask(method, path string, in, out any) {
	s.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := call(s.t.Context(), method, s.url+path, in, out)
		if err == nil {
			return
		}
		if !busy(err, method) || time.Now().After(deadline) {
			s.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
}

// busy reports whether an error means that the server has no time. What changes
// something is not asked for twice when there was no answer.
func busy(err error, method string) bool {
	if refused, ok := errors.AsType[*errAnswer](err); ok {
		return refused.status >= 500 || refused.status == http.StatusTooManyRequests
	}
	var slow interface{ Timeout() bool }
	return method == http.MethodGet && errors.As(err, &slow) && slow.Timeout()
}

type object = map[string]any

// endpoint creates an endpoint and returns its id and secret.
func (s *server) endpoint(url string, extra object) (id, secret string) {
	s.t.Helper()
	in := object{"url": url}
	maps.Copy(in, extra)
	var out struct{ ID, Secret string }
	s.api("POST", "/endpoints", in, &out)
	return out.ID, out.Secret
}

// batches numbers those of this process: keys of events are made of it.
var batches atomic.Int64

// publish sends n events of a type through the batch route. All are accepted, or
// the test fails.
func (s *server) publish(eventType string, n int) {
	s.t.Helper()
	for n > 0 {
		batch := min(n, 1000)
		n -= batch
		number := batches.Add(1)
		events := make([]object, batch)
		for i := range events {
			events[i] = object{
				"type": eventType, "payload": object{"n": i, "filler": strings.Repeat("x", 200)},
				"idempotency_key": fmt.Sprintf("batch-%d-%d", number, i),
			}
		}
		var out struct{ Accepted int }
		s.api("POST", "/events/batch", object{"events": events}, &out)
		if out.Accepted != batch {
			s.t.Fatalf("%d of %d events accepted", out.Accepted, batch)
		}
	}
}

// publishOne sends one event under a key until it is accepted, through kills
// and restarts, and returns its id.
func publishOne(ctx context.Context, url, eventType, key string) (string, error) {
	return publishTo(ctx, func(int) string { return url }, eventType, key)
}

// publishTo is publishOne with another server for each try.
func publishTo(ctx context.Context, url func(try int) string, eventType, key string) (string, error) {
	for try := 0; ; try++ {
		var out struct{ ID string }
		err := call(ctx, http.MethodPost, url(try)+"/v1/tenants/default/events", object{"type": eventType, "payload": object{"key": key}}, &out, "Idempotency-Key", key)
		var refused *errAnswer
		switch {
		case err == nil:
			return out.ID, nil
		case errors.As(err, &refused) && refused.status < 500 && refused.status != http.StatusTooManyRequests:
			return "", err
		case ctx.Err() != nil:
			return "", ctx.Err()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// eventually waits until ok is true. Where times are not judged the limit only
// ends a test that hangs, so it is minutes at least. It asks less and less often.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	if !timesJudged() {
		limit = max(limit, 5*time.Minute)
	}
	deadline := time.Now().Add(limit)
	for pause := 20 * time.Millisecond; !ok(); pause = min(pause*5/4, 250*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(pause)
	}
}
