package process_test

import (
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// receiver is the customers' side: it counts what arrives per path and in
// flight, and is never killed.
type receiver struct {
	t   *testing.T
	url string

	mu        sync.Mutex
	behaviour map[string]func() int // status by path, may sleep; default 200
	verify    map[string]*standardwebhooks.Webhook
	ok        map[string]map[string]int // path to webhook-id to 2xx answers
	arrivals  []seen
	flying    map[string]int
	most      map[string]int
	bad       int // signatures that did not verify
}

// seen is one arrival.
type seen struct {
	at   time.Time
	path string
	id   string
	from string // User-Agent
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{
		t: t, behaviour: make(map[string]func() int), verify: make(map[string]*standardwebhooks.Webhook),
		ok: make(map[string]map[string]int), flying: make(map[string]int), most: make(map[string]int),
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	r.url = "http://" + listener.Addr().String()
	return r
}

// on scripts the answers of a path.
func (r *receiver) on(path string, status func() int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behaviour[path] = status
}

// expect makes a path verify its signatures with the official library.
func (r *receiver) expect(path, secret string) {
	r.t.Helper()
	wh, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify[path] = wh
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	path, id := req.URL.Path, req.Header.Get("Webhook-Id")
	r.mu.Lock()
	r.arrivals = append(r.arrivals, seen{time.Now(), path, id, req.UserAgent()})
	r.flying[path]++
	r.most[path] = max(r.most[path], r.flying[path])
	status, wh := r.behaviour[path], r.verify[path]
	r.mu.Unlock()

	code := http.StatusOK
	if status != nil {
		code = status()
	}
	bad := wh != nil && wh.Verify(body, req.Header) != nil

	r.mu.Lock()
	defer r.mu.Unlock()
	r.flying[path]--
	if bad {
		r.bad++
	}
	if code/100 == 2 {
		if r.ok[path] == nil {
			r.ok[path] = make(map[string]int)
		}
		r.ok[path][id]++
	}
	w.WriteHeader(code)
}

// delivered returns how many different events a path has taken, and how many
// arrived again.
func (r *receiver) delivered(path string) (unique, again int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range maps.Values(r.ok[path]) {
		unique++
		again += n - 1
	}
	return unique, again
}

// missing returns which of the ids a path has not taken.
func (r *receiver) missing(path string, ids []string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return r.ok[path][id] > 0 })
}

func (r *receiver) mostInFlight(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most[path]
}

// inFlight returns how many are being answered now.
func (r *receiver) inFlight(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.flying[path]
}

func (r *receiver) badSignatures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

// since returns the arrivals at a path from a moment on.
func (r *receiver) since(path string, from time.Time) []seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []seen
	for _, s := range r.arrivals {
		if s.path == path && !s.at.Before(from) {
			out = append(out, s)
		}
	}
	return out
}
