package browser_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/breakwaterhq/breakwater/test/program"
)

// vectors are what somebody types who wants others to run it. Any that runs sets bwx, or
// is stopped by the browser, which the tab takes for trouble.
var vectors = []string{
	`<script>bwx=1</script>`, `"><img src=x onerror=bwx=1>`, `'><svg onload=bwx=1>`, `" onfocus="bwx=1" autofocus="`, `' onfocus='bwx=1' autofocus='`,
	"` onfocus=`bwx=1`", `</script><script>bwx=1</script>`, `</title></textarea></style></template><script>bwx=1</script>`, `<!--><img src=x onerror=bwx=1>-->`,
	`<math><mtext><table><mglyph><style><img src=x onerror=bwx=1>`, `{{.Token}}`, `${bwx=1}`, `&lt;script&gt;bwx=1&lt;/script&gt;`, "\u202etfel\u202c \u2066\u200b\u2028",
	`javascript:bwx=1`, `data:text/html,<script>bwx=1</script>`, `+ADw-script+AD4-bwx=1+ADw-/script+AD4-`, `%3Cscript%3Ebwx=1%3C/script%3E`,
	`<iframe srcdoc="<script>parent.bwx=1</script>">`, `<a href=javascript:bwx=1 id=main>x</a>`, `<base href=//evil.example/>`, `<meta http-equiv=refresh content="0;url=javascript:bwx=1">`,
	strings.Repeat("W", 120),
}

var hostile = strings.Join(vectors, " ")

// short is one of them without a blank, for what may have none.
const short = `"><svg/onload=bwx=1>`

// image is a logo that would do what an image must not.
const image = `<svg xmlns="http://www.w3.org/2000/svg" onload="bwx=1"><script>bwx=1;top.bwx=1</script><image href="https://evil.example/x"/><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="javascript:bwx=1"/></foreignObject></svg>`

// newRude starts a destination that speaks HTTP badly, by path: its words become errors.
func newRude(t *testing.T) string {
	t.Helper()
	plain := strings.Map(printable, hostile)
	raw := map[string]string{
		"/broken": plain + "\r\n\r\n",
		"/phrase": "HTTP/1.1 422 " + plain + "\r\nContent-Length: 0\r\n\r\n",
		"/header": "HTTP/1.1 422 no\r\n" + short + ": " + plain + "\r\n\r\n",
		"/length": "HTTP/1.1 200 ok\r\nContent-Length: " + plain + "\r\n\r\n",
		"/moved":  "HTTP/1.1 302 moved\r\nLocation: javascript:" + plain + "\r\nServer: " + plain + "\r\nContent-Type: " + plain + "\r\nContent-Length: 0\r\n\r\n",
		"/later":  "HTTP/1.1 503 no\r\nRetry-After: " + plain + "\r\nContent-Length: 0\r\n\r\n",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte(raw[r.URL.Path]))
		_ = c.Close()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// written is where what others wrote is shown.
type written struct {
	endpoint, event, channel, key, link, replay string
	deliveries                                  []string
}

// write leaves vectors wherever somebody else may leave a text.
func (h *house) write() (w written) {
	h.t.Helper()
	h.status.Store(http.StatusUnprocessableEntity)
	h.text.Store(hostile)
	var made struct{ ID, Key, URL string }
	evil := http.Header{"X-Request-Id": {vectors[1]}, "User-Agent": {vectors[1]}, "X-Forwarded-For": {short}, "Referer": {vectors[1]}}
	post := func(status int, path string, body any) {
		h.t.Helper()
		made.ID = ""
		h.callAs(program.AdminKey, evil, status, http.MethodPost, path, body, &made)
	}
	const at = "/v1/tenants/default"
	post(http.StatusCreated, "/v1/tenants", map[string]any{"uid": "evil", "name": vectors[1]})
	rude := newRude(h.t)
	for _, path := range []string{"broken", "phrase", "header", "length", "moved", "later"} {
		post(http.StatusCreated, at+"/endpoints", map[string]any{"url": rude + "/" + path, "uid": path, "description": vectors[2]})
	}
	post(http.StatusCreated, at+"/endpoints", map[string]any{
		"url": h.to + "/" + url.PathEscape(vectors[1]) + "?q='" + url.QueryEscape(vectors[2]), "description": hostile[:400], "metadata": map[string]string{"note": vectors[1]},
		"headers": map[string]string{"X-Evil": vectors[1]},
	})
	w.endpoint = made.ID
	post(http.StatusAccepted, at+"/events", map[string]any{"type": "text.html", "payload_base64": []byte("<script>bwx=1</script>"), "content_type": `text/html; a="` + vectors[10] + `<img src=x onerror=bwx=1>"`})
	evil.Set("Idempotency-Key", short)
	post(http.StatusAccepted, at+"/events", map[string]any{"type": "order.paid", "payload": map[string]any{"note": hostile, vectors[1]: vectors[3]}})
	evil.Del("Idempotency-Key")
	w.event = made.ID
	for _, kind := range []string{vectors[0], short, "a.<b>"} { // nothing but letters, digits and a few signs
		h.callAs(program.AdminKey, evil, http.StatusUnprocessableEntity, http.MethodPost, at+"/events", map[string]any{"type": kind, "payload": 1}, nil)
	}
	post(http.StatusCreated, at+"/alert-channels", map[string]any{"name": vectors[1], "kind": "webhook", "url": h.to})
	w.channel = made.ID
	post(http.StatusCreated, "/v1/keys", map[string]any{"name": vectors[2], "scope": "tenant:write", "tenant": "default"})
	w.key = made.Key
	post(http.StatusCreated, at+"/portal-links", map[string]any{})
	w.link = made.URL

	await(h.t, "everything was tried once", func() bool {
		var all struct {
			Data []struct {
				ID       string
				Attempts int
			}
		}
		h.call(http.StatusOK, http.MethodGet, at+"/deliveries?event="+w.event, nil, &all)
		w.deliveries = nil
		for _, d := range all.Data {
			if d.Attempts > 0 {
				w.deliveries = append(w.deliveries, d.ID)
			}
		}
		return len(w.deliveries) == 7
	})
	post(http.StatusOK, at+"/endpoints/"+w.endpoint+"/pause", map[string]any{"note": hostile[:400]})
	post(http.StatusCreated, at+"/replays", map[string]any{"endpoint": w.endpoint})
	w.replay = made.ID
	return w
}

// pages are those that show it; some are not for visitors of the portal, some for operators
// only. Operators look at what everybody would see alike.
func (w *written) pages() (all, inside, operator []string) {
	ep := "/ui/endpoints/" + w.endpoint
	all = []string{
		"/ui", "/ui/endpoints", ep, ep + "?tab=policy", ep + "?tab=audit", ep + "/edit", ep + "/delete", "/ui/deliveries", "/ui/events", "/ui/events/" + w.event,
		"/ui/dead-letters?group=all", "/ui/replays", "/ui/replays/" + w.replay, "/ui/replays/new?endpoint=" + w.endpoint, "/ui/alerts", "/ui/alerts/channels", "/ui/alerts/channels/" + w.channel,
		"/ui/find?q=" + url.QueryEscape(hostile[:400]), "/ui/find?q=" + url.QueryEscape(short), "/ui/events?q=" + url.QueryEscape(short),
		"/ui/deliveries?type=" + url.QueryEscape(vectors[1]) + "&status=" + url.QueryEscape(vectors[3]), "/ui/deliveries/" + w.deliveries[0] + "/redeliver",
	}
	all = append(all, "/ui/deliveries/"+w.deliveries[0], "/ui/deliveries/"+w.deliveries[0]+"?tab=request")
	inside = []string{"/ui/settings/audit", "/ui/playground?policy=" + url.QueryEscape(vectors[7])}
	operator = []string{"/ui/settings/keys", "/ui/settings", "/ui/settings/config", "/ui/tenants", "/ui/tenants/evil", "/ui/tenants/evil/edit", "/ui?tenant=evil"}
	for _, id := range w.deliveries[1:] {
		operator = append(operator, "/ui/deliveries/"+id)
	}
	return all, inside, operator
}

func TestNothingThatOthersWroteRuns(t *testing.T) {
	t.Parallel()
	logo := "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(image))
	h := newHouse(t, "--ui-vendor-name", vectors[1]+vectors[2], "--ui-vendor-logo", logo, "--ui-vendor-color", "#ff00aa")
	w := h.write()
	operator, tenant, visitor := open(t, h.url, desk), open(t, h.url, night), open(t, h.url, phone)
	operator.login(program.AdminKey)
	tenant.login(w.key)
	at, err := url.Parse(w.link)
	if err != nil {
		t.Fatal(err)
	}
	visitor.do("open the link", chromedp.Navigate(h.url+at.RequestURI()))
	visitor.eventually("the portal opens", func() bool { return visitor.path() == "/ui" && visitor.has("nav .brand") })
	if brand := get(visitor, "read the vendor", chromedp.Evaluate[string](`document.querySelector("nav .brand").textContent.trim()`)); brand != vectors[1]+vectors[2] || !visitor.has("nav .brand img.logo") {
		t.Errorf("the vendor is called %q", brand)
	}
	all, inside, above := w.pages()
	for b, paths := range map[*tab][]string{
		operator: slices.Concat(above, inside, all), tenant: slices.Concat(inside, all), visitor: all,
	} {
		for _, path := range paths {
			b.visit(path)
			b.nothingRan(path)
			if b == visitor {
				b.checkWidth(path, 390, 320)
				b.show(phone)
			}
		}
	}
	operator.again("/ui/alerts", "Ack")
	operator.follow("main tr a[href*='/ui/alerts/alr_']")
	id, _, _ := strings.Cut(strings.TrimPrefix(operator.path(), "/ui/alerts/"), "?")
	h.call(http.StatusOK, http.MethodPost, "/v1/alerts/"+id+"/ack", map[string]any{"note": hostile[:400]}, nil)
	operator.visit(operator.path())
	operator.says("bwx")
	operator.nothingRan(operator.path())
}

// nothingRan fails if the page has done, or could do, what somebody else wrote. The next
// one gets a note from elsewhere.
func (b *tab) nothingRan(path string) {
	b.t.Helper()
	if get(b, "look", chromedp.Evaluate[bool](`window.bwx !== undefined || document.querySelector("main img, main iframe, main base, main script, [onfocus], [onerror], [onload], [href^='javascript:'], [href^='data:']") !== null`)) {
		b.t.Errorf("%s: something of somebody else runs or could", path)
	}
	note := base64.RawURLEncoding.EncodeToString([]byte(`{"t":"\"><img src=x onerror=bwx=1>","l":"javascript:bwx=1","n":"x"}`))
	b.do("leave a note", command(network.SetCookie, network.SetCookieParams{Name: "bw_note", Value: note, URL: b.base + "/ui"}))
}

// TestVendorsThatWouldChangeThePageAreRefused: these settings become parts of a header and
// of a style sheet.
func TestVendorsThatWouldChangeThePageAreRefused(t *testing.T) {
	t.Parallel()
	needBrowser(t)
	for setting, values := range map[string][]string{
		"--ui-vendor-name":     {"a\nb", strings.Repeat("x", 65)},
		"--ui-vendor-color":    {"#000;}*{background:url(//evil.example)}", "red", "#12345g"},
		"--ui-vendor-logo":     {"javascript:bwx=1", "data:text/html;base64,PHNjcmlwdD4=", "https://a.example/;script-src *", "http://a.example/x.png", `https://a.example/"onerror=bwx=1`},
		"--ui-frame-ancestors": {"*", "https://a.example;script-src *", "https://a.example/path"},
	} {
		for _, value := range values {
			var log program.Log
			p, err := program.Serve(&program.Options{Binary: binary, Dir: t.TempDir(), Listen: program.Address(), Args: []string{setting, value}, Log: &log})
			if err == nil {
				_ = p.Cmd.Process.Kill()
				<-p.Done
				t.Errorf("%s %q is taken", setting, value)
			} else if said := log.String(); !strings.Contains(said, strings.TrimPrefix(setting, "--")) && !strings.Contains(said, strings.ReplaceAll(strings.TrimPrefix(setting, "--ui-"), "-", "_")) {
				t.Errorf("%s %q: it says %q", setting, value, said)
			}
		}
	}
}
