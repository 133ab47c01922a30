package endpoints_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

const address = "https://hooks.harborpay.example/v2/events"

func idOf(t *testing.T, text string) hook.ID {
	t.Helper()
	id, err := hook.EndpointPrefix.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// saved is what the owner of a lane saves.
func saved(t *testing.T, w *uitest.World, endpoint string, c lane.Checkpoint) {
	t.Helper()
	id := idOf(t, endpoint)
	fence := w.Fence(hook.ShardOf(id))
	save := &store.LaneSave{Endpoint: id, Tenant: w.Acme.ID, Shard: fence.Shard, Epoch: fence.Epoch, Checkpoint: c}
	w.OK(w.DB.Commit(t.Context(), &store.Batch{Node: w.Node().ID, Now: w.Clock.Now(), Lanes: []*store.LaneSave{save}}))
}

// opened lets the breaker of an endpoint open, as its owner would save it.
func opened(t *testing.T, w *uitest.World, endpoint string) {
	t.Helper()
	id, now := idOf(t, endpoint), w.Clock.Now()
	saved(t, w, endpoint, lane.Checkpoint{
		Open: true, OpenedAt: now.Add(-4 * time.Minute), OpenReason: lane.OpenedByStreak, NextProbeAt: now.Add(14 * time.Second), Limit: 6,
	})
	w.OK(w.DB.WriteOperational(t.Context(), []hook.OperationalEvent{
		{ID: w.ID(), TenantID: w.Acme.ID, EndpointID: id, Type: hook.BreakerOpened, At: now.Add(-4 * time.Minute), Detail: json.RawMessage(`{}`)},
		{ID: w.ID(), TenantID: w.Acme.ID, EndpointID: id, Type: hook.BreakerProbeFailed, At: now.Add(-time.Minute), Detail: json.RawMessage(`{"count":3,"reason":"connect_refused"}`)},
	}))
}

func TestListShowsTheWorstStateFirst(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	calm := w.Endpoint(w.Acme, map[string]any{"url": "https://calm.example/in", "uid": "calm"})
	held := w.Endpoint(w.Acme, map[string]any{"url": address, "uid": "orders", "types": []string{"order.*"}})
	paused := w.Endpoint(w.Bolt, map[string]any{"url": "https://paused.example/in", "paused": true})
	opened(t, w, held)
	told, could := w.Endpoint(w.Acme, map[string]any{"url": "https://told.example/in"}), w.Endpoint(w.Acme, map[string]any{"url": "https://could.example/in"})
	back := w.Endpoint(w.Acme, map[string]any{"url": "https://back.example/in"})
	saved(t, w, told, lane.Checkpoint{HoldUntil: w.Clock.Now().Add(30 * time.Second), Limit: 6})
	saved(t, w, could, lane.Checkpoint{HoldUntil: w.Clock.Now().Add(-time.Second), Limit: 6})
	saved(t, w, back, lane.Checkpoint{Recovery: 2.5, Held: time.Minute, Limit: 6})
	b := w.Login(w.Admin)
	p := b.Open("/ui/endpoints")
	p.Says("Told to wait ends in 30 s", "Draining", "Holding", "probe in 14 s", "hooks.harborpay.example /v2/events", "orders · acme", "order.*", "Paused", "bolt")
	p.Has(`All <span class="n">6</span>`, `Holding <span class="n">1</span>`, `Told to wait <span class="n">1</span>`, `Draining <span class="n">1</span>`, `Delivering <span class="n">2</span>`, `Paused <span class="n">1</span>`, "New endpoint")
	at := func(id string) int { return strings.Index(p.Body, `data-row="`+id+`"`) }
	for order, i := []string{held, told, back, paused, calm}, 1; i < len(order); i++ {
		if at(order[i-1]) >= at(order[i]) {
			t.Errorf("rows are not ordered by state: row %d at %d, next at %d", i, at(order[i-1]), at(order[i]))
		}
	}
	for path, want := range map[string]string{"hold": "told.example", "recovering": "back.example"} {
		for _, query := range []string{"?state=" + path, "?" + path + "=true"} {
			p := b.Open("/ui/endpoints" + query)
			p.Says(want)
			p.SaysNot("calm.example", "could.example", "harborpay")
		}
	}
	p = b.Open("/ui/endpoints?state=open")
	p.Says("hooks.harborpay.example")
	p.SaysNot("calm.example", "paused.example")
	p = b.Open("/ui/endpoints?q=CALM")
	p.Says("calm.example")
	p.SaysNot("harborpay")
	p.Has(`name="q" value="CALM"`)
	b.Open("/ui/endpoints?q=" + held).Says("harborpay")
	b.Open("/ui/endpoints?q=nothing-like-it").Says("Nothing matches this filter")
	b.Open("/ui/endpoints?paused=true").Says("paused.example")
	b.Open("/ui/endpoints?tenant=bolt").SaysNot("harborpay")
	w.Login(w.Bolt.Read).Open("/ui/endpoints").SaysNot("harborpay", "New endpoint")
}

func TestListHasPages(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	held := w.Endpoint(w.Acme, map[string]any{"url": address})
	opened(t, w, held)
	for range 27 {
		w.Endpoint(w.Acme, nil)
	}
	b := w.Login(w.Acme.Read)
	row := regexp.MustCompile(`data-row="(ep_\w+)"`)
	seen := map[string]bool{}
	for path, pages := "/ui/endpoints", 0; path != ""; pages++ {
		p := b.Open(path)
		for _, m := range row.FindAllStringSubmatch(p.Body, -1) {
			if seen[m[1]] {
				t.Errorf("%s is on two pages", m[1])
			}
			seen[m[1]] = true
		}
		path = ""
		if m := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(p.Body); m != nil {
			path = strings.ReplaceAll(m[1], "&amp;", "&")
		}
		if pages > 3 {
			t.Fatal("the pages do not end")
		}
	}
	if len(seen) != 28 {
		t.Errorf("%d endpoints on all pages, want 28", len(seen))
	}
	b.Open("/ui/endpoints?cursor=no-such").Says("Holding")
}

func TestPageOfAnEndpointThatHolds(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id := w.Endpoint(w.Acme, map[string]any{"url": address, "uid": "orders"})
	w.Clock.Pass(time.Minute)
	w.Event(w.Acme, "order.paid", map[string]int{"order": 1})
	w.Clock.Pass(5 * time.Minute)
	opened(t, w, id)
	b := w.Login(w.Acme.Write)
	p := b.Open("/ui/endpoints/" + id)
	p.Says("hooks.harborpay.example", "Holding", "breaker open since", "nothing leaves but probes", "next probe", "connect_refused",
		"1 delivery is held", "holding costs no attempt", "Nothing is lost.", "Probe now", "Send test")
	p.Has(`data-count="in"`, "Dead letters", "/ui/replays/new?endpoint="+id)
	w.Login(w.Acme.Read).Open("/ui/endpoints/"+id).SaysNot("Probe now", "Delete")
	w.Login(w.Bolt.Write).Want(http.StatusNotFound, "/ui/endpoints/"+id)

	b.Done("/ui/endpoints/"+id+"/probe", nil).Says("A probe is asked for.")
	b.Done("/ui/endpoints/"+id+"/pause", nil).Says("The endpoint is paused.", "Paused", "Resume")
	b.Done("/ui/endpoints/"+id+"/resume", nil).Says("The endpoint is resumed.", "Holding")
	b.Open("/ui/endpoints/"+id+"/reset").Says("Close breaker hooks.harborpay.example", "all that was learnt about this endpoint is forgotten", "Probe now sends one request")
	b.Done("/ui/endpoints/"+id+"/reset", url.Values{"note": {"repaired"}}).Says("The breaker is asked to close.")
	b.Open("/ui/endpoints/" + id + "/disable").Says("1 deliveries wait now")
	b.Done("/ui/endpoints/"+id+"/disable", nil).Says("Disabled")
	b.Open("/ui/endpoints/"+id+"?tab=audit").Says("endpoint.pause", "endpoint.reset", "repaired")
}

func TestPausedEndpointSaysWhoPausedItAndWhen(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id := w.Endpoint(w.Acme, map[string]any{"url": address})
	b := w.Login(w.Acme.Write)
	b.Done("/ui/endpoints/"+id+"/pause", url.Values{"note": {"maintenance"}})
	for range 30 { // whatever else is done there
		w.Endpoint(w.Acme, nil)
	}
	w.Clock.Pass(3 * time.Hour)
	page := "/ui/endpoints/" + id
	b.Open(page).Says("paused since 10:30:15 , 3 h", "Paused for 3 h by key “tenant:write”: “maintenance”.")
	w.Login(w.Admin).Open(page).Says("by key “tenant:write”")
	w.Login(w.Acme.Read).Open(page).Says("Paused for 3 h by key_") // others' names are not told
	begun := w.Endpoint(w.Acme, map[string]any{"url": address, "paused": true})
	w.Clock.Pass(time.Minute)
	b.Open("/ui/endpoints/" + begun).Says("Paused for 1 m by key “tenant:write”.")
	b.Done(page+"/resume", nil).SaysNot("by key")
}

func TestTabsOfAnEndpoint(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id := w.Endpoint(w.Acme, map[string]any{"url": address, "policy": map[string]any{"preset": "quick", "retry": map[string]any{"max_attempts": 12}}})
	w.Event(w.Acme, "order.paid", 1)
	opened(t, w, id)
	b := w.Login(w.Acme.Read)
	for tab, text := range map[string]string{
		"deliveries": "order.paid", "dead-letters": "Nothing has been given up on", "policy": "retry.max_attempts 12 endpoint", "secrets": "Newest secret",
		"audit": "endpoint.create", "probes": "breaker.probe_failed", "nonsense": "breaker.opened",
	} {
		b.Open("/ui/endpoints/" + id + "?tab=" + tab).Says(text)
	}
	for _, window := range []string{"15m", "1h", "6h", "24h", "7d", "nonsense"} {
		b.Open("/ui/endpoints/" + id + "?window=" + window)
	}
}

func TestCreatingAnEndpointShowsItsSecretOnce(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Admin)
	b.Open("/ui/endpoints/new").Says("Tenant", "The waits of this policy", "From the first to the last attempt")
	form := url.Values{"url": {address}, "types": {"order.*, stock.changed"}, "preset": {"quick"}, "signature": {"standard"}, "body": {"payload"}, "headers": {"X-Token: abc123"}}
	p := b.Post("/ui/endpoints", form)
	p.Says("Choose the tenant that the endpoint belongs to.")
	p.Has(`value="`+address+`"`, "order.*, stock.changed")
	form.Set("tenant", "acme")
	form.Set("do", "preview")
	p = b.Post("/ui/endpoints", form)
	p.Has("The waits of this policy", `value="`+address+`"`)
	form.Del("do")
	p = b.Post("/ui/endpoints", form)
	if p.Status != http.StatusOK {
		t.Fatalf("create = %d\n%s", p.Status, p.Text())
	}
	p.Says("The endpoint is ready", "whsec_", "Copy")
	var made struct {
		Data []struct {
			ID      string
			Types   []string
			Headers map[string]string
			Policy  map[string]any
		}
	}
	w.Call(http.StatusOK, http.MethodGet, "/v1/tenants/acme/endpoints", w.Admin, nil, &made)
	if len(made.Data) != 1 || strings.Join(made.Data[0].Types, " ") != "order.* stock.changed" || made.Data[0].Headers["X-Token"] == "" || made.Data[0].Policy["preset"] != "quick" {
		t.Errorf("made %+v", made.Data)
	}
	b.Open("/ui/endpoints/" + made.Data[0].ID).SaysNot("whsec_")
}

func TestWhatIsWrongStandsBesideTheField(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Acme.Write)
	for name, tc := range map[string]struct {
		field, value, id string
	}{
		"url":     {"url", "", "err-url"},
		"types":   {"types", "order..paid", "err-types"},
		"uid":     {"uid", "ep_mine", "err-uid"},
		"policy":  {"policy", `{"retry":{"max_attempts":0}}`, "err-policy"},
		"no JSON": {"policy", `retry: 3`, "err-policy"},
		"preset":  {"preset", "no-such", "err-p"},
		"headers": {"headers", "no colon here", "err-headers"},
		"secret":  {"secret", "whsec_!", "err-secret"},
	} {
		form := url.Values{"url": {address}, "types": {"*"}, "signature": {"standard"}}
		form.Set(tc.field, tc.value)
		p := b.Post("/ui/endpoints", form)
		if p.Status < 400 || p.Status >= 500 {
			t.Errorf("%s: status %d", name, p.Status)
		}
		p.Has(tc.id)
		p.Says("Nothing was changed.")
	}
	var made struct{ Data []any }
	w.Call(http.StatusOK, http.MethodGet, "/v1/tenants/-/endpoints", w.Acme.Read, nil, &made)
	if len(made.Data) != 0 {
		t.Errorf("%d endpoints were made by forms with mistakes", len(made.Data))
	}
}

func TestEditingShowsWhatChangesAndRemovesWhatIsGone(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id := w.Endpoint(w.Acme, map[string]any{
		"url": address, "headers": map[string]string{"X-Old": "1", "X-Keep": "2"}, "metadata": map[string]string{"owner": "a"},
		"policy": map[string]any{"retry": map[string]any{"max_attempts": 12}, "timeout": map[string]any{"total": "20s"}},
	})
	b := w.Login(w.Acme.Write)
	path := "/ui/endpoints/" + id + "/edit"
	p := b.Open(path)
	p.Says("Press Preview to see what a change does")
	p.Has("max_attempts", "X-Keep: ***")
	form := url.Values{
		"url": {"https://new.example/in"}, "types": {"*"}, "headers": {"X-Keep: ***\r\nX-New: 3"}, "signature": {"standard"}, "body": {"payload"},
		"policy": {`{"retry":{"max_attempts":3}}`}, "version": {"1"}, "do": {"preview"},
	}
	p = b.Post(path, form)
	p.Says("policy.retry.max_attempts 12 3", "policy.timeout.total 20s", "What waits goes to the new address")
	form.Del("do")
	b.Done(path, form).Says("The endpoint is changed.", "new.example")
	var e struct {
		URL      string
		Headers  map[string]string
		Metadata map[string]string
		Policy   json.RawMessage
	}
	w.Call(http.StatusOK, http.MethodGet, "/v1/tenants/-/endpoints/"+id, w.Acme.Read, nil, &e)
	if _, old := e.Headers["X-Old"]; old || e.Headers["X-New"] == "" || e.Headers["X-Keep"] == "" || len(e.Metadata) != 0 || string(e.Policy) != `{"retry":{"max_attempts":3}}` {
		t.Errorf("the endpoint is %+v, policy %s", e, e.Policy)
	}
	form.Set("url", "https://mine.example/in")
	if p = b.Post(path, form); p.Status != http.StatusPreconditionFailed {
		t.Errorf("a form of before: %d", p.Status)
	}
	p.Says("Nothing was changed. Somebody else has changed it since you opened this form.", "url https://new.example/in https://mine.example/in")
	p.HasNot(`<span class="code">signature</span>`, `<span class="code">types</span>`, `<span class="code">policy</span>`)
	p.Has(`name="version" value="2"`, `value="https://mine.example/in"`)
	form.Set("version", "2")
	b.Done(path, form).Says("The endpoint is changed.", "mine.example")
	form.Set("version", "3")
	form.Set("filter", "payload.total >")
	b.Post(path, form).Says("at character 15")
	form.Set("filter", "payload.total > 100")
	form.Set("body", "slack")
	b.Done(path, form).Says("The endpoint is changed.", "Gets events for which payload.total > 100 is true")
	b.Open(path).Has(`value="payload.total &gt; 100"`, `<option value="slack" selected>Slack</option>`)
	form.Del("version")
	b.Post(path, form).Says("The form does not say which version it changes.")
}

func TestSecretsAreShownAndRotated(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id := w.Endpoint(w.Acme, nil)
	b := w.Login(w.Acme.Write)
	b.Post("/ui/endpoints/"+id+"/secret", nil).Says("whsec_", "kept in the audit log")
	b.Open("/ui/endpoints/" + id + "/rotate-secret").Says("24 hours")
	b.Post("/ui/endpoints/"+id+"/rotate-secret", url.Values{"overlap": {"99d"}}).Says("must be a duration between 0s and 7d")
	b.Post("/ui/endpoints/"+id+"/rotate-secret", url.Values{"overlap": {"24h"}}).Says("New secret", "whsec_", "signs on until 2026-03-03")
	b.Open("/ui/endpoints/" + id + "?tab=secrets").Says("until the overlap of the last rotation ends")
	read := w.Login(w.Acme.Read)
	read.Want(http.StatusNotFound, "/ui/endpoints/"+id+"/rotate-secret")
	if p := read.Post("/ui/endpoints/"+id+"/secret", nil); p.Status != http.StatusForbidden || strings.Contains(p.Body, "whsec_") {
		t.Errorf("a key that reads got %d\n%s", p.Status, p.Text())
	}
}

func TestDeletingTakesTheAddress(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id := w.Endpoint(w.Acme, map[string]any{"url": address})
	w.Event(w.Acme, "order.paid", 1)
	b := w.Login(w.Acme.Write)
	path := "/ui/endpoints/" + id + "/delete"
	b.Open(path).Says("1 pending deliveries will be cancelled", address, "Instead, you can pause it")
	b.Post(path, url.Values{"typed": {"https://other"}}).Says("This is not the URL of the endpoint.")
	if p := b.Send(http.MethodPost, path, url.Values{"typed": {address}}); p.Status != http.StatusForbidden {
		t.Errorf("a form without a token got %d", p.Status)
	}
	b.Done(path, url.Values{"typed": {address}}).Says("is deleted, and 1 pending delivery was cancelled", "No endpoints yet")
	b.Want(http.StatusNotFound, "/ui/endpoints/"+id)
}

func TestTestEventShowsItsResult(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id := w.Endpoint(w.Acme, nil)
	b := w.Login(w.Acme.Write)
	p := b.Done("/ui/endpoints/"+id+"/test", nil)
	other := w.Endpoint(w.Acme, nil)
	p.Says("a real event, to this endpoint only", "Open the delivery")
	m := regexp.MustCompile(`/ui/deliveries/(dlv_\w+)`).FindStringSubmatch(p.Body)
	if m == nil {
		t.Fatal("the result has no delivery")
	}
	b.Open("/ui/endpoints/" + other + "?test=" + m[1]).SaysNot("a real event, to this endpoint only")
	b.Open("/ui/endpoints/" + id + "?test=dlv_nonsense").SaysNot("a real event, to this endpoint only")
}

func TestStoredTextIsNeverMarkup(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	const evil = `<img src=x onerror=alert(1)>`
	id := w.Endpoint(w.Acme, map[string]any{
		"url": "https://evil.example/" + url.PathEscape(evil), "description": evil, "metadata": map[string]string{"note": evil},
	})
	b := w.Login(w.Acme.Write)
	for _, path := range []string{"/ui/endpoints", "/ui/endpoints?q=" + url.QueryEscape(evil), "/ui/endpoints/" + id, "/ui/endpoints/" + id + "/edit", "/ui/endpoints/" + id + "/delete", "/ui/endpoints/" + id + "?tab=audit"} {
		b.Open(path).HasNot("<img src=x")
	}
}
