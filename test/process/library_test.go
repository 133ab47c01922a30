package process_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // driver sqlite

	library "github.com/breakwaterhq/breakwater/receiver"
)

// customer is a server that receives with the library we give to our users.
type customer struct {
	t    *testing.T
	s    *server
	url  string
	once *library.SQL
	db   *sql.DB

	mu       sync.Mutex
	handlers map[string]http.Handler
}

func newCustomer(t *testing.T, s *server) *customer {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "customer.db")+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	once, err := library.NewSQL(db, library.SQLOptions{Dialect: library.SQLite})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE effects (id TEXT NOT NULL);" + once.Schema()); err != nil {
		t.Fatal(err)
	}
	c := &customer{t: t, s: s, once: once, db: db, handlers: make(map[string]http.Handler)}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *customer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	handler := c.handlers[r.URL.Path]
	c.mu.Unlock()
	handler.ServeHTTP(w, r)
}

// hook is an endpoint at the customer's.
type hook struct {
	c        *customer
	name, id string
	fail     atomic.Pointer[error] // what the customer's function returns
	requests atomic.Int64
}

// endpoint makes one that gets the events of its own type.
func (c *customer) endpoint(name string) *hook {
	c.t.Helper()
	h := &hook{c: c, name: name}
	var secret string
	h.id, secret = c.s.endpoint(c.url+"/"+name, object{"types": []string{"library." + name}})
	v, err := library.New(library.Config{Secrets: []string{secret}})
	if err != nil {
		c.t.Fatal(err)
	}
	handler := v.Handler(library.HandlerOptions{Dedupe: c.once, Timeout: time.Minute, OnError: func(library.Event, error) {}}, h.work)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers["/"+name] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.requests.Add(1)
		handler.ServeHTTP(w, r)
	})
	return h
}

// work has an effect in any case: that of failed work must go.
func (h *hook) work(ctx context.Context, e library.Event) error {
	tx, _ := library.TxFrom(ctx)
	if _, err := tx.ExecContext(ctx, "INSERT INTO effects (id) VALUES ($1)", h.name+e.ID); err != nil {
		return err
	}
	if err := h.fail.Load(); err != nil {
		return *err
	}
	return nil
}

// answers makes the function return err from now on.
func (h *hook) answers(err error) {
	if err == nil {
		h.fail.Store(nil)
		return
	}
	h.fail.Store(&err)
}

func (h *hook) publish(n int) { h.c.s.publish("library."+h.name, n) }

// counted waits until so many deliveries of the endpoint are as the query says.
func (h *hook) counted(want int64, query string) {
	h.c.t.Helper()
	eventually(h.c.t, time.Minute, h.name+": deliveries with "+query, func() bool {
		var out struct{ Count int64 }
		h.c.s.api("GET", "/deliveries/count?endpoint="+h.id+"&"+query, nil, &out)
		return out.Count == want
	})
}

// effects fails the test unless so many events had an effect, each one.
func (h *hook) effects(want int) {
	h.c.t.Helper()
	var all, unique int
	if err := h.c.db.QueryRow("SELECT COUNT(*), COUNT(DISTINCT id) FROM effects WHERE id LIKE $1", h.name+"%").Scan(&all, &unique); err != nil {
		h.c.t.Fatal(err)
	}
	if all != want || unique != want {
		h.c.t.Errorf("%s: %d effects of %d events, want one of each of %d", h.name, all, unique, want)
	}
}

func (h *hook) replay(in object) {
	h.c.t.Helper()
	in["endpoint"] = h.id
	h.c.s.api("POST", "/replays", in, nil)
}

func (h *hook) resume() { h.c.s.api("POST", "/endpoints/"+h.id+"/resume", nil, nil) }

// retryPending sends the only delivery that waits.
func (h *hook) retryPending() {
	h.c.t.Helper()
	var out struct{ Data []struct{ ID string } }
	h.c.s.api("GET", "/deliveries?status=pending&endpoint="+h.id, nil, &out)
	if len(out.Data) != 1 {
		h.c.t.Fatalf("%d deliveries are pending, want one", len(out.Data))
	}
	h.c.s.api("POST", "/deliveries/"+out.Data[0].ID+"/retry", nil, nil)
}

// TestReceiverLibrary: what a customer's function returns is what the sender does.
func TestReceiverLibrary(t *testing.T) { //nolint:tparallel // one server, one after the other
	t.Parallel()
	s := serve(t)
	c := newCustomer(t, s)
	t.Run("a replay repeats no work", func(t *testing.T) {
		h := c.endpoint("done")
		h.publish(3)
		h.counted(3, "status=delivered")
		h.replay(object{"statuses": []string{"delivered"}})
		eventually(t, time.Minute, "all come again", func() bool { return h.requests.Load() >= 6 })
		h.counted(3, "status=delivered")
		h.effects(3)
	})
	t.Run("Permanent is a dead letter at once", func(t *testing.T) {
		h := c.endpoint("permanent")
		h.answers(library.Permanent(errors.New("no such customer")))
		h.publish(2)
		h.counted(2, "status=dead&reason=permanent")
		h.effects(0)
		if n := h.requests.Load(); n != 2 {
			t.Errorf("%d requests for two events", n)
		}
		h.answers(nil)
		h.replay(object{})
		h.counted(2, "status=delivered")
		h.effects(2)
	})
	t.Run("Later silences the lane", func(t *testing.T) {
		h := c.endpoint("later")
		h.answers(library.Later(errors.New("maintenance"), time.Hour))
		before := time.Now()
		h.publish(1)
		eventually(t, time.Minute, "the lane is held for an hour", func() bool { return s.lane(h.id).HoldUntil.After(before.Add(time.Hour)) })
		h.publish(4)
		h.counted(5, "status=pending")
		if n := h.requests.Load(); n != 1 {
			t.Errorf("%d requests, want one and then silence", n)
		}
		h.answers(nil)
		s.api("POST", "/endpoints/"+h.id+"/reset", nil, nil) // an operator who knows better; the event that was put off keeps its hour
		h.counted(4, "status=delivered")
		h.retryPending()
		h.counted(5, "status=delivered")
		h.effects(5)
	})
	t.Run("Gone switches the endpoint off, and how to come back", func(t *testing.T) {
		h := c.endpoint("gone")
		h.answers(library.Gone())
		h.publish(1)
		eventually(t, time.Minute, "the endpoint is disabled", func() bool {
			var out struct {
				Status string
				Reason string `json:"status_reason"`
			}
			s.api("GET", "/endpoints/"+h.id, nil, &out)
			return out.Status == "disabled" && out.Reason == "gone"
		})
		h.counted(1, "status=dead&reason=gone")
		sofar := h.requests.Load()
		h.answers(nil)
		h.publish(2)
		h.counted(2, "status=pending")
		if n := h.requests.Load(); n != sofar {
			t.Errorf("%d requests after it was switched off", n-sofar)
		}
		h.resume()
		h.counted(2, "status=delivered")
		h.replay(object{"reasons": []string{"gone"}})
		h.counted(3, "status=delivered")
		h.effects(3)
	})
}
