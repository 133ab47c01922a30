package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/receiver"
)

func TestCurlOfADelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.endpoint(w.a, map[string]any{"headers": map[string]string{"Authorization": "Bearer hunter2"}})
	event := w.event(w.a, "order.paid")
	path := "/v1/tenants/acme/deliveries/" + hook.DeliveryPrefix.Format(w.deliveries(w.a)[0].ID)
	changed := w.watch()
	r := w.must(http.StatusOK, http.MethodGet, path+"/curl", w.a.read, nil)
	text := string(r.body)
	for _, want := range []string{
		"curl -sS -i -X POST --globoff 'https://example.com/hook' ", "-H 'Webhook-Id: " + event + "'", "-H 'Webhook-Signature: v1,PLACEHOLDER'", "-H 'Breakwater-Type: ",
		"-H 'Content-Type: application/json'", "-H 'Authorization: ***'", `--data-raw '{"n":1}'`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if ct := r.header.Get("Content-Type"); ct != "text/plain; charset=utf-8" {
		t.Errorf("Content-Type = %q", ct)
	}
	if changed() {
		t.Error("a placeholder left a trace")
	}
	secret := w.must(http.StatusOK, http.MethodGet, "/v1/tenants/acme/endpoints/"+e+"/secret", w.a.write, nil).text(t, "secret")
	text = string(w.must(http.StatusOK, http.MethodGet, path+"/curl?sign=true", w.a.write, nil).body)
	header := http.Header{}
	for line := range strings.Lines(text) {
		if h, ok := strings.CutPrefix(strings.TrimSpace(line), "-H '"); ok {
			name, value, _ := strings.Cut(strings.TrimSuffix(h, `' \`), ": ")
			header.Set(name, value)
		}
	}
	v, err := receiver.New(receiver.Config{Secrets: []string{secret}, Now: func() time.Time { return w.clock.now() }})
	w.ok(err)
	if _, err := v.Verify(header, []byte(`{"n":1}`)); err != nil {
		t.Errorf("a receiver refuses the signature: %v\n%s", err, text)
	}
	if rec := w.lastAudit(); rec.Action != "delivery.sign" || !strings.HasSuffix(path, rec.Subject) {
		t.Errorf("record %+v", rec)
	}
	if strings.Contains(text, "hunter2") {
		t.Error("a header's value is shown")
	}
	w.must(http.StatusNotFound, http.MethodGet, strings.Replace(path, "acme", "-", 1)+"/curl", w.b.write, nil)
	w.must(http.StatusOK, http.MethodDelete, "/v1/tenants/acme/endpoints/"+e, w.a.write, nil)
	if p := w.must(http.StatusConflict, http.MethodGet, path+"/curl", w.a.read, nil).problem(t); p.Current != "deleted" {
		t.Errorf("of a deleted endpoint: %+v", p)
	}
}
