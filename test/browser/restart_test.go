package browser_test

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/breakwaterhq/breakwater/test/program"
)

// TestRestartLosesNothingThatAPageShows sends two events, one of which has to wait, and
// stops the server under an open page: it says so, comes back by itself, and what
// waited is delivered.
func TestRestartLosesNothingThatAPageShows(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var made struct{ ID string }
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/default/endpoints", map[string]any{
		"url": h.to + "/hook", "policy": map[string]any{"retry": map[string]any{"backoff": map[string]any{"kind": "schedule", "delays": []string{"2s"}}, "jitter": "none", "max_attempts": 30}},
	}, &made)
	arrived := h.publish("order.paid")
	await(t, "the first is delivered", func() bool { return h.arrived.Load() == 1 })
	h.status.Store(http.StatusServiceUnavailable)
	waits := h.publish("order.late")

	b := open(t, h.url, desk)
	b.lossy = true
	b.login(program.AdminKey)
	b.eventually("the overview shows both events", func() bool {
		text := b.text("main")
		return strings.Contains(text, "2 in 1 h") && strings.Contains(text, "Pending 1")
	})
	for _, by := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		h.close(by)
		b.eventually("the page tells that the connection is lost", func() bool { return strings.Contains(b.text("#live"), "Connection lost") })
		h.open()
		b.eventually("the page is live again by itself", func() bool { return b.live() })
	}
	b.visit("/ui/deliveries")
	for _, id := range []string{arrived, waits} {
		b.visit("/ui/events/" + id)
	}
	b.says("1 pending")
	b.follow("main tbody a[href^='/ui/deliveries/dlv_']")
	b.says("503")
	h.status.Store(http.StatusOK)
	b.eventually("what waited is delivered on the open page", func() bool { return strings.Contains(b.text("h1 + p"), "Delivered") })
	if n := len(get(b, "count the attempts", chromedp.Evaluate[[]string](`[...document.querySelectorAll("main table:first-of-type tbody tr[data-row]")].map(r => r.dataset.row)`))); n < 2 {
		t.Errorf("%d attempts are shown: those before the restart are missing", n)
	}
}
