package site_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

// tight gives connections little room, so that a browser that reads nothing is noticed
// after some kilobytes instead of megabytes.
type tight struct{ net.Listener }

func (l tight) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		err = tcp.SetWriteBuffer(4096)
	}
	return c, err
}

// TestBrowserThatReadsNothingIsDroppedToldAndInNobodysWay has a real connection whose
// other end does not read: the server gives it up, serves everybody else meanwhile, and
// tells it when it comes back.
func TestBrowserThatReadsNothingIsDroppedToldAndInNobodysWay(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser has ten seconds to read")
	}
	t.Parallel()
	large := strings.Repeat("all work and no play ", 1<<16)
	k := newKit(t, func(cfg *site.Config) {
		cfg.Sections = append(cfg.Sections, site.Section{
			Templates: fstest.MapFS{"large.html": {Data: []byte(`{{template "top" .}}{{template "bottom" .}}{{define "large-block"}}{{.Content}}{{end}}`)}},
			Pages: []site.Page{{
				Path: "/ui/large", Template: "large.html", Title: "Large", Live: []string{"large-block"},
				Load: func(*site.Visit) (any, error) { return large, nil },
			}},
		})
	})
	server := httptest.NewUnstartedServer(k.site)
	server.Listener = tight{server.Listener}
	gone := make(chan struct{}, 16)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			gone <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(k.site.Stop)

	slow := k.login(k.Admin)
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	k.OK(err)
	defer func() { _ = c.Close() }()
	k.OK(c.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(c, "GET /ui/large HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\nCookie: bw_session=%s\r\n\r\n",
		server.Listener.Addr(), slow.Cookie("bw_session").Value)
	k.OK(err)

	other := k.listen(t, server, k.login(k.Admin), "/ui/live")
	for dropped := false; !dropped; {
		other.until("now") // fails if it ends or nothing comes
		select {
		case <-gone:
			dropped = true
		default:
		}
	}
	again := k.listen(t, server, slow, "/ui/live")
	if e := again.next(); e.Name != "lagged" || e.Data["why"] == "" {
		t.Errorf("after it was dropped the browser is told %v first", e)
	}
}
