package site_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// open is a stream that is read event by event.
type open struct {
	t      *testing.T
	status int
	header http.Header
	lines  *bufio.Scanner
	leave  context.CancelFunc
}

// event is one that was sent.
type event struct {
	Name string
	Data map[string]string
}

// listen opens the stream of a page. It ends with the test, or after a while.
func (k *kit) listen(t *testing.T, server *httptest.Server, b *uitest.Browser, path string) *open {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), uitest.Soon)
	t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	k.OK(err)
	r.Header.Set("Accept", "text/event-stream")
	for _, name := range []string{"bw_session", "bw_portal"} {
		if c := b.Cookie(name); c != nil {
			r.AddCookie(c)
		}
	}
	res, err := server.Client().Do(r)
	k.OK(err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return &open{t, res.StatusCode, res.Header, bufio.NewScanner(res.Body), leave}
}

// next returns the next event; "" when the stream has ended.
func (o *open) next() (e event) {
	o.t.Helper()
	for o.lines.Scan() {
		name, value, _ := strings.Cut(o.lines.Text(), ": ")
		switch name {
		case "event":
			e.Name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.Data); err != nil {
				o.t.Fatalf("data %q: %v", value, err)
			}
		case "":
			if e.Name != "" {
				return e
			}
		}
	}
	return event{}
}

// until returns the next event of a name, and the names of those before it.
func (o *open) until(name string) (e event, before []string) {
	o.t.Helper()
	for {
		e = o.next()
		switch e.Name {
		case name:
			return e, before
		case "":
			o.t.Fatalf("the stream ended before %q, after %v", name, before)
		}
		before = append(before, e.Name+" "+e.Data["live"])
	}
}

func (k *kit) serve(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(k.site)
	t.Cleanup(server.Close)
	t.Cleanup(k.site.Stop) // else Close waits for streams
	return server
}

func TestStreamSendsWhatHasChanged(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	s := k.listen(t, k.serve(t), k.login(k.Admin), "/ui/live")
	if s.status != http.StatusOK || s.header.Get("Content-Type") != "text/event-stream" || s.header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%d %v", s.status, s.header)
	}
	first, _ := s.until("swap")
	if first.Data["live"] == "nav-alerts" { // of the frame, on every page
		first, _ = s.until("swap")
	}
	if first.Data["live"] != "kit-block" || first.Data["html"] != "value 0" {
		t.Errorf("first %v", first)
	}
	s.until("now")
	// Nothing has changed: the time alone is sent.
	if _, before := s.until("now"); len(before) > 0 {
		t.Errorf("sent again without a change: %v", before)
	}
	k.value.Store(7)
	swap, before := s.until("swap")
	if swap.Data["html"] != "value 7" || len(before) > 1 {
		t.Errorf("after a change: %v, before it %v", swap, before)
	}
	if _, before := s.until("now"); len(before) > 0 {
		t.Errorf("what stayed was sent, too: %v", before)
	}
}

func TestStreamTellsOfTroubleAndGoesOn(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	s := k.listen(t, k.serve(t), k.login(k.Admin), "/ui/live")
	s.until("now")
	k.fails.Store(true)
	if e, _ := s.until("trouble"); strings.Contains(e.Data["why"], "store") {
		t.Errorf("it says %v", e)
	}
	k.fails.Store(false)
	s.until("now")
}

func TestStreamsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	server := k.serve(t)
	key := k.Key(k.Acme.ID, hook.ScopeTenantRead)
	left, revoked := k.login(k.Admin), k.login(key)
	a, b := k.listen(t, server, left, "/ui/live"), k.listen(t, server, revoked, "/ui/live")
	a.until("now")
	b.until("now")
	left.Post("/ui/logout", nil)
	k.revoke(key)
	for name, s := range map[string]*open{"logout": a, "revoke": b} {
		if e, _ := s.until("ended"); e.Data["why"] == "" {
			t.Errorf("%s: nothing is said", name)
		}
		if e := s.next(); e.Name != "" {
			t.Errorf("%s: then came %v", name, e)
		}
	}
	// So is a browser that was away when it happened.
	s := k.listen(t, server, left, "/ui/live")
	if e := s.next(); s.status != http.StatusOK || e.Name != "ended" || e.Data["why"] == "" {
		t.Errorf("nobody's stream = %d, %v", s.status, e)
	}
	if e := s.next(); e.Name != "" {
		t.Errorf("then came %v", e)
	}
}

func TestStreamsEndWhenTheServerStops(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	server, b := k.serve(t), k.login(k.Admin)
	s := k.listen(t, server, b, "/ui/live")
	s.until("now")
	k.site.Stop()
	for e := s.next(); e.Name != ""; e = s.next() {
		if e.Name == "ended" {
			t.Error("a stop ends the session")
		}
	}
	if s := k.listen(t, server, b, "/ui/live"); s.status != http.StatusServiceUnavailable || s.header.Get("Retry-After") == "" {
		t.Errorf("a stream after the stop = %d", s.status)
	}
}

// TestStreamsAreBounded: one session cannot take them all, and what is given back can
// be had again.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	server, b, other := k.serve(t), k.login(k.Admin), k.login(k.Admin)
	var all []*open
	for range 20 {
		s := k.listen(t, server, b, "/ui/live")
		if s.status != http.StatusOK {
			t.Fatalf("stream %d = %d", len(all), s.status)
		}
		all = append(all, s)
	}
	if s := k.listen(t, server, b, "/ui/live"); s.status != http.StatusServiceUnavailable {
		t.Errorf("the 21st stream = %d", s.status)
	}
	if s := k.listen(t, server, other, "/ui/live"); s.status != http.StatusOK {
		t.Errorf("another session's stream = %d", s.status)
	}
	all[0].leave()
	for s := k.listen(t, server, b, "/ui/live"); s.status != http.StatusOK; s = k.listen(t, server, b, "/ui/live") {
		if t.Context().Err() != nil {
			t.Fatal("the room that was left is not given back")
		}
	}
}

func TestPagesWithoutBlocksHaveNoStream(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	server, b := k.serve(t), k.login(k.Acme.Read)
	if s := k.listen(t, server, b, "/ui"); s.status != http.StatusNoContent {
		t.Errorf("= %d", s.status)
	}
}
