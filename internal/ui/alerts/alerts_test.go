package alerts_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

func endpointID(t *testing.T, text string) hook.ID {
	t.Helper()
	id, err := hook.EndpointPrefix.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// storm makes an endpoint of a tenant with a firing alert.
func storm(t *testing.T, w *uitest.World, of uitest.Tenant, channels ...hook.ID) (alert, endpoint string) {
	t.Helper()
	endpoint = w.Endpoint(of, map[string]any{"uid": "orders-" + of.UID, "url": "https://api." + of.UID + ".example/hook"})
	return w.Alert("retry_storm", hook.AlertSubject{Tenant: of.ID, Endpoint: endpointID(t, endpoint)}, nil, channels...), endpoint
}

func TestFiringAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id, _ := storm(t, w, w.Acme, hook.LogChannelID)
	w.Clock.Pass(15 * time.Minute)
	w.Alert("disk_low", hook.AlertSubject{}, func(a *hook.Alert) {
		a.Level, a.Severity, a.Summary, a.Value, a.Threshold = hook.LevelSystem, hook.SeverityPage, "2 GiB are left.", 2<<30, 5<<30
	})
	p := w.Login(w.Admin).Open("/ui/alerts")
	p.Says("2 firing : 1 page and 1 warning", "retry_storm 505 retries for 53 first attempts.",
		"api.acme.example /hook orders-acme", "9.5 limit 5", "log waiting", "the whole server", "2.15 GB at least 5.37 GB", "Ack retry_storm of https://api.acme.example/hook",
		"Nothing has fired")
	p.Has("/ui/alerts/"+id+"/ack", `data-row="`+id+`"`, `class="f-retry"`, "2 alerts of 2 rules in the last 24 hours; 2 fire now.")
	if text := p.Text(); strings.Index(text, "disk_low") > strings.Index(text, "505 retries") {
		t.Error("a warning stands above a page")
	}
}

func TestNothingFires(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	b := w.Login(w.Acme.Read)
	b.Open("/ui/alerts").Says("Nothing fires.", "Nothing has fired", "No alert fired in the last 24 hours.")
	b.Open("/ui/alerts?severity=page").Says("Nothing matches this filter", "Clear the filter")
}

func TestTenantsSeeTheirAlertsOnly(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	mine, _ := storm(t, w, w.Acme)
	other, endpoint := storm(t, w, w.Bolt)
	w.Alert("disk_low", hook.AlertSubject{}, func(a *hook.Alert) { a.Level = hook.LevelSystem })
	b := w.Login(w.Acme.Write)
	p := b.Open("/ui/alerts")
	p.Says("1 firing", "api.acme.example")
	p.SaysNot("bolt", "disk_low of", "the whole server")
	b.Open("/ui/alerts/" + mine).Says("Retry storm")
	b.Want(http.StatusNotFound, "/ui/alerts/"+other).SaysNot("bolt")
	b.Want(http.StatusNotFound, "/ui/alerts/rules")
	if p := b.Post("/ui/alerts/"+other+"/ack", nil); p.Status != http.StatusNotFound {
		t.Errorf("ack of another tenant's alert = %d", p.Status)
	}
	if p := b.Send(http.MethodGet, "/ui/alerts?endpoint="+endpoint, nil); strings.Contains(p.Text(), "bolt") {
		t.Errorf("the filter finds what is not theirs: %s", p.Text())
	}
	w.Login(w.Admin).Open("/ui/alerts?tenant=bolt").SaysNot("api.acme.example")
}

func TestAlertIsAcknowledgedFromTheList(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id, _ := storm(t, w, w.Acme)
	p := w.Login(w.Acme.Write).Done("/ui/alerts/"+id+"/ack", nil)
	p.Says("Retry storm is acknowledged: it is repeated no more.", "Acknowledged by key_")
	p.HasNot(`data-row-key="a"`)
}

func TestAlertIsSnoozedWithANote(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id, _ := storm(t, w, w.Acme)
	b := w.Login(w.Admin)
	b.Open("/ui/alerts/" + id).Says("Acknowledge no more repeats")
	b.Done("/ui/alerts/"+id+"/ack", url.Values{"note": {"on it <b>"}, "snooze": {"1h"}}).Says("no repeats for 1h")
	b.Open("/ui/alerts/"+id).Says("“on it <b>”", "it is not repeated before 11:30:15", "Acknowledge it anew")

	wrong := b.Post("/ui/alerts/"+id+"/ack", url.Values{"note": {"keep me"}, "snooze": {"8d"}})
	if wrong.Status != http.StatusUnprocessableEntity {
		t.Errorf("a snooze of 8d = %d", wrong.Status)
	}
	wrong.Says("Nothing was changed.", "must be between 1m and 7d")
	wrong.Has(`value="keep me"`)
}

func TestAlertThatIsOverCannotBeAcknowledged(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id := w.Alert("dead_rate", hook.AlertSubject{Tenant: w.Acme.ID}, func(a *hook.Alert) {
		a.Level, a.Status, a.Since, a.ResolvedAt = hook.LevelTenant, hook.AlertResolved, w.Clock.Now().Add(-time.Hour), w.Clock.Now()
	})
	b := w.Login(w.Admin)
	p := b.Open("/ui/alerts/" + id)
	p.Says("Resolved", "It lasted 1 h, until 10:30:15")
	p.HasNot(`id="ack"`)
	if p := b.Post("/ui/alerts/"+id+"/ack", nil); p.Status != http.StatusConflict {
		t.Errorf("ack = %d", p.Status)
	} else {
		p.Says("the alert is over: there is nothing to acknowledge")
	}
	b.Open("/ui/alerts").Says("Resolved newest first", "dead_rate", "1 h", "9.5 %, limit 5.0 %")
}

func TestReadersHaveNoButtons(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	id, _ := storm(t, w, w.Acme)
	for _, key := range []string{w.AdminRead, w.Acme.Read} {
		b := w.Login(key)
		for _, path := range []string{"/ui/alerts", "/ui/alerts/" + id, "/ui/alerts/channels"} {
			b.Open(path).HasNot("/ack", "New channel", "Send a test")
		}
		b.Want(http.StatusNotFound, "/ui/alerts/channels/new")
		for _, path := range []string{"/ui/alerts/" + id + "/ack", "/ui/alerts/channels", "/ui/alerts/channels/log/test", "/ui/alerts/channels/log/delete"} {
			if p := b.Post(path, nil); p.Status != http.StatusForbidden {
				t.Errorf("%s = %d", path, p.Status)
			}
		}
	}
}

func TestAlertTellsWhoWasTold(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	var made struct{ ID string }
	w.Call(http.StatusCreated, http.MethodPost, "/v1/alert-channels", w.Admin, map[string]any{"name": "pager", "kind": "webhook", "url": "https://example.com/alerts"}, &made)
	channel, err := hook.ChannelPrefix.Parse(made.ID)
	w.OK(err)
	storm(t, w, w.Acme)
	w.Clock.Pass(time.Hour)
	id := w.Alert("breaker_open", hook.AlertSubject{Node: w.Node().ID}, nil, hook.LogChannelID, channel)
	p := w.Login(w.Admin).Open("/ui/alerts/" + id)
	p.Says("log fired", "pager fired", "waiting", "It fired this once, as far as alerts are kept.", "it is a state: no value")
}

func TestOtherTimesAreOfTheSameSubject(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	end := func(a *hook.Alert) {
		a.Level, a.Status, a.ResolvedAt = hook.LevelTenant, hook.AlertResolved, w.Clock.Now().Add(90*time.Second)
	}
	first := w.Alert("dead_rate", hook.AlertSubject{Tenant: w.Acme.ID}, end)
	other := w.Alert("dead_rate", hook.AlertSubject{Tenant: w.Bolt.ID}, end)
	w.Clock.Pass(time.Hour)
	id := w.Alert("dead_rate", hook.AlertSubject{Tenant: w.Acme.ID}, func(a *hook.Alert) { a.Level = hook.LevelTenant })
	p := w.Login(w.Admin).Open("/ui/alerts/" + id)
	p.Says("1 m 30 s")
	p.Has("/ui/alerts/" + first)
	p.HasNot("/ui/alerts/" + other)
}

func TestRulesShowTheirThresholds(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	w.Login(w.AdminRead).Open("/ui/alerts/rules").Says("retry_storm", "ratio 5", "endpoint: Warning , then Page", "none: it is a state")
}

func TestAlertFiltersAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	_, endpoint := storm(t, w, w.Acme)
	w.Alert("dead_rate", hook.AlertSubject{Tenant: w.Bolt.ID}, func(a *hook.Alert) { a.Level = hook.LevelTenant })
	b := w.Login(w.Admin)
	for query, want := range map[string]string{
		"rule=dead_rate": "bolt", "level=tenant": "bolt", "endpoint=" + endpoint: "acme", "severity=warning&status=firing": "All that fire", "severity=page": "Nothing matches",
	} {
		b.Open("/ui/alerts?" + query).Says(want)
	}
	b.Want(http.StatusBadRequest, "/ui/alerts?rule=moon").Says("names a rule that does not exist")
	b.Want(http.StatusBadRequest, "/ui/alerts?cursor=moon")
	b.Open("/ui/alerts?severity=moon").Says("2 firing")
}

// tester answers tests of channels.
func tester(ok bool, detail string) uitest.Tune {
	return uitest.Tune{API: func(cfg *api.Config) {
		cfg.Alerts.Test = func(context.Context, hook.Channel) (bool, string) { return ok, detail }
	}}
}

func TestChannelIsMadeTestedChangedAndDeleted(t *testing.T) {
	t.Parallel()
	w := uitest.New(t, tester(true, "answered 204"))
	b := w.Login(w.Admin)
	b.Open("/ui/alerts/channels").Says("Alerts go to the log only", "always there", "New channel")
	b.Open("/ui/alerts/channels/new").Says("a signed request to a URL", "empty: one is made and shown once")
	b.Open("/ui/alerts/channels/new?kind=email").SaysNot("Headers")

	shown := b.Post("/ui/alerts/channels", url.Values{
		"kind": {"webhook"}, "name": {"pager"}, "url": {"https://example.com/alerts"}, "headers": {"X-Token: s3cret\nX-Team: a"}, "levels": {"endpoint"},
		"min_severity": {"page"}, "rules": {"retry_storm dead_rate"}, "operational_events": {"storm.*"}, "send_resolved": {"true"},
	})
	shown.Says("The channel pager is created", "whsec_", "It is shown once")
	_, secret, _ := strings.Cut(shown.Text(), "whsec_")
	secret, _, _ = strings.Cut(secret, " ")
	list := b.Open("/ui/alerts/channels")
	list.Says("pager webhook https://example.com/alerts Alerts of 2 rules of level endpoint, pages only; operational events storm.*", "Works")
	_, path, _ := strings.Cut(list.Body, `href="/ui/alerts/channels/ach_`)
	path, _, _ = strings.Cut(path, `"`)
	path = "/ui/alerts/channels/ach_" + path

	one := b.Open(path)
	one.Says("X-Token: ***", "it is not shown again")
	one.SaysNot("s3cret", secret)
	b.Post(path+"/test", nil).Says("The test arrived. answered 204")

	edit := b.Open(path + "/edit")
	edit.Has("X-Token: ***", `value="pager"`)
	edit.SaysNot("s3cret", secret)
	wrong := b.Post(path+"/edit", url.Values{"version": {"1"}, "name": {"night"}, "url": {"http://169.254.169.254/"}, "headers": {"X-Token: ***"}, "rules": {"moon"}})
	wrong.Says("Nothing was changed.", "is not allowed", "is no rule")
	wrong.Has(`value="night"`)
	b.Post(path+"/edit", url.Values{"name": {"night"}, "url": {"https://example.com/alerts"}, "headers": {"no colon"}}).Says("must have a name, a colon and a value")
	b.Done(path+"/edit", url.Values{"version": {"1"}, "name": {"night"}, "url": {"https://example.com/night"}, "headers": {"X-Token: ***"}}).
		Says("The channel is changed.", "night", "https://example.com/night", "X-Token: ***", "All alerts, not their end")
	b.Open(path).SaysNot("X-Team", "operational events")

	stale := b.Post(path+"/edit", url.Values{"version": {"1"}, "name": {"mine"}, "url": {"https://example.com/night"}, "headers": {"X-Token: ***"}})
	if stale.Status != http.StatusPreconditionFailed {
		t.Errorf("a form of before: %d", stale.Status)
	}
	stale.Says("Somebody else has changed it since you opened this form.", "name night mine")
	stale.SaysNot("url https://example.com/night")
	stale.Has(`name="version" value="2"`, `value="mine"`)
	b.Open(path+"/delete").Says("Delete the channel night?", "No alert is sent over it any more.", "Do nothing")
	b.Done(path+"/delete", nil).Says("The channel is deleted.", "Alerts go to the log only")
	b.Want(http.StatusNotFound, path)
}

func TestTestOfAChannelSaysWhyItFailed(t *testing.T) {
	t.Parallel()
	w := uitest.New(t, tester(false, "answered 500 <script>"))
	p := w.Login(w.Admin).Post("/ui/alerts/channels/log/test", nil)
	p.Says("The test failed. answered 500 <script>")
	p.HasNot("<script>")
}

func TestTenantsHaveChannelsOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := uitest.New(t, tester(true, "ok"))
	w.Call(http.StatusCreated, http.MethodPost, "/v1/alert-channels", w.Admin, map[string]any{"name": "operators", "kind": "slack", "url": "https://hooks.example.com/services/T0/t0ken"}, nil)
	b := w.Login(w.Acme.Write)
	p := b.Open("/ui/alerts/channels")
	p.Says("Alerts go to the log only")
	p.SaysNot("operators", "always there")
	b.Open("/ui/alerts/channels/new").HasNot("kind=log", `value="system"`, `id="tenant-of"`)
	b.Done("/ui/alerts/channels", url.Values{"kind": {"email"}, "name": {"mail"}, "to": {"a@example.com\r\nb@example.com"}, "send_resolved": {"true"}, "tenant": {"bolt"}}).
		Says("The channel is created.", "a@example.com , b@example.com")
	b.Post("/ui/alerts/channels", url.Values{"kind": {"log"}, "name": {"mine"}}).Says("must be webhook, slack or email for the channel of a tenant")
	w.Login(w.Bolt.Read).Open("/ui/alerts/channels").SaysNot("mail@", "a@example.com")
	admin := w.Login(w.Admin)
	admin.Open("/ui/alerts/channels").Says("mail", "acme", "operators", "https://hooks.example.com/***")
	admin.Open("/ui/alerts/channels?tenant=acme").SaysNot("operators")
}

// TestManyAlertsStayAPage: what fires is bounded, and says so.
func TestManyAlertsStayAPage(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	for i := range 120 {
		w.Alert("dead_rate", hook.AlertSubject{Tenant: w.Acme.ID, Endpoint: hook.ID(i + 1)}, nil)
	}
	b := w.Login(w.Admin)
	p := b.Open("/ui/alerts")
	p.Says("Only the worst are shown here.")
	if n := strings.Count(p.Body, "<tr data-row="); n != 30 {
		t.Errorf("%d rows", n)
	}
	if len(p.Body) > 100_000 {
		t.Errorf("the page has %d bytes", len(p.Body))
	}
	b.Open("/ui/alerts?status=firing").Says("still fires", "Next page")
}
