package torture_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/torture/check"
)

// endpoint is one destination: how it answers, and what it was told.
type endpoint struct {
	name        string
	low, high   time.Duration // how long an answer takes
	failures    float64       // share of answers 503 while it is tortured
	concurrency int

	id     string // at the server
	secret []byte
	flying map[*request]bool
	most   int
}

// request is one that has not been answered yet.
type request struct {
	source string
	woken  bool // its sender had been stopped past its lease
}

// receiver is the customers' side. It is never hurt, and it writes down every
// request before it answers.
type receiver struct {
	t     *testing.T
	url   string
	seen  *journal
	stamp func() int64

	mu        sync.Mutex
	rng       *rand.Rand
	endpoints map[string]*endpoint
	kind      bool   // everything is taken
	woken     string // the node that was stopped last, and goes on
	stale     int    // requests of a woken node beside those of another
}

// receive starts a receiver that writes into dir. stamp counts what the disk
// has done so far; nil where nobody records it.
func receive(t *testing.T, dir string, rng *rand.Rand, stamp func() int64, endpoints ...*endpoint) *receiver {
	t.Helper()
	seen, err := openJournal(filepath.Join(dir, seenFile))
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{t: t, seen: seen, stamp: stamp, rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), endpoints: make(map[string]*endpoint)}
	for _, e := range endpoints {
		r.endpoints[e.name] = e
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = seen.close()
	})
	r.url = "http://" + listener.Addr().String()
	return r
}

// beKind ends failures and waits, so that what is left is soon delivered.
func (r *receiver) beKind() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kind = true
}

// wake notes that a node goes on that was stopped past its lease. It may send
// for a lane again when it owns it again, and by then nobody else has a request
// of that lane in flight.
func (r *receiver) wake(source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.woken = source
}

// begin counts a request in.
func (r *receiver) begin(e *endpoint, source string) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := &request{source: source, woken: source == r.woken}
	for other := range e.flying {
		if other.source != source && (q.woken || other.woken) {
			r.stale++
		}
	}
	if e.flying == nil {
		e.flying = make(map[*request]bool)
	}
	e.flying[q] = true
	e.most = max(e.most, len(e.flying))
	return q
}

// draw says how a request is answered.
func (r *receiver) draw(name string) (e *endpoint, delay time.Duration, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e = r.endpoints[name]
	if e == nil {
		return nil, 0, http.StatusNotFound
	}
	switch {
	case r.kind:
		return e, 0, http.StatusOK
	case r.rng.Float64() < e.failures:
		status = http.StatusServiceUnavailable
	default:
		status = http.StatusOK
	}
	return e, between(r.rng, e.low, e.high), status
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the sender is gone: nothing was taken
	}
	e, delay, status := r.draw(strings.TrimPrefix(req.URL.Path, "/"))
	if e == nil {
		w.WriteHeader(status)
		return
	}
	source := req.Header.Get("User-Agent")
	q := r.begin(e, source)
	// A sender that is gone no longer has this request in flight.
	left := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(e.flying, q)
	}
	defer left()
	select {
	case <-time.After(delay):
	case <-req.Context().Done():
		left()
		time.Sleep(delay)
	}
	sum := sha256.Sum256(body)
	seen := check.Seen{
		Endpoint: e.name, Event: req.Header.Get("Webhook-Id"), Body: hex.EncodeToString(sum[:]), Status: status,
		Signed: r.signed(e, req.Header, body), Source: source,
	}
	if r.stamp != nil {
		seen.Stamp = r.stamp()
	}
	if _, err := r.seen.write(seen); err != nil {
		r.t.Errorf("write down what arrived: %v", err)
	}
	w.WriteHeader(status)
}

// signed verifies the signature with code of its own: Standard Webhooks v1.
func (r *receiver) signed(e *endpoint, header http.Header, body []byte) bool {
	r.mu.Lock()
	secret := e.secret
	r.mu.Unlock()
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s.%s.%s", header.Get("Webhook-Id"), header.Get("Webhook-Timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for one := range strings.FieldsSeq(header.Get("Webhook-Signature")) {
		if hmac.Equal([]byte(one), []byte(want)) {
			return true
		}
	}
	return false
}

// overLimit returns the endpoints that had more requests at once than they
// allow, and says how many came from a node that does not own the lane.
func (r *receiver) overLimit() (over []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.endpoints {
		if e.most > e.concurrency {
			over = append(over, fmt.Sprintf("%s: %d at once, allowed %d", e.name, e.most, e.concurrency))
		}
	}
	if r.stale > 0 {
		over = append(over, fmt.Sprintf("%d requests of nodes that woke up beside those of the owner", r.stale))
	}
	return over
}
