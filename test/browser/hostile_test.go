package browser_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
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

func TestNothingThatOthersWroteRuns(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.status.Store(http.StatusUnprocessableEntity)
	h.text.Store(hostile)
	var endpoint, event, channel, key, link struct{ ID, Key, URL string }
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/default/endpoints", map[string]any{
		"url": h.to + "/" + url.PathEscape(vectors[1]) + "?q='" + url.QueryEscape(vectors[2]), "description": hostile[:400], "metadata": map[string]string{"note": vectors[1]},
		"headers": map[string]string{"X-Evil": vectors[1]},
	}, &endpoint)
	h.call(http.StatusAccepted, http.MethodPost, "/v1/tenants/default/events", map[string]any{"type": "order.paid", "payload": map[string]any{"note": hostile, vectors[1]: vectors[3]}}, &event)
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/default/alert-channels", map[string]any{"name": vectors[1], "kind": "webhook", "url": h.to}, &channel)
	h.call(http.StatusCreated, http.MethodPost, "/v1/keys", map[string]any{"name": vectors[2], "scope": "tenant:write", "tenant": "default"}, &key)
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/default/portal-links", map[string]any{}, &link)
	var dead struct{ Data []struct{ ID string } }
	operator, tenant, visitor := open(t, h.url, desk), open(t, h.url, night), open(t, h.url, phone)
	operator.login(program.AdminKey)
	tenant.login(key.Key)
	at, err := url.Parse(link.URL)
	if err != nil {
		t.Fatal(err)
	}
	visitor.do("open the link", chromedp.Navigate(h.url+at.RequestURI()))
	visitor.eventually("the portal opens", func() bool { return visitor.path() == "/ui" })
	operator.eventually("the delivery is dead", func() bool {
		h.call(http.StatusOK, http.MethodGet, "/v1/tenants/default/dead-letters", nil, &dead)
		return len(dead.Data) > 0
	})
	h.call(http.StatusOK, http.MethodPost, "/v1/tenants/default/endpoints/"+endpoint.ID+"/pause", map[string]any{"note": hostile[:400]}, nil)

	ep, dlv := "/ui/endpoints/"+endpoint.ID, "/ui/deliveries/"+dead.Data[0].ID
	all := []string{
		"/ui", "/ui/endpoints", ep, ep + "?tab=policy", ep + "?tab=audit", ep + "/edit", ep + "/delete", "/ui/deliveries", dlv, dlv + "?tab=response", dlv + "?tab=request", dlv + "?tab=why", dlv + "/redeliver",
		"/ui/events", "/ui/events/" + event.ID, "/ui/dead-letters", "/ui/replays", "/ui/replays/new?endpoint=" + endpoint.ID, "/ui/alerts", "/ui/alerts/channels", "/ui/alerts/channels/" + channel.ID,
		"/ui/find?q=" + url.QueryEscape(hostile[:400]), "/ui/deliveries?type=" + url.QueryEscape(vectors[1]) + "&status=" + url.QueryEscape(vectors[3]),
	}
	inside := []string{"/ui/settings/audit", "/ui/playground?policy=" + url.QueryEscape(vectors[7])}
	for name, of := range map[string]struct {
		b     *tab
		paths []string
	}{
		"operator": {operator, append(append([]string{"/ui/settings/keys", "/ui/settings", "/ui/settings/config"}, inside...), all...)},
		"tenant":   {tenant, append(inside, all...)},
		"visitor":  {visitor, all},
	} {
		t.Run(name, func(t *testing.T) {
			b := of.b.in(t)
			for _, path := range of.paths {
				note := base64.RawURLEncoding.EncodeToString([]byte(`{"t":"\"><img src=x onerror=bwx=1>","l":"javascript:bwx=1","n":"x"}`))
				b.do("leave a note", command(network.SetCookie, network.SetCookieParams{Name: "bw_note", Value: note, URL: h.url + "/ui"}))
				b.visit(path)
				if ran := get(b, "look", chromedp.Evaluate[bool](`window.bwx !== undefined || document.querySelector("main img, main iframe, main base, main script, [onfocus], [onerror], [onload], [href^='javascript:'], [href^='data:']") !== null`)); ran {
					t.Errorf("%s: something of somebody else runs or could", path)
				}
				if name == "visitor" {
					b.checkWidth(path, 390, 320)
					b.show(phone)
				}
			}
		})
	}
}
