package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/hook"
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
			w.api.Handler().ServeHTTP(rec, r)
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

// TestShelf: whoever waits gets what another gives back; in all it holds no more
// than it has.
func TestShelf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := api.NewShelf(10, 4)
		first, err := s.Take(t.Context(), 1, 4)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() {
			release, err := s.Take(t.Context(), 1, 100) // counts as all a key may have
			if err == nil {
				release()
			}
			got <- err
		}()
		time.Sleep(time.Second / 2)
		first()
		if err := <-got; err != nil {
			t.Errorf("one that waited = %v", err)
		}
		for key := range hook.ID(2) {
			if _, err := s.Take(t.Context(), 10+key, 4); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Take(t.Context(), 20, 4); err == nil || !strings.Contains(err.Error(), "overloaded") {
			t.Errorf("more than there is in all = %v", err)
		}
		if _, err := s.Take(t.Context(), 20, 2); err != nil {
			t.Errorf("what is left = %v", err)
		}
	})
}
