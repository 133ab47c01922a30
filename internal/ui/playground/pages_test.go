package playground_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// quick is an outage that is played in no time.
const quick = "/ui/playground?outage=1s&rate=1&capacity=2"

// watched is what the stream of a page sends until it says a text.
func watched(t *testing.T, w *uitest.World, b *uitest.Browser, path, text string) string {
	t.Helper()
	server := httptest.NewServer(w.Site)
	t.Cleanup(server.Close)
	ctx, leave := context.WithTimeout(t.Context(), uitest.Soon)
	t.Cleanup(leave)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	w.OK(err)
	r.Header.Set("Accept", "text/event-stream")
	r.AddCookie(b.Cookie("bw_session"))
	res, err := server.Client().Do(r)
	w.OK(err)
	defer res.Body.Close()
	var got strings.Builder
	for part := make([]byte, 4096); !strings.Contains(got.String(), text); {
		n, err := res.Body.Read(part)
		got.Write(part[:n])
		if err != nil {
			t.Fatalf("%v: it does not say %q:\n%s", err, text, got.String())
		}
	}
	return got.String()
}

func TestOutageIsPlayedWhenThePageIsThere(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Acme.Read)
	p := b.Open(quick)
	p.Says("Waits", "It is being played", "Show the page with it")
	p.SaysNot("In numbers")
	p.Has(`href="/ui/playground?capacity=2&amp;outage=1s&amp;rate=1&amp;run=1"`, `<noscript><input type="hidden" name="run" value="1"></noscript>`)
	watched(t, w, b, quick, "median of 20 runs")
	p = b.Open(quick + "&run=1")
	p.Says("Median of 20 runs: arrivals reach", "median of 20 runs, seeds from 1 on", "The pictures show the runs with seed 1.", "In numbers", "full-5+hold")
	p.SaysNot("It is being played")
	p.Has(`data-copy="http://example.com/ui/playground?capacity=2&amp;outage=1s&amp;rate=1"`) // who gets the link need not wait for it
}

func TestWhatIsWrongWithAnOutageIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Acme.Read)
	b.Open("/ui/playground?outage=5y").Says("; 5m is used", "It is being played")
	b.Open("/ui/playground?rate=abc").Says("must be a number; 25 is used")
	b.Open("/ui/playground?rate=90").Says("must be at most 99 % of capacity")
	// What takes too long is known to, and not tried again and again by an open page.
	p := b.Open("/ui/playground?outage=1h&rate=20&capacity=20.3&run=1")
	p.Says("Not played")
}
