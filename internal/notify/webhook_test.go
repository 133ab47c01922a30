package notify_test

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
	"github.com/breakwaterhq/breakwater/receiver"
)

func typeOf(t *testing.T, body []byte) string {
	t.Helper()
	var p struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return p.Type
}

// inbox is a receiver that keeps what it verified.
type inbox struct {
	mu      sync.Mutex
	events  []receiver.Event
	headers []http.Header
	status  func(n int) int // of the answer to the nth; nil: 200
}

func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	event, _ := receiver.FromContext(r.Context())
	b.events = append(b.events, event)
	b.headers = append(b.headers, r.Header.Clone())
	if b.status != nil {
		w.WriteHeader(b.status(len(b.events)))
	}
}

// newInbox starts a receiver that takes only what is signed.
func newInbox(t *testing.T, status func(n int) int) (*inbox, string) {
	t.Helper()
	v, err := receiver.New(receiver.Config{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	b := &inbox{status: status}
	server := httptest.NewServer(v.Middleware(b))
	t.Cleanup(server.Close)
	return b, server.URL
}

// TestSignedWebhookArrives through the real way out at a receiver that verifies:
// beginning and end of an alert, and an operational event.
func TestSignedWebhookArrives(t *testing.T) {
	t.Parallel()
	box, url := newInbox(t, nil)
	queue := &memory{}
	ch := webhook(1, url)
	ch.Headers = map[string]string{"X-Team": "ops"}
	queue.add(notice(ch, alert(1), hook.NoticeFiring))
	queue.add(notice(ch, resolved(2), hook.NoticeResolved))
	queue.add(notify.Notice{Channel: ch, Event: &hook.OperationalEvent{
		ID: 7, TenantID: 11, EndpointID: 12, Type: hook.BreakerOpened, At: since, Detail: json.RawMessage(`{"reason":"consecutive"}`),
	}})
	defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: newGuarded(t, egress.Config{Dev: true})}))()
	if got := queue.results(waiting(t), t); slices.ContainsFunc(got, func(r hook.NoticeResult) bool { return r != hook.NoticeSent }) {
		t.Fatalf("results %v: %q", got, queue.at(0).errors)
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	if len(box.events) != 3 {
		t.Fatalf("%d arrived", len(box.events))
	}
	bodies := map[string]map[string]any{}
	for _, e := range box.events {
		var body map[string]any
		if err := json.Unmarshal(e.Body, &body); err != nil {
			t.Fatal(err)
		}
		bodies[e.Type] = body
	}
	want := map[string]any{
		"id": "alr_0000000000001", "rule": "retry_storm", "level": "endpoint", "severity": "page", "status": "firing", "notice": "firing",
		"subject": map[string]any{"tenant": "ten_000000000000b", "endpoint": "ep_000000000000c", "replay": nil, "node": nil},
		"summary": alert(1).Summary, "value": 9.53, "threshold": 5.0, "since": "2026-03-04T05:00:00.000Z",
		"last_at": "2026-03-04T05:01:00.000Z", "resolved_at": nil, "count": 1.0, "flapping": false, "acked_by": nil, "acked_at": nil,
		"links": map[string]any{
			"ui": publicURL + "/ui/alerts/alr_0000000000001", "api": publicURL + "/v1/alerts/alr_0000000000001",
			"runbook": publicURL + "/docs/alerts.md#retry_storm",
		},
	}
	if diff := cmp.Diff(want, bodies["alert.firing"]["data"]); diff != "" {
		t.Errorf("alert.firing (-want +got):\n%s", diff)
	}
	data := bodies["alert.resolved"]["data"].(map[string]any)
	if data["status"] != "resolved" || data["resolved_at"] != "2026-03-04T05:12:30.000Z" {
		t.Errorf("alert.resolved = %v", data)
	}
	want = map[string]any{
		"id": "ope_0000000000007", "tenant": "ten_000000000000b", "endpoint": "ep_000000000000c",
		"detail": map[string]any{"reason": "consecutive"},
		"links": map[string]any{
			"ui": publicURL + "/ui/endpoints/ep_000000000000c", "api": publicURL + "/v1/tenants/-/endpoints/ep_000000000000c",
		},
	}
	if diff := cmp.Diff(want, bodies["breaker.opened"]["data"]); diff != "" {
		t.Errorf("breaker.opened (-want +got):\n%s", diff)
	}
	if bodies["breaker.opened"]["timestamp"] != "2026-03-04T05:00:00.000Z" {
		t.Errorf("timestamp = %v", bodies["breaker.opened"]["timestamp"])
	}
	if h := box.headers[0]; h.Get("X-Team") != "ops" || h.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", h)
	}
}

// TestRetryKeepsTheID so that the receiver can drop a double; another notice has
// another one.
func TestRetryKeepsTheID(t *testing.T) {
	t.Parallel()
	box, url := newInbox(t, func(n int) int {
		if n == 1 {
			return 503
		}
		return 200
	})
	queue := &memory{}
	queue.add(notice(webhook(1, url), alert(1), hook.NoticeFiring))
	queue.add(notice(webhook(1, url), alert(1), hook.NoticeRepeat))
	defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: newGuarded(t, egress.Config{Dev: true}), Poll: 100 * time.Millisecond}))()
	queue.results(waiting(t), t)
	box.mu.Lock()
	defer box.mu.Unlock()
	if len(box.events) != 3 || box.events[0].ID != box.events[1].ID || box.events[1].ID == box.events[2].ID {
		t.Errorf("ids %v", box.events)
	}
	if e := queue.at(0).errors; len(e) != 2 || !strings.Contains(e[0], "answered 503") {
		t.Errorf("errors %q", e)
	}
}

// TestRedirectIsNotFollowed: the signed notice goes to the address that was
// checked, and nowhere else.
func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	box, url := newInbox(t, nil)
	server := httptest.NewServer(http.RedirectHandler(url, http.StatusPermanentRedirect))
	t.Cleanup(server.Close)
	s := newSender(t, notify.Config{HTTP: newGuarded(t, egress.Config{Dev: true})})
	res := s.Test(t.Context(), webhook(1, server.URL))
	if res.OK || !strings.Contains(res.Detail, "answered 308") || !strings.Contains(res.Detail, "redirects are not followed") {
		t.Errorf("Test = %+v", res)
	}
	if len(box.events) != 0 {
		t.Error("the redirect was followed")
	}
}

// TestGuardKeepsNoticesIn: a channel reaches no address that deliveries may not
// reach, and its owner learns nothing about it.
func TestGuardKeepsNoticesIn(t *testing.T) {
	t.Parallel()
	_, url := newInbox(t, nil)
	s := newSender(t, notify.Config{HTTP: newGuarded(t, egress.Config{})})
	for _, url := range []string{url, "http://169.254.169.254/latest", "http://10.0.0.1/"} {
		res := s.Test(t.Context(), slack(1, url))
		if res.OK || res.Detail != notify.ErrRefused.Error() {
			t.Errorf("Test = %+v", res)
		}
	}
}

// TestAnswerIsQuotedWithCare: what a receiver says is cut and cleaned.
func TestAnswerIsQuotedWithCare(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("no\x1b[31m such\r\nhook\x00 " + strings.Repeat("ü", 100_000)))
	}))
	t.Cleanup(server.Close)
	s := newSender(t, notify.Config{HTTP: newGuarded(t, egress.Config{Dev: true})})
	res := s.Test(t.Context(), slack(1, server.URL))
	if res.OK || !strings.HasPrefix(res.Detail, "answered 400: no [31m such hook ü") || len([]rune(res.Detail)) > 300 ||
		strings.ContainsAny(res.Detail, "\x1b\r\n\x00") {
		t.Errorf("Test = %+v", res)
	}
}

// TestNumbersThatJSONHasNot do not keep a notice from being sent.
func TestNumbersThatJSONHasNot(t *testing.T) {
	t.Parallel()
	box, url := newInbox(t, nil)
	queue := &memory{}
	for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		a := alert(hook.ID(i + 1))
		a.Value, a.Threshold = v, v
		queue.add(notice(webhook(1, url), a, hook.NoticeFiring))
	}
	defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: newGuarded(t, egress.Config{Dev: true})}))()
	queue.results(waiting(t), t)
	box.mu.Lock()
	defer box.mu.Unlock()
	if len(box.events) != 3 || !strings.Contains(string(box.events[0].Body), `"value":null,"threshold":null`) {
		t.Errorf("%d arrived, first %s", len(box.events), box.events[0].Body)
	}
}

func TestWantsEvent(t *testing.T) {
	t.Parallel()
	event := hook.OperationalEvent{TenantID: 11, Type: hook.BreakerOpened}
	system := hook.OperationalEvent{Type: hook.BreakersMany}
	for name, tc := range map[string]struct {
		change func(*hook.Channel)
		event  hook.OperationalEvent
		want   bool
	}{
		"all":                      {func(c *hook.Channel) { c.OperationalEvents = []string{"*"} }, event, true},
		"by prefix":                {func(c *hook.Channel) { c.OperationalEvents = []string{"storm.*", "breaker.*"} }, event, true},
		"by name":                  {func(c *hook.Channel) { c.OperationalEvents = []string{"breaker.opened"} }, event, true},
		"none":                     {func(*hook.Channel) {}, event, false},
		"another":                  {func(c *hook.Channel) { c.OperationalEvents = []string{"storm.*"} }, event, false},
		"its tenant":               {func(c *hook.Channel) { c.OperationalEvents, c.Tenant = []string{"*"}, 11 }, event, true},
		"another tenant":           {func(c *hook.Channel) { c.OperationalEvents, c.Tenant = []string{"*"}, 12 }, event, false},
		"system, not for a tenant": {func(c *hook.Channel) { c.OperationalEvents, c.Tenant = []string{"*"}, 11 }, system, false},
		"system, for the operator": {func(c *hook.Channel) { c.OperationalEvents = []string{"system.*"} }, system, true},
		"not a webhook":            {func(c *hook.Channel) { c.OperationalEvents, c.Kind = []string{"*"}, hook.ChannelSlack }, event, false},
	} {
		ch := webhook(1, hookURL)
		tc.change(&ch)
		if got := notify.WantsEvent(&ch, &tc.event); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
