package browser_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/breakwaterhq/breakwater/test/program"
)

// again loads a page until it says something: what somebody does who has no scripts.
func (b *tab) again(path, want string) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		b.visit(path)
		if text := b.text("main"); strings.Contains(text, want) {
			return
		} else if time.Now().After(deadline) {
			b.t.Fatalf("%s does not say %q within %v; it says %q", path, want, patience, text)
		}
	}
}

// says fails unless the page shows a text.
func (b *tab) says(want string) {
	b.t.Helper()
	if text := b.text("main"); !strings.Contains(text, want) {
		b.t.Errorf("%s does not say %q; it says %q", b.path(), want, text)
	}
}

// has reports whether the page has an element.
func (b *tab) has(selector string) bool {
	b.t.Helper()
	return get(b, "look for "+selector, chromedp.Evaluate[bool]("document.querySelector("+strconv.Quote(selector)+") !== null"))
}

// press gives a key to whatever has the focus.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do("press "+keys, chromedp.KeyEvent(keys))
}

// tabTo presses Tab until an element has the focus.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 100 {
		b.press(kb.Tab)
		if get(b, "look at the focus", chromedp.Evaluate[bool]("document.activeElement.matches("+strconv.Quote(selector)+")")) {
			return
		}
	}
	b.t.Fatalf("%s: Tab does not lead to %s", b.path(), selector)
}

// TestEverythingIsDoneByClicksWithoutScripts makes an endpoint, tests, halts and repairs
// it, and cleans up after its outage.
func TestEverythingIsDoneByClicksWithoutScripts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := open(t, h.url, desk)
	b.withoutScript()
	b.login(program.AdminKey)

	b.follow("nav a[href='/ui/endpoints']")
	b.follow("main a[href^='/ui/endpoints/new']")
	b.fill("#url", h.to+"/hook")
	b.fill("#types", "order.*")
	b.do("choose the tenant", chromedp.Focus(chromedp.CSS("#of")), chromedp.KeyEvent("default"))
	b.follow("main form[method=post] .actions button")
	b.says("whsec_")
	b.follow("main a[href^='/ui/endpoints/ep_']")
	at, _, _ := strings.Cut(b.path(), "?")

	b.follow("form[action*='/test'] button")
	b.again(b.path(), "200")

	b.follow("form[action*='/pause'] button")
	b.says("Paused")
	b.follow("form[action*='/resume'] button")
	b.visit(at)
	if strings.Contains(b.text("main .sub"), "Paused") {
		t.Error("it is still paused")
	}

	h.status.Store(http.StatusUnprocessableEntity) // not tried again
	for range 3 {
		h.publish("order.paid")
	}
	b.again("/ui/dead-letters", "3")
	b.again("/ui/deliveries?status=dead", "3 deliveries")
	h.status.Store(http.StatusOK)
	b.follow("main tbody a[href^='/ui/deliveries/dlv_']")
	one, _, _ := strings.Cut(b.path(), "?")
	b.follow("main a[href*='/redeliver']")
	b.follow("main form[method=post] button")
	b.again(one, "Delivered")

	b.visit("/ui/replays/new?tenant=default&all=true")
	b.follow("button[name=do][value=start]")
	b.again(b.path(), "delivered 2 failed 0")
	b.says("100 %")
	b.again("/ui/deliveries?status=dead", "Nothing matches")

	b.again("/ui/alerts", "Ack")
	b.follow("main form[action*='/ack'] button")
	b.says("cknowledged")

	b.follow("form[action='/ui/logout'] button")
	b.visit("/ui")
	if !strings.HasPrefix(b.path(), "/ui/login") {
		t.Errorf("after logging out the page is %s", b.path())
	}
}

// TestOperatorNeedsNoMouseInAnOutage goes from the login to the endpoint that is down,
// acknowledges its alert, probes it when it is healed, and sees it recover.
func TestOperatorNeedsNoMouseInAnOutage(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var made struct{ ID string }
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/default/endpoints", map[string]any{
		"url": h.to + "/hook", "uid": "hook",
		"policy": map[string]any{"breaker": map[string]any{"probe": map[string]any{"min": "10m", "max": "1h"}}}, // only a person probes in time
	}, &made)
	h.status.Store(http.StatusUnprocessableEntity) // not tried again
	for range 2 {
		h.publish("order.lost")
	}
	var dead struct{ Data []struct{ ID string } }
	for deadline := time.Now().Add(patience); len(dead.Data) < 2; time.Sleep(100 * time.Millisecond) {
		if h.call(http.StatusOK, http.MethodGet, "/v1/tenants/default/dead-letters", nil, &dead); time.Now().After(deadline) {
			t.Fatal("no dead letters")
		}
	}
	h.status.Store(http.StatusServiceUnavailable)
	for range 30 {
		h.publish("order.paid")
	}
	b := open(t, h.url, desk)
	b.visit("/ui/login")
	b.press(program.AdminKey) // the field has the focus
	b.submit("log in", 200, chromedp.KeyEvent(kb.Enter))
	b.eventually("the overview tells of the open breaker", func() bool { return strings.Contains(b.text("main"), "open") })

	b.submit("g a", 200, chromedp.Steps(chromedp.KeyEvent("g"), chromedp.KeyEvent("a")))
	b.eventually("the alert fires", func() bool { return b.has("main tr a[href*='/ui/alerts/alr_']") })
	b.press("j")
	b.submit("open the alert", 200, chromedp.KeyEvent(kb.Enter))
	b.submit("acknowledge", 200, chromedp.KeyEvent("a"))
	b.says("cknowledged")

	b.submit("g e", 200, chromedp.Steps(chromedp.KeyEvent("g"), chromedp.KeyEvent("e")))
	b.eventually("the endpoint is listed", func() bool { return b.has("main tr a[href*='/ui/endpoints/ep_']") })
	b.press("j")
	b.submit("open the endpoint", 200, chromedp.KeyEvent(kb.Enter))
	b.eventually("the page says that deliveries are held", func() bool { return strings.Contains(b.text("main"), "held") })
	h.status.Store(http.StatusOK)
	b.submit("probe", 200, chromedp.KeyEvent("b"))
	b.eventually("the endpoint recovers by itself on the open page", func() bool {
		text := b.text("main .head")
		return !strings.Contains(text, "Probe now") && !strings.Contains(text, "Holding")
	})

	b.submit("g x", 200, chromedp.Steps(chromedp.KeyEvent("g"), chromedp.KeyEvent("x")))
	b.tabTo("main a[href*='group=']")
	b.submit("select the group", 200, chromedp.KeyEvent(kb.Enter))
	b.tabTo("main a[href*='/ui/replays/new']")
	b.submit("replay", 200, chromedp.KeyEvent(kb.Enter))
	b.tabTo("button[name=do][value=start]")
	b.submit("start", 200, chromedp.KeyEvent(kb.Enter))
	b.eventually("the replay is done on the open page", func() bool { return strings.Contains(b.text("main"), "delivered 2 failed 0") })
	dead.Data = nil
	h.call(http.StatusOK, http.MethodGet, "/v1/tenants/default/dead-letters", nil, &dead)
	if len(dead.Data) > 0 {
		t.Errorf("%d dead letters are left", len(dead.Data))
	}
}
