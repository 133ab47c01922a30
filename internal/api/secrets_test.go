package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSecretsStayHidden runs through every route that handles a secret and then
// looks for the secrets where they must not be.
func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const given = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	secrets := []string{given, "h3ader-value", "other-h3ader", w.admin, w.a.write, w.a.read, w.a.send}
	made := w.must(201, http.MethodPost, acmeEndpoints, w.a.write,
		`{"url":"https://example.com","uid":"main","secret":"`+given+`","headers":{"Authorization":"Bearer h3ader-value"}}`)
	if made.text(t, "secret") != given {
		t.Errorf("secret = %s", made.text(t, "secret"))
	}
	w.must(200, http.MethodPatch, acmeEndpoints+"/main", w.a.write, `{"headers":{"X-Other":"other-h3ader"}}`)
	rotated := w.must(200, http.MethodPost, acmeEndpoints+"/main/rotate-secret", w.a.write, nil).text(t, "secret")
	secrets = append(secrets, rotated)
	ed := w.must(200, http.MethodPatch, acmeEndpoints+"/main", w.a.write, `{"signatures":[{"scheme":"standard"},{"scheme":"standard_ed25519"}]}`)
	if ed.object(t)["secrets_active"] != 3.0 {
		t.Errorf("secrets_active = %v", ed.object(t)["secrets_active"])
	}
	all := w.must(200, http.MethodGet, acmeEndpoints+"/main/secret", w.a.write, nil).object(t)
	for _, s := range all["secrets"].([]any) {
		m := s.(map[string]any)
		secrets = append(secrets, m["secret"].(string))
		if m["scheme"] == "standard_ed25519" && !strings.HasPrefix(fmt.Sprint(m["public_key"]), "whpk_") {
			t.Errorf("ed25519 without a public key: %v", m)
		}
	}
	if len(all["secrets"].([]any)) != 3 {
		t.Errorf("secrets = %v", all)
	}
	secrets = append(secrets, w.must(201, http.MethodPost, "/v1/keys", w.admin, `{"name":"k","scope":"admin"}`).text(t, "key"))
	// Wrong ones must not be echoed either.
	bad := w.do(http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com","secret":"whsec_n0t-base64","headers":{"Host":"h3ader-value"}}`)
	w.do(http.MethodGet, "/v1/me", "bw_wr0ng-key-but-long-enough", nil)
	secrets = append(secrets, "n0t-base64", "bw_wr0ng-key-but-long-enough")

	places := map[string]string{
		"log":           w.logs.String(),
		"refusal":       string(bad.body),
		"endpoint list": string(w.must(200, http.MethodGet, acmeEndpoints, w.a.read, nil).body),
		"endpoint":      string(w.must(200, http.MethodGet, acmeEndpoints+"/main", w.a.write, nil).body),
		"key list":      string(w.must(200, http.MethodGet, "/v1/keys", w.admin, nil).body),
		"me":            string(w.must(200, http.MethodGet, "/v1/me", w.admin, nil).body),
		"database":      w.dump(),
	}
	for place, text := range places {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("%s holds the secret %s:\n%s", place, s, text)
			}
		}
	}
	if !strings.Contains(places["log"], `"msg":"request"`) {
		t.Error("the log is empty, so this test proves nothing")
	}
	if last4 := rotated[len(rotated)-4:]; !strings.Contains(places["endpoint"], `"secret_last4":"`) || last4 == "" {
		t.Errorf("no last characters in %s", places["endpoint"])
	}
}

func TestOldSecretSignsDuringTheOverlap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "main"})
	active := func() float64 {
		return w.must(200, http.MethodGet, acmeEndpoints+"/main", w.a.read, nil).object(t)["secrets_active"].(float64)
	}
	r := w.must(200, http.MethodPost, acmeEndpoints+"/main/rotate-secret", w.a.write, `{"overlap":"2h"}`)
	if got := r.text(t, "previous_expires_at"); got != "2026-03-02T12:30:15.123Z" {
		t.Errorf("previous_expires_at = %s", got)
	}
	if n := active(); n != 2 {
		t.Errorf("%v active during the overlap", n)
	}
	w.clock.pass(2 * time.Hour)
	if n := active(); n != 1 {
		t.Errorf("%v active after the overlap", n)
	}
	for range 4 {
		w.must(200, http.MethodPost, acmeEndpoints+"/main/rotate-secret", w.a.write, `{"overlap":"7d"}`)
	}
	if r := w.do(http.MethodPost, acmeEndpoints+"/main/rotate-secret", w.a.write, nil); r.status != 409 {
		t.Errorf("sixth active secret = %d %s", r.status, r.body)
	}
	w.must(200, http.MethodPost, acmeEndpoints+"/main/rotate-secret", w.a.write, `{"overlap":"0s"}`)
	if n := active(); n != 1 {
		t.Errorf("%v active after a rotation without overlap", n)
	}
}

// TestChangesLeaveARecord checks that every write leaves a record that names who, what, from
// where and under which request.
func TestChangesLeaveARecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, map[string]any{"uid": "main", "headers": map[string]string{"X-Old": "1"}})
	before := w.dump("audit")
	steps := []struct{ action, method, path, key, body, holds string }{
		{"endpoint.create", http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com","uid":"x"}`, `https://example.com`},
		{"endpoint.change", http.MethodPatch, acmeEndpoints + "/main", w.a.write, `{"description":"now","headers":{"X-Old":null,"X-New":"1"}}`, `"removed":["X-Old"],"set":["X-New"]`},
		{"endpoint.pause", http.MethodPost, acmeEndpoints + "/main/pause", w.a.write, `{"note":"n0te"}`, `"from":"active","to":"paused"`},
		{"endpoint.resume", http.MethodPost, acmeEndpoints + "/main/resume", w.a.write, ``, `"to":"active"`},
		{"endpoint.disable", http.MethodPost, acmeEndpoints + "/main/disable", w.a.write, ``, `"to":"disabled"`},
		{"endpoint.reset", http.MethodPost, acmeEndpoints + "/main/reset", w.a.write, ``, ``},
		{"endpoint.rotate_secret", http.MethodPost, acmeEndpoints + "/main/rotate-secret", w.a.write, ``, `previous_expires_at`},
		{"endpoint.read_secret", http.MethodGet, acmeEndpoints + "/main/secret", w.a.write, ``, ``},
		{"endpoint.delete", http.MethodDelete, acmeEndpoints + "/x", w.a.write, ``, ``},
		{"tenant.create", http.MethodPost, "/v1/tenants", w.admin, `{"name":"n","uid":"n"}`, `"to":"n"`},
		{"tenant.change", http.MethodPatch, "/v1/tenants/n", w.admin, `{"name":"m"}`, `"from":"n","to":"m"`},
		{"tenant.delete", http.MethodDelete, "/v1/tenants/n", w.admin, ``, ``},
		{"key.create", http.MethodPost, "/v1/keys", w.admin, `{"name":"k","scope":"admin:read"}`, `admin:read`},
	}
	for _, s := range steps {
		r := w.do(s.method, s.path, s.key, s.body, "X-Request-Id", "req-"+strings.ReplaceAll(s.action, ".", "-"))
		if r.status >= 300 {
			t.Fatalf("%s = %d %s", s.action, r.status, r.body)
		}
		after := w.dump("audit")
		added := strings.Split(strings.TrimSpace(strings.TrimPrefix(after, strings.TrimRight(before, "\n"))), "\n")
		before = after
		if len(added) != 1 {
			t.Errorf("%s: %d records: %q", s.action, len(added), added)
			continue
		}
		line := strings.ReplaceAll(added[0], `\"`, `"`)
		for _, want := range []string{`action="` + s.action + `"`, `actor="key_`, `remote_ip="192.0.2.1"`, `request_id="req-`, s.holds} {
			if !strings.Contains(line, want) {
				t.Errorf("%s: no %s in %s", s.action, want, line)
			}
		}
	}
}
