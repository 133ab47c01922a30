package deliveries_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

func shown(row store.DeliveryRow) string { return hook.DeliveryPrefix.Format(row.ID) }

// hostile is what nobody may run.
const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>`

// scene has a delivery of every kind, of an endpoint with the uid main, newest first:
// pending, dead and delivered.
func scene(t *testing.T) (*uitest.World, []store.DeliveryRow) {
	t.Helper()
	w := uitest.New(t)
	w.Endpoint(w.Acme, map[string]any{"uid": "main", "url": "https://hooks.example.com/in"})
	for _, kind := range []string{"order.paid", "order.refunded", "ship.sent"} {
		w.Event(w.Acme, kind, map[string]any{"note": hostile})
		w.Clock.Pass(time.Second)
	}
	rows := w.Deliveries(w.Acme)
	w.Settle(rows[2], hook.Delivered, 0, func(_ *hook.Delivery, a *hook.Attempt) { a.Class, a.Reason, a.Status = hook.Success, hook.OK, 200 })
	w.Settle(rows[1], hook.Dead, hook.DeadExhausted, func(_ *hook.Delivery, a *hook.Attempt) {
		a.Excerpt, a.Error = []byte(`{"error":"`+strings.ReplaceAll(hostile, `"`, `\"`)+`"}`), hostile
		a.Detail.ResponseHeaders = map[string][]string{"X-Evil": {hostile}, hostile: {"v"}}
		a.Detail.RequestHeaders = map[string][]string{"Webhook-Id": {"it's"}}
		a.Detail.URL = "https://hooks.example.com/" + hostile
	})
	return w, w.Deliveries(w.Acme)
}

func TestDeliveriesAreListedAndFiltered(t *testing.T) {
	t.Parallel()
	w, rows := scene(t)
	b := w.Login(w.Acme.Read)
	all := b.Open("/ui/deliveries")
	all.Says("3 deliveries", shown(rows[0]), shown(rows[1]), shown(rows[2]), "order.paid", "hooks.example.com", "main", "500 server_error", "Pending", "Delivered", "Dead", "exhausted")
	all.HasNot("Replay ticked", `name="delivery_ids"`)
	for path, want := range map[string]store.DeliveryRow{
		"/ui/deliveries?status=dead":                                       rows[1],
		"/ui/deliveries?status=dead&since=1h":                              rows[1],
		"/ui/deliveries?type=ship.*":                                       rows[0],
		"/ui/deliveries?type=&status=delivered&reason=":                    rows[2],
		"/ui/deliveries?endpoint=main&status=dead":                         rows[1],
		"/ui/deliveries?reason=exhausted&until=2030-01-01T00:00:00Z":       rows[1],
		"/ui/deliveries?event=" + hook.EventPrefix.Format(rows[2].EventID): rows[2],
	} {
		p := b.Open(path)
		p.Says("1 delivery", shown(want))
		for _, other := range rows {
			if other.ID != want.ID {
				p.SaysNot(shown(other))
			}
		}
	}
	dead := b.Open("/ui/deliveries?status=dead&since=1h")
	dead.Has(`href="/ui/deliveries?since=1h" aria-label="Remove filter status=dead"`, `href="/ui/deliveries?status=dead" aria-label="Remove filter since=1h"`,
		`aria-current="true">Failed last hour`, "/ui/deliveries/"+shown(rows[1])+"?since=1h&amp;status=dead")
	b.Open("/ui/deliveries?type=nothing").Says("Nothing matches this filter")
	b.Open("/ui/deliveries?status=moon").Says("This filter cannot be used.", "status: unknown status")
	b.Open("/ui/deliveries?since=yesterday").Says("since: must be an RFC 3339 time or a duration")
	w.Login(w.Bolt.Read).Open("/ui/deliveries").Says("No deliveries yet")
	w.Login(w.Acme.Write).Open("/ui/deliveries").Has("Replay ticked", `name="delivery_ids" value="`+shown(rows[0])+`"`)
}

func TestPagesOfDeliveriesFollowEachOther(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	w.Endpoint(w.Acme, nil)
	for range 33 {
		w.Event(w.Acme, "a", 1)
	}
	b := w.Login(w.Admin)
	first := b.Open("/ui/deliveries?tenant=acme")
	first.Says("33 deliveries", "Next page")
	_, link, _ := strings.Cut(first.Body, `<a class="btn s" href="`)
	link, _, _ = strings.Cut(link, `"`)
	second := b.Open(strings.ReplaceAll(link, "&amp;", "&"))
	second.Says("More deliveries", "First page")
	second.SaysNot("Next page", "Live")
	if n := strings.Count(second.Body, "data-row="); n != 3 {
		t.Errorf("the second page has %d deliveries, want 3", n)
	}
}

func TestDeliveryShowsWhyItFailed(t *testing.T) {
	t.Parallel()
	w, rows := scene(t)
	b := w.Login(w.Acme.Write)
	p := b.Open("/ui/deliveries/" + shown(rows[1]))
	p.Says("order.refunded to hooks.example.com", "Dead", "Given up at", "Why attempt 1 is not retried", "The destination answered 500", "Redeliver…",
		"accepted 10:30:16", "x-evil", `"error"`, "From the first to the last moment")
	p.SaysNot("Cancel…")
	p.HasNot("<script>alert", "<img src=x", "onerror=alert(2)>\"")
	if strings.Contains(p.Body, `style="`) || strings.Contains(p.Body, " onclick=") {
		t.Error("the page has inline styles or handlers")
	}
	b.Open("/ui/deliveries/"+shown(rows[1])+"?tab=request").Says("POST https://hooks.example.com/", "webhook-id", "it's")
	b.Open("/ui/deliveries/"+shown(rows[1])+"?tab=event").Says("Payload", `"note"`, "Pretty", "Raw")
	b.Open("/ui/deliveries/"+shown(rows[1])+"?attempt=77&tab=moon&raw=1").Says("Why attempt 1", `{"error":`)
	b.Open("/ui/deliveries/"+shown(rows[0])).Says("Not sent yet", "Cancel…", "Pending")
	b.Open("/ui/deliveries/"+shown(rows[2])).Says("Delivered at", "ended the delivery")
	read := w.Login(w.Acme.Read).Open("/ui/deliveries/" + shown(rows[0]))
	read.SaysNot("Redeliver…", "Cancel…")
	w.Login(w.Bolt.Write).Want(http.StatusNotFound, "/ui/deliveries/"+shown(rows[0]))
	b.Want(http.StatusNotFound, "/ui/deliveries/dlv_0000000000000")
	b.Want(http.StatusNotFound, "/ui/deliveries/..%2f..%2fme")
}

func TestDeliveryGivesTheCommandOfTheAPI(t *testing.T) {
	t.Parallel()
	w, rows := scene(t)
	b := w.Login(w.Acme.Read)
	for _, row := range []store.DeliveryRow{rows[1], rows[0]} { // sent and not sent yet
		path := "/ui/deliveries/" + shown(row)
		p := b.Open(path)
		p.Says("The request as curl", "curl -sS -i -X POST --globoff 'https://hooks.example.com/in'", "v1,PLACEHOLDER", "Breakwater-Delivery: "+shown(row), `\"'\''`)
		p.Has(`data-copy="#curl"`)
		file := b.Open(path + "/curl")
		if want := w.Text("/v1/tenants/-/deliveries/"+shown(row)+"/curl", w.Acme.Read); file.Body != want {
			t.Errorf("the download is\n%s\nand the API says\n%s", file.Body, want)
		}
		if kind := file.Header.Get("Content-Disposition"); !strings.HasPrefix(kind, "attachment;") {
			t.Errorf("the command opens in the browser: %s", kind)
		}
	}
	w.Event(w.Acme, "long", strings.Repeat("x", 20<<10))
	long := b.Open("/ui/deliveries/" + shown(w.Deliveries(w.Acme)[0]))
	long.Says("too much to show")
	long.HasNot(strings.Repeat("x", 1000), `data-copy="#curl"`)
	w.Call(http.StatusOK, http.MethodDelete, "/v1/tenants/-/endpoints/main", w.Acme.Write, nil, nil)
	b.Open("/ui/deliveries/" + shown(rows[1])).Says("There is none: its endpoint is deleted.")
	b.Want(http.StatusConflict, "/ui/deliveries/"+shown(rows[1])+"/curl")
	w.Login(w.Bolt.Read).Want(http.StatusNotFound, "/ui/deliveries/"+shown(rows[1])+"/curl")
}

func TestNeighboursAreThoseOfTheFilter(t *testing.T) {
	t.Parallel()
	w, rows := scene(t)
	b := w.Login(w.Acme.Read)
	middle := b.Open("/ui/deliveries/" + shown(rows[1]))
	middle.Has(`href="/ui/deliveries/`+shown(rows[0])+`" data-key="["`, `href="/ui/deliveries/`+shown(rows[2])+`" data-key="]"`)
	alone := b.Open("/ui/deliveries/" + shown(rows[1]) + "?status=dead")
	alone.SaysNot("‹ Newer", "Older ›")
	alone.Has(`<a href="/ui/deliveries?status=dead" data-key="Escape">`)
	outside := b.Open("/ui/deliveries/" + shown(rows[1]) + "?status=delivered") // it has changed since
	outside.Has(`href="/ui/deliveries/` + shown(rows[2]) + `?status=delivered" data-key="]"`)
	b.Open("/ui/deliveries/" + shown(rows[1]) + "?status=moon").SaysNot("‹ Newer")
}

func TestDeliveryIsRedeliveredAndCancelled(t *testing.T) {
	t.Parallel()
	w, rows := scene(t)
	b := w.Login(w.Acme.Write)
	dead, pending := "/ui/deliveries/"+shown(rows[1]), "/ui/deliveries/"+shown(rows[0])
	b.Open(dead+"/redeliver?status=dead").Says("Redeliver order.refunded?", "The webhook-id stays the same", "the delivery stays dead")
	if now := w.Deliveries(w.Acme)[1]; now.State != hook.Dead {
		t.Fatalf("looking at the question changed it to %v", now.State)
	}
	b.Done(dead+"/redeliver?status=dead", url.Values{"note": {"fixed"}}).Says("One more attempt is made now.", "Retrying")
	if now := w.Deliveries(w.Acme)[1]; now.State != hook.Pending {
		t.Errorf("it is %v after Redeliver", now.State)
	}
	b.Open(pending+"/cancel").Says("Cancel ship.sent?", "It will not be sent any more")
	b.Done(pending+"/cancel", nil).Says("The delivery is cancelled.", "Cancelled at")
	again := b.Post(pending+"/cancel", nil)
	if again.Status != http.StatusConflict {
		t.Errorf("a second cancel = %d", again.Status)
	}
	again.Says("only a pending delivery can be cancelled")
	if long := b.Post(dead+"/redeliver", url.Values{"note": {strings.Repeat("x", 501)}}); long.Status != http.StatusUnprocessableEntity {
		t.Errorf("a note of 501 characters = %d", long.Status)
	}
	for name, p := range map[string]*uitest.Page{
		"without a token": b.Send(http.MethodPost, dead+"/redeliver", url.Values{}),
		"read only":       w.Login(w.Acme.Read).Post(dead+"/redeliver", nil),
	} {
		if p.Status != http.StatusForbidden {
			t.Errorf("%s: %d", name, p.Status)
		}
	}
	if p := w.Login(w.Bolt.Write).Post(dead+"/redeliver", nil); p.Status != http.StatusNotFound {
		t.Errorf("another tenant's delivery: %d", p.Status)
	}
	w.Login(w.Acme.Read).Want(http.StatusNotFound, dead+"/redeliver")
}

func TestEventsShowPayloadAndDeliveries(t *testing.T) {
	t.Parallel()
	w, rows := scene(t)
	b := w.Login(w.Acme.Read)
	id := hook.EventPrefix.Format(rows[1].EventID)
	b.Open("/ui/events").Says("order.refunded", id, "application/json")
	b.Open("/ui/events?q=" + id).SaysNot("order.paid")
	b.Open("/ui/events?type=ship.*").Says("ship.sent")
	b.Open("/ui/events?type=nothing").Says("Nothing matches this filter")
	b.Open("/ui/events?type=a..b").Says("This filter cannot be used.")
	p := b.Open("/ui/events/" + id)
	p.Says("order.refunded", shown(rows[1]), "1 in all: 0 delivered, 0 pending, 1 dead", `"note"`)
	p.HasNot("<script>alert", "<img src=x")
	w.Login(w.Bolt.Read).Want(http.StatusNotFound, "/ui/events/"+id)
	lonely := w.Event(w.Bolt, "a", 1)
	w.Login(w.Bolt.Read).Open("/ui/events/" + lonely).Says("No endpoint took it")
}

func TestDownloadsAreFilesAndNothingElse(t *testing.T) {
	t.Parallel()
	w, rows := scene(t)
	b := w.Login(w.Acme.Read)
	event, delivery := hook.EventPrefix.Format(rows[1].EventID), shown(rows[1])
	for path, want := range map[string]string{
		"/ui/events/" + event + "/payload":                    "script",
		"/ui/deliveries/" + delivery + "/attempts/1/response": "<script>alert(1)</script>",
	} {
		p := b.Open(path)
		if ct := p.Header.Get("Content-Type"); ct != "text/plain; charset=utf-8" {
			t.Errorf("%s is %s", path, ct)
		}
		if cd := p.Header.Get("Content-Disposition"); !strings.HasPrefix(cd, "attachment; filename=") {
			t.Errorf("%s has the disposition %s", path, cd)
		}
		if p.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(p.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("%s may be taken for a page: %v", path, p.Header)
		}
		if !strings.Contains(p.Body, want) {
			t.Errorf("%s = %s", path, p.Body)
		}
		w.Login(w.Bolt.Read).Want(http.StatusNotFound, path)
		if out := w.Browser().Send(http.MethodGet, path, nil); out.Status != http.StatusSeeOther {
			t.Errorf("%s without a login = %d", path, out.Status)
		}
	}
	b.Want(http.StatusNotFound, "/ui/deliveries/"+delivery+"/attempts/2/response")
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	w.Endpoint(w.Acme, nil)
	deep := strings.Repeat("[", 2000) + strings.Repeat("]", 2000)
	w.Call(http.StatusAccepted, http.MethodPost, "/v1/tenants/acme/events", w.Acme.Send, map[string]any{"type": "a", "payload": map[string]any{"x": strings.Repeat("<&>", 20_000)}}, nil)
	w.Event(w.Acme, "b", 1)
	rows := w.Deliveries(w.Acme)
	headers := map[string][]string{}
	for i := range 100 {
		headers[strings.Repeat("h", i+1)] = []string{strings.Repeat("<", 5000)}
	}
	w.Settle(rows[0], hook.Dead, hook.DeadExhausted, func(_ *hook.Delivery, a *hook.Attempt) {
		a.Excerpt, a.Detail.Truncated, a.Detail.ResponseHeaders = []byte(deep), true, headers
	})
	b := w.Login(w.Acme.Read)
	p := b.Open("/ui/events/" + hook.EventPrefix.Format(rows[1].EventID))
	p.Says("The page shows its beginning.")
	d := b.Open("/ui/deliveries/" + shown(rows[0]))
	d.Says("40 more headers are not shown", "its beginning was kept")
	for name, page := range map[string]*uitest.Page{"payload": p, "answer": d} {
		if n := len(page.Body); n > 250_000 {
			t.Errorf("%s: the page has %d bytes", name, n)
		}
	}
}

func TestNoLongPageForNobody(t *testing.T) {
	t.Parallel()
	w, rows := scene(t)
	for _, path := range []string{"/ui/deliveries", "/ui/events", "/ui/deliveries/" + shown(rows[0])} {
		if p := w.Browser().Send(http.MethodGet, path, nil); p.Status != http.StatusSeeOther || !strings.HasPrefix(p.Header.Get("Location"), "/ui/login") {
			t.Errorf("%s for nobody = %d", path, p.Status)
		}
	}
}
