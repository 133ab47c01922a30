package browser_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	protocol "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// acts are the elements by which something is changed.
const acts = "main form[method=post], main [formaction], main a.btn.primary, main a.btn.danger, main a[href$='/edit'], main a[href$='/new']"

// TestSupportFindsWhyAnEventNeverCame is the walk of somebody who may only read: from the
// number that a customer names to the answer of the receiver, and on to a colleague who
// sends it again.
func TestSupportFindsWhyAnEventNeverCame(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.status.Store(http.StatusUnprocessableEntity)
	h.text.Store(`{"error":"order 42 has no customer"}`)
	endpoint := h.endpoint("/hook")
	var event struct{ ID string }
	h.callAs(testKey(h, "shop", "tenant:send"), http.Header{"Idempotency-Key": {"order-42"}}, http.StatusAccepted, http.MethodPost, "/v1/tenants/default/events",
		map[string]any{"type": "order.paid", "payload": map[string]any{"order": 42}}, &event)
	delivery := h.dead(1)[0]
	webhook := h.latest().header.Get("Webhook-Id")
	stranger := strangersEndpoint(h)
	writer, write := h.key("second level", "tenant:write", "default")

	b := open(t, h.url, desk)
	b.login(testKey(h, "first level", "tenant:read"))
	for path, status := range map[string]int64{
		"/ui": 200, "/ui/endpoints": 200, "/ui/endpoints/" + endpoint: 200, "/ui/endpoints/" + endpoint + "?tab=secrets": 200, "/ui/deliveries": 200, "/ui/events/" + event.ID: 200,
		"/ui/dead-letters?group=all": 200, "/ui/replays": 200, "/ui/alerts": 200, "/ui/alerts/channels": 200,
		"/ui/settings": 404, "/ui/settings/keys": 404, "/ui/settings/config": 404, "/ui/tenants": 404, "/ui/endpoints/new": 404, "/ui/endpoints/" + endpoint + "/edit": 404,
		"/ui/deliveries/" + delivery + "/redeliver": 404, "/ui/endpoints/" + stranger: 404,
	} {
		b.visitAs(path, status)
		if b.has("#tenant") {
			t.Errorf("%s: other tenants can be picked", path)
		}
		if text := b.text("body"); strings.Contains(text, "stranger") {
			t.Errorf("%s shows another tenant: %q", path, text)
		}
		if found := get(b, "look for buttons", chromedp.Evaluate[[]string](`[...document.querySelectorAll("`+acts+`")].map(e => e.outerHTML)`)); len(found) > 0 && status == 200 {
			t.Errorf("%s: somebody who may only read can press %q", path, found)
		}
	}

	b.visit("/ui")
	b.find("order-42")
	b.follow("main a[href^='/ui/events/evt_']")
	if b.path() != "/ui/events/"+event.ID {
		t.Errorf("the idempotency key leads to %s", b.path())
	}
	b.visit("/ui")
	b.find(event.ID)
	b.follow("main tbody a[href^='/ui/deliveries/dlv_']")
	b.follow("nav.tabs a:nth-of-type(2)")
	for _, want := range []string{"422", "order 42 has no customer", "Why attempt 1 is not retried", "refused this event for good"} {
		b.says(want)
	}
	if !b.has("[data-live=deliveries-timeline] svg") {
		t.Error("there is no timeline")
	}
	b.runCopiedCommand(h, webhook)

	shared := b.path()
	colleague := open(t, h.url, desk)
	colleague.visit(shared)
	colleague.fill("#key", write)
	colleague.follow("form[action='/ui/login'] button")
	if colleague.path() != shared {
		t.Fatalf("the link leads a colleague to %s, want %s", colleague.path(), shared)
	}
	for _, part := range []string{"[data-live=deliveries-attempt]", "[data-live=deliveries-attempts] table", ".why"} {
		if mine, theirs := b.text(part), colleague.text(part); mine != theirs {
			t.Errorf("%s: I see\n%q\nand my colleague\n%q", part, mine, theirs)
		}
	}
	h.status.Store(http.StatusOK)
	arrived := h.arrived.Load()
	colleague.follow("a[data-key=r]")
	colleague.fill("#note", "the receiver is fixed")
	colleague.follow("main form button.primary")
	colleague.eventually("it is delivered by hand", func() bool {
		return strings.Contains(colleague.text("[data-live=deliveries-attempts] table"), "manual") && strings.Contains(colleague.text("[data-live=deliveries-head]"), "Delivered")
	})
	if got := h.latest().header.Get("Webhook-Id"); got != webhook || h.arrived.Load() != arrived+1 {
		t.Errorf("%d requests came, the last with webhook-id %s; want 1 with %s", h.arrived.Load()-arrived, got, webhook)
	}
	b.eventually("the other page shows it too", func() bool { return strings.Contains(b.text("[data-live=deliveries-attempts] table"), "manual") })
	colleague.visit("/ui/settings/audit?subject=" + delivery)
	colleague.says(writer)
	colleague.click("main details summary")
	colleague.says("the receiver is fixed")
}

func testKey(h *house, name, scope string) string {
	h.t.Helper()
	_, text := h.key(name, scope, "default")
	return text
}

// strangersEndpoint makes an endpoint of another tenant.
func strangersEndpoint(h *house) string {
	h.t.Helper()
	var made struct{ ID string }
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants", map[string]any{"uid": "stranger", "name": "stranger"}, nil)
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/stranger/endpoints", map[string]any{"url": h.to + "/stranger"}, &made)
	return made.ID
}

// find looks for a text with the search box.
func (b *tab) find(text string) {
	b.t.Helper()
	b.press("/")
	b.eventually("the search box has the focus", func() bool { return b.has("#q:focus") })
	b.fill("#q", text)
	b.submit("find "+text, 200, chromedp.KeyEvent(kb.Enter))
}

// runCopiedCommand copies the command and runs it as somebody does who was sent it: it
// repeats the request, and its signature is none.
func (b *tab) runCopiedCommand(h *house, webhook string) {
	b.t.Helper()
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		b.do("allow "+name, command(protocol.SetPermission, protocol.SetPermissionParams{
			Permission: &protocol.PermissionDescriptor{Name: name}, Setting: protocol.PermissionSettingGranted, Origin: h.url, BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID,
		}))
	}
	b.click("[data-copy='#curl']")
	b.eventually("the command is copied", func() bool { return strings.Contains(b.text("[data-copy='#curl']"), "Copied") })
	text := get(b, "read the clipboard", chromedp.Evaluate[string]("navigator.clipboard.readText()", chromedp.EvalAwaitPromise))
	arrived := h.arrived.Load()
	out, err := exec.CommandContext(b.t.Context(), "sh", "-c", text).CombinedOutput()
	if err != nil {
		b.t.Fatalf("%v\n%s\n%s", err, text, out)
	}
	got := h.latest()
	if h.arrived.Load() != arrived+1 || string(got.body) != `{"order":42}` || got.header.Get("Webhook-Id") != webhook {
		b.t.Errorf("the command sent %s, %v", got.body, got.header)
	}
	if signature := got.header.Get("Webhook-Signature"); !strings.Contains(signature, "PLACEHOLDER") {
		b.t.Errorf("the signature is %q", signature)
	}
}
