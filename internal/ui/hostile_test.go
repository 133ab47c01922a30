package ui_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// breaches are what a text of somebody else turns into when it gets through. A text
// that is escaped has none of these characters in this order.
var breaches = regexp.MustCompile(`(?i)<bwx|["'] onbwx=|<svg/onload|<img src=x|(?:href|src|action|formaction|data)\s*=\s*["']?\s*(?:javascript|vbscript|data:text)|srcdoc=|<script>|<iframe|<object|<embed|<base\b`)

// safe fails if a page has something that runs, or headers that would let it.
func safe(t *testing.T, where string, p *uitest.Page) {
	t.Helper()
	if p.Status >= 500 {
		t.Errorf("%s = %d\n%s", where, p.Status, p.Text())
	}
	for _, at := range breaches.FindAllStringIndex(p.Body, 3) {
		t.Errorf("%s has %q", where, p.Body[max(at[0]-80, 0):min(at[1]+80, len(p.Body))])
	}
	if n := strings.Count(p.Body, "<script"); n > 1 {
		t.Errorf("%s has %d scripts", where, n)
	}
	policy := p.Header.Get("Content-Security-Policy")
	for _, bad := range []string{"unsafe", "*", "script-src 'self' "} {
		if policy == "" || strings.Contains(policy, bad) {
			t.Errorf("%s: the policy is %q", where, policy)
		}
	}
	if strings.HasPrefix(p.Header.Get("Content-Type"), "text/html") && !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("%s may be shown in a frame: %q", where, policy)
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"} {
		if got := p.Header.Get(name); got != want {
			t.Errorf("%s: %s is %q", where, name, got)
		}
	}
}

func TestNothingThatOthersWroteRuns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	tabs := []string{"", "?tab=request", "?tab=response", "?tab=why", "?tab=policy", "?tab=deliveries", "?tab=alerts", "?tab=audit", "?tab=config", "?tab=attempts", "?tab=raw", "?tab=curl"}
	for name, b := range s.who() {
		for _, p := range pages() {
			for _, tab := range tabs {
				if tab != "" && !strings.HasSuffix(p.Path, "}") {
					continue
				}
				path := s.path(p.Path) + tab
				safe(t, name+": "+path, b.Send(http.MethodGet, path, nil))
			}
		}
		for _, d := range downloads() {
			path := s.path(d.Path)
			p := b.Open(path)
			if p.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.HasPrefix(p.Header.Get("Content-Disposition"), "attachment; filename=") ||
				p.Header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(p.Header.Get("Content-Security-Policy"), "sandbox") {
				t.Errorf("%s: %v", path, p.Header)
			}
			if written := p.Body + decoded(p.Body); !strings.Contains(written, "<bwx>") && !strings.Contains(written, `\u003cbwx`) {
				t.Errorf("%s is not what was written: %s", path, p.Body)
			}
		}
	}
}

// decoded is the body of a command that gives it in base64, empty for another one.
func decoded(command string) string {
	text, found := strings.CutPrefix(command, "printf %s '")
	if !found {
		return ""
	}
	text, _, _ = strings.Cut(text, "'")
	body, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

func TestNothingInAnAddressRuns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	names := []string{
		"q", "tenant", "status", "type", "endpoint", "event", "reason", "since", "until", "cursor", "window", "tab", "sort", "order", "rule", "severity", "action", "subject",
		"actor", "preset", "group", "state", "policy", "id", "delivery_ids", "next", "note", "attempt",
	}
	b := s.Login(s.Admin)
	all, drawn := append([]string{"\x00<bwx>", "\xff\xfe<bwx>"}, vectors...), 0
	for _, p := range pages() {
		const rounds = 5 // not all names at once: the first that is refused hides the others
		for round := range rounds {
			q := url.Values{}
			for i := round; i < len(names); i += rounds {
				q.Set(names[i], all[(i+drawn)%len(all)])
				drawn++
			}
			path := s.path(p.Path) + "?" + q.Encode()
			safe(t, path, b.Send(http.MethodGet, path, nil))
		}
		if before, rest, found := strings.Cut(p.Path, "{"); found {
			_, after, _ := strings.Cut(rest, "}")
			for _, vector := range []string{vectors[1], all[drawn%len(all)], hostile} {
				path := before + url.PathEscape(vector) + after
				page := b.Send(http.MethodGet, path, nil)
				safe(t, path, page)
				if page.Status == http.StatusOK {
					t.Errorf("%s is there", path)
				}
			}
		}
	}
}

func TestNothingThatIsTypedRuns(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.Login(s.Admin)
	for _, a := range actions() {
		form := s.form()
		for name := range form {
			if name != "endpoint" {
				form.Set(name, hostile)
			}
		}
		for _, name := range []string{"description", "headers", "metadata", "policy", "uid", "expires_at", "email", "to", "rules", "severities", "max_multiple", "since", "until"} {
			form.Set(name, hostile)
		}
		p := b.Post(s.path(a.Path), form)
		safe(t, a.Path, p)
		if to := p.Header.Get("Location"); p.Status == http.StatusSeeOther {
			safe(t, to, b.Send(http.MethodGet, to, nil))
		}
	}
	form := url.Values{"key": {hostile}, "next": {hostile}}
	safe(t, "/ui/login", s.Browser().Send(http.MethodPost, "/ui/login", form))
	safe(t, "/ui/login", s.Browser().Send(http.MethodGet, "/ui/login?"+form.Encode(), nil))
}

func TestNothingInACookieRunsOrLeadsAway(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.Login(s.Admin)
	for _, link := range append([]string{
		"https://evil.example/", "//evil.example/", `/\evil.example`, `/ui\..\\evil.example`, "javascript:bwx=1", "data:text/html,<bwx>", "/ui\r\nX: y", "ui", "/v1/me", " /ui", "/uix",
	}, vectors...) {
		text := `{"t":` + quote(link+hostile[:400]) + `,"l":` + quote(link) + `,"n":` + quote(hostile[:200]) + `}`
		b.Keep(&http.Cookie{Name: "bw_note", Value: base64.RawURLEncoding.EncodeToString([]byte(text))})
		b.Keep(&http.Cookie{Name: "bw_theme", Value: `dark"onbwx=1`})
		p := b.Open("/ui")
		safe(t, "note "+link, p)
		p.Says("Overview")
		_, note, _ := strings.Cut(p.Body, `class="toast"`)
		note, _, _ = strings.Cut(note, "</div>")
		if strings.Contains(note, "<a ") {
			t.Errorf("the note leads to %s: %s", link, note)
		}
	}
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", `\r`, "\n", `\n`).Replace(s) + `"`
}

func TestNobodyIsLedAway(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, next := range append([]string{
		"https://evil.example/", "//evil.example/", `/\evil.example`, `\\evil.example`, "/ui/..//evil.example", "/ui/../../evil.example", "/ui\t//evil.example", "/ui@evil.example",
		"http:evil.example", "javascript:bwx=1", "/ui/%2e%2e//evil.example", "/ui\r\nLocation: https://evil.example", "/v1/me", "/uix", "", "/ui/login?next=//evil.example",
	}, vectors...) {
		form := url.Values{"key": {s.Admin}, "next": {next}, "theme": {"dark"}}
		for _, path := range []string{"/ui/login", "/ui/theme"} {
			p := s.Browser().Send(http.MethodPost, path, form)
			to := p.Header.Get("Location")
			u, err := url.Parse(to)
			if p.Status != http.StatusSeeOther || err != nil || u.IsAbs() || u.Host != "" || to != "/ui" && !strings.HasPrefix(to, "/ui/") && !strings.HasPrefix(to, "/ui?") {
				t.Errorf("%s with next=%q leads to %d %q", path, next, p.Status, to)
			}
		}
	}
}

func TestOddRequestsAreAnsweredQuietly(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.Login(s.Admin)
	for _, path := range []string{
		"/ui/", "/ui//", "/ui/../v1/me", "/ui/..%2f..%2fv1/me", "/ui/%2e%2e/v1/me", "/ui/./endpoints", "/ui/endpoints/..", "/ui/endpoints/%2e%2e", "/ui/endpoints/%2e", "/ui/endpoints/a%2fb", "/ui/endpoints/%2f%2fevil.example",
		"/ui/endpoints/..%2fmain", "/ui/endpoints/main%2fsecret", "/ui/endpoints/%00", "/ui/endpoints/%ff%fe", "/ui/endpoints/%E2%80%AE", "/ui/endpoints/-", "/ui/deliveries/-", "/ui/deliveries/%3f", "/ui/deliveries/%23",
		"/ui/events/%2e%2e/payload", "/ui/deliveries/-/attempts/-1/response", "/ui/deliveries/-/attempts/99999999999999999999/response", "/ui/tenants/-", "/ui/tenants/%2e%2e", "/ui/static/", "/ui/static/../ui.go",
		"/ui/static/%2e%2e/ui.go", "/ui/portal", "/ui/portal?link=" + strings.Repeat("A", 9000), "/ui/brand.css?v=" + hostile[:20], "/ui//evil.example/", "/ui/" + strings.Repeat("x/", 500),
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodTrace, "PROPFIND"} {
			u, err := url.ParseRequestURI(path)
			if err != nil {
				continue
			}
			p := b.Send(method, u.RequestURI(), url.Values{"token": {"x"}})
			if p.Status >= 500 || p.Status == http.StatusOK && method != http.MethodGet && method != http.MethodHead {
				t.Errorf("%s %s = %d", method, path, p.Status)
			}
			if to := p.Header.Get("Location"); to != "" && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//")) {
				t.Errorf("%s %s leads to %s", method, path, to)
			}
			if strings.Contains(p.Body, "whsec_") || strings.Contains(p.Body, "package ui") {
				t.Errorf("%s %s tells a secret", method, path)
			}
		}
	}
	for _, a := range actions() {
		form := s.form()
		form.Set("note", strings.Repeat("n", 300<<10))
		if p := b.Post(s.path(a.Path), form); p.Status != http.StatusBadRequest {
			t.Errorf("%s with 300 KiB = %d", a.Path, p.Status)
		}
		form = s.form()
		for _, name := range []string{"note", "name", "url", "types", "delivery_ids"} {
			form.Set(name, strings.Repeat("n\n", 40<<10))
		}
		if p := b.Post(s.path(a.Path), form); p.Status >= 500 {
			t.Errorf("%s with long fields = %d", a.Path, p.Status)
		}
	}
	for _, bad := range []string{"panicked", "template failed", "page failed"} {
		if strings.Contains(s.Log.String(), bad) {
			t.Errorf("the log says %q:\n%s", bad, s.Log.String())
		}
	}
}
