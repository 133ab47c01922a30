package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// stuck is a client that does not read its answer.
type stuck struct {
	*httptest.ResponseRecorder
	begun chan struct{}
	once  sync.Once
	read  chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	s.once.Do(func() { s.begun <- struct{}{} })
	<-s.read
	return s.ResponseRecorder.Write(b)
}

// TestLargeAnswersAreBoundedPerKey: a client that asks for payloads and does not
// read them gets a few at a time; other keys get theirs.
func TestLargeAnswersAreBoundedPerKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.event(w.a, "order.paid")
	w.event(w.b, "order.paid")
	path := func(s side) string { return "/v1/tenants/" + s.id + "/events?with=payload" }

	begun, read, done := make(chan struct{}), make(chan struct{}), make(chan int)
	for range 2 {
		go func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path(w.a), nil)
			r.Header.Set("Authorization", "Bearer "+w.a.read)
			rec := &stuck{ResponseRecorder: httptest.NewRecorder(), begun: begun, read: read}
			w.handler.ServeHTTP(rec, r)
			done <- rec.Code
		}()
		<-begun
	}
	r := w.do(http.MethodGet, path(w.a), w.a.read, nil)
	if p := r.problem(t); r.status != 429 || p.Code != "rate_limited" || r.header.Get("Retry-After") == "" {
		t.Errorf("a third large answer of the key = %d %s", r.status, r.body)
	}
	w.must(200, http.MethodGet, path(w.b), w.b.read, nil)
	w.must(200, http.MethodGet, strings.TrimSuffix(path(w.a), "?with=payload"), w.a.read, nil)
	close(read)
	for range 2 {
		if got := <-done; got != 200 {
			t.Errorf("one that was slow = %d", got)
		}
	}
	w.must(200, http.MethodGet, path(w.a), w.a.read, nil)
}
