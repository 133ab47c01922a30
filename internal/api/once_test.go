package api_test

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const onceKey = "Idempotency-Key"

// TestARequestUnderAKeyIsCarriedOutOnce: every route that makes something answers the
// same again, secrets included, and makes nothing more.
func TestARequestUnderAKeyIsCarriedOutOnce(t *testing.T) { //nolint:tparallel // the store is looked at after each
	t.Parallel()
	w := newWorld(t)
	ep := w.endpoint(w.a, map[string]any{"uid": "main"})
	for name, tc := range map[string]struct{ path, key, body, secret string }{
		"endpoint":         {acmeEndpoints, w.a.write, `{"url":"https://example.com/once"}`, "secret"},
		"rotated secret":   {acmeEndpoints + "/" + ep + "/rotate-secret", w.a.write, `{}`, "secret"},
		"tenant":           {"/v1/tenants", w.admin, `{"name":"once"}`, ""},
		"key":              {"/v1/keys", w.admin, `{"name":"once","scope":"admin:read"}`, "key"},
		"replay":           {"/v1/tenants/acme/replays", w.a.write, `{"all":true}`, ""},
		"policy":           {"/v1/policies", w.admin, goldPolicy, ""},
		"tenant's channel": {"/v1/tenants/acme/alert-channels", w.a.write, `{"name":"n","kind":"webhook","url":"https://example.com/n"}`, "secret"},
		"channel":          {"/v1/alert-channels", w.admin, `{"name":"n","kind":"email","to":["a@example.com"]}`, ""},
		"portal link":      {"/v1/tenants/acme/portal-links", w.a.write, `{}`, "url"},
		"pause":            {acmeEndpoints + "/" + ep + "/pause", w.a.write, ``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			first := w.do(http.MethodPost, tc.path, tc.key, tc.body, onceKey, "k-1")
			if first.status/100 != 2 || first.header.Get("Idempotency-Replayed") != "" {
				t.Fatalf("first = %d %s", first.status, first.body)
			}
			if tc.secret != "" {
				secret := first.text(t, tc.secret)
				if dump := w.dump(); strings.Contains(dump, secret) {
					t.Error("the secret of the answer is stored in clear")
				}
			}
			before := w.dump()
			w.clock.pass(23 * time.Hour)
			again := w.do(http.MethodPost, tc.path, tc.key, tc.body, onceKey, "k-1")
			if again.status != first.status || !bytes.Equal(again.body, first.body) || again.header.Get("Idempotency-Replayed") != "true" ||
				again.header.Get("Location") != first.header.Get("Location") || again.header.Get("ETag") != first.header.Get("ETag") ||
				again.header.Get("Content-Type") != first.header.Get("Content-Type") || again.header.Get("X-Request-Id") == first.header.Get("X-Request-Id") {
				t.Errorf("again = %d %v %s\nfirst = %d %v %s", again.status, again.header, again.body, first.status, first.header, first.body)
			}
			if after := w.dump(); after != before {
				t.Error("the repetition has left something in the store")
			}
			w.clock.pass(-23 * time.Hour)
		})
	}
}

func TestAnotherRequestUnderTheSameKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const body = `{"url":"https://example.com/a"}`
	refused := w.do(http.MethodPost, acmeEndpoints, w.a.write, `{"url":"gopher://x"}`, onceKey, "k")
	if refused.status != 422 {
		t.Fatalf("refused = %d %s", refused.status, refused.body)
	}
	first := w.must(201, http.MethodPost, acmeEndpoints, w.a.write, body, onceKey, "k") // what was refused left nothing under the key
	r := w.do(http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/b"}`, onceKey, "k")
	if p := r.problem(t); r.status != 409 || p.Code != "idempotency_key_reused" {
		t.Errorf("other content = %d %s", r.status, r.body)
	}
	for name, r := range map[string]reply{
		"another tenant": w.do(http.MethodPost, "/v1/tenants/bolt/endpoints", w.b.write, body, onceKey, "k"),
		"another key":    w.do(http.MethodPost, acmeEndpoints, w.a.write, body, onceKey, "K"),
		"no key":         w.do(http.MethodPost, acmeEndpoints, w.a.write, body),
		"another route":  w.do(http.MethodPost, "/v1/tenants/acme/replays", w.a.write, `{"all":true}`, onceKey, "k"),
	} {
		if r.status != 201 || bytes.Equal(r.body, first.body) || r.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s = %d %s", name, r.status, r.body)
		}
	}
	id := first.text(t, "id")
	w.must(200, http.MethodPost, acmeEndpoints+"/"+id+"/pause", w.a.write, nil, onceKey, "p")
	other := w.endpoint(w.a, nil)
	if r := w.do(http.MethodPost, acmeEndpoints+"/"+other+"/pause", w.a.write, nil, onceKey, "p"); r.status != 409 {
		t.Errorf("the same key for another object = %d %s", r.status, r.body)
	}
	w.clock.pass(24 * time.Hour)
	if r := w.do(http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/c"}`, onceKey, "k"); r.status != 201 {
		t.Errorf("a day later = %d %s", r.status, r.body)
	}
	for name, headers := range map[string][]string{
		"empty": {onceKey, ""}, "too long": {onceKey, strings.Repeat("k", 256)}, "not ASCII": {onceKey, "é"}, "a space": {onceKey, "a b"}, "twice": {onceKey, "a", onceKey, "b"},
	} {
		r := w.do(http.MethodPost, acmeEndpoints, w.a.write, body, headers...)
		if p := r.problem(t); r.status != 400 || p.Code != "invalid_parameter" || p.paths()[0] != "header.Idempotency-Key" {
			t.Errorf("%s = %d %s", name, r.status, r.body)
		}
	}
}

func TestADryRunIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint(w.a, nil)
	w.must(200, http.MethodPost, "/v1/tenants/acme/replays", w.a.write, `{"all":true,"dry_run":true}`, onceKey, "k")
	w.must(201, http.MethodPost, "/v1/tenants/acme/replays", w.a.write, `{"all":true}`, onceKey, "k")
}

func TestManyRequestsUnderAKeyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 8
	replies := make([]reply, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			replies[i] = w.do(http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/"}`, onceKey, "k")
		})
	}
	all.Wait()
	first := 0
	for _, r := range replies {
		if r.status != 201 || !bytes.Equal(r.body, replies[0].body) {
			t.Errorf("%d %s", r.status, r.body)
		}
		if r.header.Get("Idempotency-Replayed") == "" {
			first++
		}
	}
	list, err := w.db.ListEndpoints(w.ctx(), w.a.tenant, store.Page{Limit: n})
	w.ok(err)
	if first != 1 || len(list) != 1 {
		t.Errorf("%d first answers, %d endpoints, want one", first, len(list))
	}
}

func TestAnAnswerThatIsLostIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.must(201, http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/"}`, onceKey, "k")
	kept, err := w.db.AnswerOf(w.ctx(), w.a.tenant, "POST /v1/tenants/{tenant}/endpoints", "k", w.clock.now())
	w.ok(err)
	w.ok(w.db.KeepAnswer(w.ctx(), kept.Claim, []byte("sealed with a key that is gone")))
	r := w.do(http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/"}`, onceKey, "k")
	if p := r.problem(t); r.status != 409 || p.Current != "carried_out" || !strings.Contains(p.Detail, first.text(t, "id")) {
		t.Errorf("%d %s", r.status, r.body)
	}
	// A claim whose answer never came, because the server ended: nothing is made twice.
	rec := w.record()
	claim := kept.Claim
	claim.Key, claim.Token = "half", w.id()
	rec.Claim, rec.Subject = &claim, hook.EndpointPrefix.Format(w.id())
	w.ok(w.db.WriteAudit(w.ctx(), rec))
	r = w.do(http.MethodPost, acmeEndpoints, w.a.write, `{"url":"https://example.com/"}`, onceKey, "half")
	if p := r.problem(t); r.status != 409 || p.Current != "carried_out" || !strings.Contains(p.Detail, rec.Subject) {
		t.Errorf("without an answer: %d %s", r.status, r.body)
	}
}
