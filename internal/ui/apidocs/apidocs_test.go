package apidocs_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui/apidocs"
)

// golden is the document that the server serves; a test of the API keeps it so.
const golden = "../../api/testdata/openapi.json"

func newPage(t *testing.T, document []byte) *apidocs.Page {
	t.Helper()
	p, err := apidocs.New(apidocs.Config{Document: document, Asset: func(name string) string { return "/ui/static/" + name }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ask(t *testing.T, p http.Handler, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return rec
}

// product returns the page of the product, and its document.
func product(t *testing.T) (page string, doc map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return ask(t, newPage(t, raw), http.MethodGet, "/docs").Body.String(), doc
}

func at(node any, names ...string) map[string]any {
	m, _ := node.(map[string]any)
	for _, name := range names {
		m, _ = m[name].(map[string]any)
	}
	return m
}

// section cuts the part of the page that has an id, up to the end of its details.
func section(t *testing.T, page, id string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, ` id="`+id+`"`)
	if !found {
		t.Fatalf("the page has nothing with id %s", id)
	}
	text, _, _ := strings.Cut(rest, "</details>")
	return html.UnescapeString(text)
}

// TestEverythingIsThere: every route with its words, scopes, parameters and answers,
// every schema with its members, and the examples.
func TestEverythingIsThere(t *testing.T) {
	t.Parallel()
	page, doc := product(t)
	plain := html.UnescapeString(strings.ReplaceAll(page, "<wbr>", ""))
	routes := 0
	for path, item := range at(doc, "paths") {
		for method, o := range at(item) {
			routes++
			op := at(o)
			text := section(t, page, fmt.Sprint(op["operationId"]))
			if want := `<span class="m ` + method + `">` + strings.ToUpper(method) + `</span> <code class="path">` + path + `</code>`; !strings.Contains(plain, want) {
				t.Errorf("%s %s is not listed", method, path)
			}
			wants := []string{strings.ReplaceAll(fmt.Sprint(op["summary"]), "`", "")}
			if !strings.Contains(plain, wants[0]) {
				t.Errorf("%s %s: no summary", method, path)
			}
			wants = wants[:0]
			params, _ := op["parameters"].([]any)
			for _, p := range params {
				wants = append(wants, "<code>"+fmt.Sprint(at(p)["name"])+"</code>")
			}
			scopes, _ := op["x-scopes"].([]any)
			for _, s := range scopes {
				wants = append(wants, fmt.Sprintf(`<span class="tag">%s</span>`, s))
			}
			for status := range at(op, "responses") {
				wants = append(wants, `<span class="status">`+status+`</span>`)
			}
			for media := range at(op, "requestBody", "content") {
				wants = append(wants, "<code>"+media+"</code>")
			}
			wants = append(wants, "curl -sS", "$URL"+strings.SplitN(path, "{", 2)[0])
			for _, want := range wants {
				if !strings.Contains(text, want) {
					t.Errorf("%s %s has no %s", method, path, want)
				}
			}
			if strings.Contains(text, `"$URL`+path+`"`) && strings.Contains(path, "{") {
				t.Errorf("%s %s: the example asks for a path with a placeholder", method, path)
			}
		}
	}
	if routes < 100 {
		t.Errorf("only %d routes", routes)
	}
	for name, s := range at(doc, "components", "schemas") {
		text := section(t, page, "schema-"+name)
		for member := range at(s, "properties") {
			if !strings.Contains(text, "<code>"+member+"</code>") {
				t.Errorf("schema %s has no %s", name, member)
			}
		}
		if at(s)["examples"] != nil && !strings.Contains(text, "<pre") {
			t.Errorf("schema %s has no example", name)
		}
	}
	for name := range at(doc, "components", "responses") {
		section(t, page, "answer-"+name)
	}
}

// TestLinksLeadSomewhere: what is linked inside the page is on it, once.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	page, _ := product(t)
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(` id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		ids[m[1]]++
	}
	for id, n := range ids {
		if n > 1 {
			t.Errorf("id %s is there %d times", id, n)
		}
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("a link leads to #%s, which is not there", m[1])
		}
	}
}

// TestNobodyElseIsAsked: whatever a browser loads or leads to by itself comes from
// this server, and the policy lets nothing else through.
func TestNobodyElseIsAsked(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	rec := ask(t, newPage(t, raw), http.MethodGet, "/docs")
	for _, m := range regexp.MustCompile(`\b(src|href|srcset|action|data|poster)="([^"]*)"`).FindAllStringSubmatch(rec.Body.String(), -1) {
		if !strings.HasPrefix(m[2], "#") && (!strings.HasPrefix(m[2], "/") || strings.HasPrefix(m[2], "//")) {
			t.Errorf("the page has %s=%q", m[1], m[2])
		}
	}
	for _, no := range []string{"<style", " style=", " onclick=", "<iframe", "<script>", "http-equiv"} {
		if strings.Contains(rec.Body.String(), no) {
			t.Errorf("the page has %s, which its policy forbids", no)
		}
	}
	policy := rec.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
		t.Errorf("policy %q is lax", policy)
	}
	if rec.Header().Get("X-Content-Type-Options") != "nosniff" || rec.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("headers %v", rec.Header())
	}
}

// TestHostileDocument: whatever the document has in it is text.
func TestHostileDocument(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>`
	raw, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var spoil func(any) any
	spoil = func(node any) any {
		switch n := node.(type) {
		case map[string]any:
			out := map[string]any{}
			for name, child := range n {
				out[name] = child
				if name != "$ref" && name != "type" && name != "in" {
					out[name] = spoil(child)
				}
			}
			return out
		case []any:
			for i := range n {
				n[i] = spoil(n[i])
			}
		case string:
			return n + "`" + evil + "`"
		}
		return node
	}
	raw, err = json.Marshal(spoil(doc))
	if err != nil {
		t.Fatal(err)
	}
	page := ask(t, newPage(t, raw), http.MethodGet, "/docs").Body.String()
	if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img") {
		t.Error("the page has markup of the document in it")
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)") {
		t.Error("the page does not show what the document says")
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	p := newPage(t, []byte(`{"info":{"title":"T"}}`))
	for name, tc := range map[string]struct {
		method, path, location string
		status                 int
	}{
		"page":            {http.MethodGet, "/docs", "", 200},
		"head":            {http.MethodHead, "/docs", "", 200},
		"with a slash":    {http.MethodGet, "/docs/", "/docs", 301},
		"something below": {http.MethodGet, "/docs/x", "", 404},
		"written to":      {http.MethodPost, "/docs", "", 405},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := ask(t, p, tc.method, tc.path)
			if rec.Code != tc.status || rec.Header().Get("Location") != tc.location || rec.Header().Get("Content-Security-Policy") == "" {
				t.Errorf("%s %s = %d %v, want %d to %q", tc.method, tc.path, rec.Code, rec.Header(), tc.status, tc.location)
			}
		})
	}
	if _, err := apidocs.New(apidocs.Config{Document: []byte("{"), Asset: func(string) string { return "" }}); err == nil {
		t.Error("New takes what is no JSON")
	}
}
