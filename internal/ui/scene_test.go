package ui_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ui"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

// vectors are what somebody types who wants others to run it. The names bwx and onbwx
// tell where one of them got through.
var vectors = []string{
	`<bwx><script>bwx=1</script>`,
	`"><bwx onbwx="bwx=1">`,
	`'><bwx onbwx='bwx=1'>`,
	`" onbwx="bwx=1" autofocus="`,
	`' onbwx='bwx=1' autofocus='`,
	"` onbwx=`bwx=1`",
	`</script><bwx>`,
	`</title></textarea></style></template><bwx>`,
	`<!--<bwx>--><bwx>`,
	`<svg/onload=bwx=1><bwx/></svg>`,
	`<img src=x onerror=bwx=1><bwx>`,
	`<math><mtext><table><mglyph><style><bwx>`,
	`{{.Token}}<bwx>{{template "top"}}`,
	`${bwx=1}#{bwx=1}<bwx>`,
	`&lt;bwx&gt;<bwx>&#60;bwx&#62;`,
	"\u202egnp.<bwx>\u202c\u2066\u200b",
	"\u2028\u2029<bwx>\u0085",
	`javascript:bwx=1//<bwx>`,
	`data:text/html,<bwx>`,
	`+ADw-bwx+AD4-<bwx>`,
	`%3Cbwx%3E<bwx>%22%20onbwx=`,
	strings.Repeat("W", 300) + `<bwx>`,
}

// hostile is all of them in one text.
var hostile = strings.Join(vectors, " ")

// scene is a world in which the customer acme has one of everything, with names and
// texts that want to be run.
type scene struct {
	*uitest.World

	at map[string]string // what stands for a part of a path, by the path up to it
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{World: uitest.New(t), at: map[string]string{}}
	short := func(i, n int) string { return vectors[i][:min(n, len(vectors[i]))] }
	endpoint := s.Endpoint(s.Acme, map[string]any{
		"uid": "main", "url": "https://hooks.example.com/in?q=" + url.QueryEscape(vectors[1]) + "&r='x", "description": hostile[:200],
		"metadata": map[string]string{"note": short(1, 100)}, "headers": map[string]string{"X-Evil": vectors[3]},
	})
	for range 2 {
		s.Event(s.Acme, "order.paid", map[string]any{"note": hostile, vectors[1]: vectors[3]})
	}
	rows := s.Deliveries(s.Acme)
	dead := s.Settle(rows[0], hook.Dead, hook.DeadExhausted, func(_ *hook.Delivery, a *hook.Attempt) {
		a.Excerpt, a.Error = []byte(hostile), hostile
		a.Detail.ResponseHeaders = map[string][]string{"X-Evil": {hostile}, vectors[3]: {vectors[4]}, "Content-Type": {"text/html"}}
		a.Detail.RequestHeaders = map[string][]string{"Webhook-Id": {vectors[1]}, vectors[1]: {hostile}}
		a.Detail.URL = "https://hooks.example.com/" + hostile
	})
	s.Settle(rows[1], hook.Pending, 0, func(_ *hook.Delivery, a *hook.Attempt) { a.Excerpt, a.Error = []byte(vectors[0]), vectors[1] })
	id, err := hook.EndpointPrefix.Parse(endpoint)
	s.OK(err)
	alert := s.Alert("retry_storm", hook.AlertSubject{Tenant: s.Acme.ID, Endpoint: id}, func(a *hook.Alert) { a.Summary = hostile })
	s.Call(http.StatusOK, http.MethodPost, "/v1/alerts/"+alert+"/ack", s.Acme.Write, map[string]any{"note": hostile[:400]}, nil)
	s.Call(http.StatusOK, http.MethodPost, "/v1/tenants/acme/endpoints/main/pause", s.Acme.Write, map[string]any{"note": hostile[:400]}, nil)
	var made struct{ ID string }
	s.Call(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/alert-channels", s.Acme.Write, map[string]any{
		"name": short(1, 60), "kind": "webhook", "url": "https://hooks.example.com/" + url.PathEscape(vectors[1]),
	}, &made)
	channel := made.ID
	s.Call(http.StatusCreated, http.MethodPost, "/v1/keys", s.Admin, map[string]any{"name": short(1, 60), "scope": "tenant:read", "tenant": "acme"}, &made)
	key := made.ID
	s.Call(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/replays", s.Acme.Write, map[string]any{"endpoint": "main"}, &made)
	s.Call(http.StatusOK, http.MethodPatch, "/v1/tenants/acme", s.Admin, map[string]any{"name": short(0, 60)}, nil)
	s.at = map[string]string{
		"/ui/endpoints/": endpoint, "/ui/deliveries/": hook.DeliveryPrefix.Format(dead.ID), "/ui/events/": hook.EventPrefix.Format(dead.EventID),
		"/ui/alerts/": alert, "/ui/alerts/channels/": channel, "/ui/settings/keys/": key, "/ui/replays/": made.ID, "/ui/tenants/": s.Acme.Text,
	}
	return s
}

// path puts what acme has into the pattern of an address.
func (s *scene) path(pattern string) string {
	s.T.Helper()
	before, rest, found := strings.Cut(pattern, "{")
	if !found {
		return pattern
	}
	_, after, _ := strings.Cut(rest, "}")
	id := s.at[before]
	if id == "" {
		s.T.Fatalf("%s: the scene has nothing to put there", pattern)
	}
	return strings.ReplaceAll(before+id+after, "{number}", "1")
}

// form has a field for everything that a form of these pages could name.
func (s *scene) form() url.Values {
	return url.Values{
		"url": {"https://hooks.example.com/new"}, "types": {"*"}, "name": {"new"}, "kind": {"webhook"}, "scope": {"tenant:read"}, "of": {"acme"}, "ttl": {"1h"},
		"endpoint": {s.at["/ui/endpoints/"]}, "delivery_ids": {s.at["/ui/deliveries/"]}, "level": {`{}`}, "version": {"1"}, "per_minute": {"60"}, "all": {"true"},
		"expect_count": {"1"}, "count": {"1"}, "typed": {"1"}, "status": {"dead"}, "note": {"n"},
	}
}

// state is all that acme has, as the API tells it, with what was done to it.
func (s *scene) state() string {
	s.T.Helper()
	var b strings.Builder
	for _, part := range []string{"endpoints", "deliveries", "events", "alerts", "replays", "dead-letters", "alert-channels", "audit"} {
		r := httptest.NewRequestWithContext(s.T.Context(), http.MethodGet, "/v1/tenants/acme/"+part, nil)
		r.Header.Set("Authorization", "Bearer "+s.Acme.Write)
		rec := httptest.NewRecorder()
		s.API.Handler().ServeHTTP(rec, r)
		if rec.Code != http.StatusOK {
			s.T.Fatalf("%s = %d %s", part, rec.Code, rec.Body)
		}
		b.WriteString(part + rec.Body.String() + "\n")
	}
	return b.String()
}

// unchanged fails if acme is not as before.
func (s *scene) unchanged(before string) {
	s.T.Helper()
	if after := s.state(); after != before {
		s.T.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
}

// guest opens the portal of acme.
func (s *scene) guest(scope string) *uitest.Browser {
	s.T.Helper()
	var link struct{ URL string }
	s.Call(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/portal-links", s.Admin, map[string]any{"scope": scope, "ttl": "1h"}, &link)
	u, err := url.Parse(link.URL)
	s.OK(err)
	b := s.Browser()
	b.Open(u.RequestURI())
	return b
}

// who are the kinds of people who see acme.
func (s *scene) who() map[string]*uitest.Browser {
	return map[string]*uitest.Browser{
		"operator": s.Login(s.Admin), "reading operator": s.Login(s.AdminRead), "tenant": s.Login(s.Acme.Write), "reading tenant": s.Login(s.Acme.Read),
		"visitor": s.guest("tenant:write"), "reading visitor": s.guest("tenant:read"),
	}
}

func pages() []site.Page {
	var out []site.Page
	for _, s := range ui.Sections() {
		out = append(out, s.Pages...)
	}
	return out
}

func actions() []site.Action {
	var out []site.Action
	for _, s := range ui.Sections() {
		out = append(out, s.Actions...)
	}
	return out
}

func downloads() []site.Download {
	var out []site.Download
	for _, s := range ui.Sections() {
		out = append(out, s.Downloads...)
	}
	return out
}
