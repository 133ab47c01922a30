package app_test

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// browser is somebody who is logged in to the dashboard.
type browser struct {
	*server
	client *http.Client
}

// logIn opens the dashboard with a key.
func (s *server) logIn(key string) *browser {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	b := &browser{s, &http.Client{Jar: jar}}
	if status, text := b.post("/ui/login", url.Values{"key": {key}}); status != http.StatusOK {
		s.t.Fatalf("log in = %d %s", status, text)
	}
	return b
}

func (b *browser) visit(method, path string, form url.Values) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func (b *browser) post(path string, form url.Values) (int, string) {
	b.t.Helper()
	return b.visit(http.MethodPost, path, form)
}

// page reads a page that must be there.
func (b *browser) page(path string) string {
	b.t.Helper()
	status, text := b.visit(http.MethodGet, path, nil)
	if status != http.StatusOK {
		b.t.Fatalf("%s = %d %s", path, status, text)
	}
	return text
}

// hiddenField returns the value of a hidden field of a page.
func hiddenField(t *testing.T, page, name string) string {
	t.Helper()
	found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no field %s", name)
	}
	return html.UnescapeString(found[1])
}

// quickly is an outage that costs next to nothing to play.
const quickly = "outage=30s&rate=2&capacity=4"

func TestPlaygroundShowsWhatItsAddressSays(t *testing.T) { //nolint:paralleltest // below
	b := logInAsAdmin(t)
	for name, tc := range map[string]struct {
		query string
		has   []string
		not   []string
	}{
		"as it opens": {"", []string{
			`<option value="default" selected>`, "as <code>default</code>", "From first to last attempt", "Simulated outage", "In numbers", "full-5&#43;hold",
			`name="retry.backoff.base"`, `<span class="k">preset</span>: <span class="n">default</span>`,
		}, []string{"retry.backoff.delays", "Not played", "class=\"err\""}},
		"a changed setting": {"preset=default&breaker.max_hold=1d", []string{"1 change from <code>default</code>", "# default: 3d", "apply?breaker.max_hold=1d&amp;preset=default"}, nil},
		"what the form has": {"preset=default&from=default&retry.max_attempts=8&retry.backoff.base=30s&breaker.max_hold=3d", []string{"as <code>default</code>"}, nil},
		"another preset takes changes along, and nothing else": {
			"preset=full-5&from=default&retry.max_attempts=8&breaker.max_hold=1d",
			[]string{"1 change from <code>full-5</code>", `name="retry.max_attempts" value="5"`},
			nil,
		},
		"another kind of waits": {"preset=default&from=default&retry.backoff.kind=schedule&retry.backoff.base=30s&retry.backoff.multiplier=3&retry.backoff.cap=6h", []string{
			`name="retry.backoff.delays" value="30s, 2m, 10m, 1h"`,
		}, []string{"class=\"err\"", `name="retry.backoff.base"`}},
		"a wrong setting":                {"preset=default&retry.backoff.cap=20s", []string{`value="20s"`, "6h is used", `aria-invalid="true"`, "Simulated outage"}, nil},
		"wrong settings without a field": {"classify.statuses.999=retry&retry_after.moon=1", []string{"Some settings are not used", "classify.statuses.999", "retry_after.moon"}, nil},
		"an unknown preset":              {"preset=moon", []string{"preset is not known", "as <code>default</code>"}, nil},
		"a setting without a field":      {"classify.statuses.409=success", []string{`<input type="hidden" name="classify.statuses.409" value="success">`, "409</span>: <span class=\"n\">success"}, nil},
		"YAML": {"yaml=" + url.QueryEscape("preset: full-5\nretry:\n  jitter: none\nclassify: {statuses: {409: success}}\nconcurrency: 7"), []string{
			"<option selected>none</option>", `name="concurrency.limit" value="7"`, "409", "changes from <code>full-5</code>",
		}, nil},
		"YAML that is none":             {"yaml=" + url.QueryEscape("retry: [") + "&preset=quick", []string{"is not valid YAML", "retry: [", "as <code>quick</code>"}, nil},
		"a text as YAML":                {"yaml=hello", []string{"must be an object"}, nil},
		"an outage":                     {quickly + "&destination=cliff&seed=9", []string{"seed 9", "one request too many", `value="30s"`}, []string{"Not played"}},
		"wrong outages":                 {"outage=soon&rate=x&capacity=4&seed=-1", []string{"5m is used", "must be a number", "1 is used"}, nil},
		"an outage that takes too long": {"outage=30m&rate=45", []string{"Not played"}, nil},
		"nothing to compare with":       {quickly + "&compare=none", []string{"In numbers"}, []string{"not compared", "does not go away"}},
		"the law with another preset":   {quickly + "&compare=law:quick", []string{"arrivals, law:quick"}, nil},
		"a schedule that is no preset":  {quickly + "&compare=exp-nojitter%2Bhold", []string{"arrivals, exp-nojitter+hold"}, nil},
		"markup in every field": {
			"preset=<script>x</script>&retry.max_elapsed=\"><script>x</script>&classify.statuses.<b>=1&outage=<script>&compare=<script>&yaml=" + url.QueryEscape("<script>x</script>: <script>"),
			nil,
			[]string{"<script>x", "<b>=", `value=""><`},
		},
	} {
		t.Run(name, func(t *testing.T) { // one after the other: the server plays one at a time
			query := tc.query
			if !strings.Contains(query, "outage=") {
				query = strings.TrimPrefix(query+"&"+quickly, "&")
			}
			page := b.page("/ui/playground?" + escaped(query))
			for _, want := range tc.has {
				if !strings.Contains(page, want) {
					t.Errorf("no %q", want)
				}
			}
			for _, not := range tc.not {
				if strings.Contains(page, not) {
					t.Errorf("there is %q", not)
				}
			}
		})
	}
}

// escaped is a query whose values may hold anything but & and =.
func escaped(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		pairs[i] = url.QueryEscape(name) + "=" + url.QueryEscape(value)
	}
	return strings.Join(pairs, "&")
}

// The link of a page shows the same page.
func TestPlaygroundLinkHoldsEverything(t *testing.T) {
	t.Parallel()
	b := logInAsAdmin(t)
	page := b.page("/ui/playground?preset=full-5&breaker.max_hold=1d&classify.statuses.409=success&destination=refuse&seed=4&" + quickly)
	found := regexp.MustCompile(`data-copy="([^"]*)" data-key`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("no link")
	}
	link, ok := strings.CutPrefix(html.UnescapeString(found[1]), b.url)
	if !ok {
		t.Fatalf("the link %s is not of this server", found[1])
	}
	inner := regexp.MustCompile(`(?s)<main.*</main>`)
	one, two := inner.FindString(page), inner.FindString(b.page(link))
	next := regexp.MustCompile(`name="next" value="[^"]*"`)
	if next.ReplaceAllString(one, "") != next.ReplaceAllString(two, "") {
		t.Error("the link shows another page")
	}
}

func TestPolicyIsAppliedToAnEndpoint(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	id := s.id(s.api(http.MethodPost, "/v1/tenants/default/endpoints",
		`{"url":"http://127.0.0.1:9999/","policy":{"preset":"full-5","breaker":{"max_hold":"12h","probe":{"min":"5s"}}}}`))
	b := s.logIn(s.key)
	const policy = "preset=default&breaker.max_hold=1d"
	if page := b.page("/ui/playground/apply?" + policy); !strings.Contains(page, id) {
		t.Error("the endpoint is not listed")
	}
	page := b.page("/ui/playground/apply?" + policy + "&endpoint=" + id)
	for _, want := range []string{"breaker.max_hold", "12h", "1d", "retry.max_attempts", "breaker.probe.min"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q among the changes", want)
		}
	}
	form := url.Values{}
	for _, name := range []string{"token", "endpoint", "level", "version"} {
		form.Set(name, hiddenField(t, page, name))
	}
	stolen := url.Values{"endpoint": form["endpoint"], "level": form["level"], "version": form["version"]}
	if status, _ := b.post("/ui/playground/apply", stolen); status != http.StatusForbidden {
		t.Errorf("without its token = %d", status)
	}
	b.post("/ui/playground/apply", form) // leads to the page of the endpoint
	var e struct{ Policy map[string]any }
	if err := json.Unmarshal([]byte(s.api(http.MethodGet, "/v1/tenants/default/endpoints/"+id, "")), &e); err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(e.Policy); string(text) != `{"breaker":{"max_hold":"1d"},"preset":"default"}` {
		t.Errorf("policy = %s", text)
	}
	if status, text := b.post("/ui/playground/apply", form); status != http.StatusConflict || !strings.Contains(text, "was changed since") {
		t.Errorf("a second time = %d", status)
	}
	if page := b.page("/ui/playground/apply?" + policy + "&endpoint=" + id); !strings.Contains(page, "Nothing changes") {
		t.Error("there is something left to change")
	}
}

func TestReadersPlayAndApplyNothing(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var key struct{ Key string }
	if err := json.Unmarshal([]byte(s.api(http.MethodPost, "/v1/keys", `{"name":"reader","scope":"tenant:read","tenant":"default"}`)), &key); err != nil {
		t.Fatal(err)
	}
	b := s.logIn(key.Key)
	if page := b.page("/ui/playground?" + quickly); strings.Contains(page, "Apply to endpoint") || !strings.Contains(page, "In numbers") {
		t.Error("a reader has the button, or no simulation")
	}
	if status, _ := b.visit(http.MethodGet, "/ui/playground/apply", nil); status != http.StatusNotFound {
		t.Errorf("a reader's apply page = %d", status)
	}
}

func logInAsAdmin(t *testing.T) *browser {
	t.Helper()
	s := startServer(t)
	return s.logIn(s.key)
}

func TestPolicyIsSavedByNameAndTriedAgain(t *testing.T) {
	t.Parallel()
	b := logInAsAdmin(t)
	const policy = "preset=full-5&breaker.max_hold=1d"
	if page := b.page("/ui/playground?" + policy + "&" + quickly); !strings.Contains(page, "/ui/playground/save?breaker.max_hold=1d&amp;preset=full-5") {
		t.Error("no way to save the policy")
	}
	save := func(query, name string, more ...string) (int, string) {
		form := url.Values{"token": {hiddenField(t, b.page("/ui/playground/save?"+query), "token")}, "name": {name}, "description": {"for <b>some</b>"}}
		for _, field := range more {
			form.Set(field, "yes")
		}
		return b.post("/ui/playground/save?"+query, form)
	}
	stored := func(name string) string {
		var p struct{ Policy json.RawMessage }
		if err := json.Unmarshal([]byte(b.api(http.MethodGet, "/v1/policies/"+name, "")), &p); err != nil {
			t.Fatal(err)
		}
		return string(p.Policy)
	}
	if status, page := save(policy, "gold"); status != http.StatusOK || !strings.Contains(page, `<option value="gold" selected>`) || strings.Contains(page, "<b>some") {
		t.Errorf("save = %d", status)
	}
	if got := stored("gold"); got != `{"breaker":{"max_hold":"1d"},"preset":"full-5"}` {
		t.Errorf("saved %s", got)
	}
	// What was tried from a named policy is saved with all that differs from its preset.
	if status, page := save("preset=gold&timeout.total=20s", "gold"); status != http.StatusUnprocessableEntity || !strings.Contains(page, "is in use; tick Replace") {
		t.Errorf("a name that is taken = %d", status)
	}
	if status, _ := save("preset=gold&timeout.total=20s", "gold", "replace"); status != http.StatusOK {
		t.Errorf("replace = %d", status)
	}
	if got := stored("gold"); got != `{"breaker":{"max_hold":"1d"},"preset":"full-5","timeout":{"total":"20s"}}` {
		t.Errorf("replaced by %s", got)
	}
	for name, want := range map[string]string{"quick": "is the name of a preset", "": "is required", "A b": "small letters, digits or -"} {
		if status, page := save(policy, name); status != http.StatusUnprocessableEntity || !strings.Contains(page, want) {
			t.Errorf("save as %q = %d", name, status)
		}
	}
	if status, _ := save(policy, "nobody", "replace"); status != http.StatusUnprocessableEntity {
		t.Errorf("replace of none = %d", status)
	}
	for page, want := range map[string]string{"/ui/endpoints/new": `<option value="gold">`, "/ui/settings/presets": "Saved by name"} {
		if !strings.Contains(b.page(page), want) {
			t.Errorf("%s does not offer the policy", page)
		}
	}
}
