package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/alerts"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// alert stores a firing alert, told over channels, and returns it.
func (w *world) alert(rule string, s hook.AlertSubject, channels ...hook.ID) hook.Alert {
	w.t.Helper()
	now := w.clock.now()
	a := hook.Alert{
		ID: w.id(), Rule: rule, Level: hook.LevelEndpoint, Severity: hook.SeverityWarning, Status: hook.AlertFiring, Subject: s,
		Summary: "505 retries for 53 first attempts", Value: 9.5, Threshold: 5, Since: now, LastAt: now, Count: 1,
		Memory: hook.AlertMemory{TrueSince: now, NoticeAt: now},
	}
	for _, c := range channels {
		a.Notifications = append(a.Notifications, hook.Notification{Channel: c, At: now, Kind: hook.NoticeFiring, Result: hook.NoticeWaiting})
	}
	w.saveAlerts(a)
	return a
}

func (w *world) saveAlerts(list ...hook.Alert) {
	w.t.Helper()
	fence := store.Fence{Node: w.node.ID, Held: store.Held{Shard: 0, Epoch: w.epochs[0]}}
	w.ok(w.db.SaveAlerts(w.ctx(), fence, store.AlertStep{Now: w.clock.now(), Save: list}))
}

// failed lets a notice over a channel fail for good.
func (w *world) failed(channel string) hook.ID {
	w.t.Helper()
	id, err := hook.ChannelPrefix.Parse(channel)
	w.ok(err)
	a := w.alert("disk_low", hook.AlertSubject{}, id)
	fence := store.Fence{Node: w.node.ID, Held: store.Held{Shard: 0, Epoch: w.epochs[0]}}
	key := store.NoticeKey{About: a.ID, Channel: id, At: a.Memory.NoticeAt, Kind: hook.NoticeFiring}
	w.ok(w.db.EndNotice(w.ctx(), fence, key, store.NoticeEnd{Now: w.clock.now(), Result: hook.NoticeFailed, Tries: 6, Error: "answered 410"}))
	if ch, err := w.db.ChannelByID(w.ctx(), 0, id); err != nil || ch.FailingSince.IsZero() {
		w.t.Fatalf("the channel does not fail: %v", err)
	}
	return id
}

func (w *world) resolve(a hook.Alert) {
	w.t.Helper()
	a.Status, a.ResolvedAt = hook.AlertResolved, w.clock.now()
	w.saveAlerts(a)
}

func shownAlert(a hook.Alert) string { return hook.AlertPrefix.Format(a.ID) }

// channel makes an alert channel and returns its id.
func (w *world) channel(path, key, body string) string {
	w.t.Helper()
	return w.must(http.StatusCreated, http.MethodPost, path, key, body).text(w.t, "id")
}

const (
	hookChannel  = `{"name":"pager","kind":"webhook","url":"https://example.com/alerts"}`
	slackChannel = `{"name":"chat","kind":"slack","url":"https://hooks.example.com/services/T0/B0/t0ken"}`
	mailChannel  = `{"name":"mail","kind":"email","to":["ops@example.com"]}`
)

func channelID(t *testing.T, text string) hook.ID {
	t.Helper()
	id, err := hook.ChannelPrefix.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAlertIsShownWithItsNotifications(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operators := w.channel("/v1/alert-channels", w.admin, hookChannel)
	own := w.channel("/v1/tenants/acme/alert-channels", w.a.write, mailChannel)
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: w.a.tenant, Endpoint: 7}, hook.LogChannelID, channelID(t, operators), channelID(t, own))
	const now = "2026-03-02T10:30:15.123Z"
	notice := func(channel string) map[string]any {
		return map[string]any{"channel": channel, "at": now, "kind": "firing", "result": "waiting", "tries": 0.0, "error": nil}
	}
	want := map[string]any{
		"id": shownAlert(a), "rule": "retry_storm", "level": "endpoint", "severity": "warning", "status": "firing", "stale": false,
		"subject": map[string]any{"tenant": w.a.id, "endpoint": hook.EndpointPrefix.Format(7), "replay": nil, "node": nil},
		"summary": "505 retries for 53 first attempts", "value": 9.5, "threshold": 5.0, "since": now, "last_at": now, "resolved_at": nil,
		"count": 1.0, "flapping": false, "acked_by": nil, "acked_at": nil, "ack_note": nil, "snoozed_until": nil,
		"notifications": []any{notice("log"), notice(operators), notice(own)},
	}
	path := "/v1/alerts/" + shownAlert(a)
	got := w.must(200, http.MethodGet, path, w.adminRead, nil).object(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("to the operator (-want +got):\n%s", diff)
	}
	want["notifications"] = []any{notice(own)}
	if diff := cmp.Diff(want, w.must(200, http.MethodGet, path, w.a.read, nil).object(t)); diff != "" {
		t.Errorf("to the tenant (-want +got):\n%s", diff)
	}
	w.must(404, http.MethodGet, path, w.b.read, nil)
	w.must(404, http.MethodGet, "/v1/alerts/alr_0000000000000", w.admin, nil)
	w.must(404, http.MethodGet, "/v1/alerts/"+own, w.admin, nil)
}

func TestAlertsAreListedByFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ep := w.endpoint(w.a, map[string]any{"uid": "main"})
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: w.a.tenant, Endpoint: endpointID(t, ep)})
	b := w.alert("dead_rate", hook.AlertSubject{Tenant: w.b.tenant})
	over := w.alert("endpoint_failing", hook.AlertSubject{Tenant: w.a.tenant})
	w.resolve(over)
	system := w.alert("disk_low", hook.AlertSubject{})
	system.Level, system.Severity = hook.LevelSystem, hook.SeverityPage
	w.saveAlerts(system)
	pending := w.alert("long_retry", hook.AlertSubject{Tenant: w.a.tenant})
	pending.Status = hook.AlertPending
	w.saveAlerts(pending)

	for _, tc := range []struct {
		path, key string
		want      []hook.Alert
	}{
		{"/v1/alerts", w.adminRead, []hook.Alert{system, over, b, a}},
		{"/v1/alerts?order=asc", w.admin, []hook.Alert{a, b, over}},
		{"/v1/alerts?status=firing", w.admin, []hook.Alert{system, b, a}},
		{"/v1/alerts?status=firing&status=resolved&rule=dead_rate&rule=endpoint_failing", w.admin, []hook.Alert{over, b}},
		{"/v1/alerts?severity=page", w.admin, []hook.Alert{system}},
		{"/v1/alerts?level=endpoint&severity=warning", w.admin, []hook.Alert{over, b, a}},
		{"/v1/alerts?endpoint=" + ep, w.admin, []hook.Alert{a}},
		{"/v1/tenants/-/alerts", w.admin, []hook.Alert{system, over, b, a}},
		{"/v1/tenants/-/alerts", w.a.read, []hook.Alert{over, a}},
		{"/v1/tenants/acme/alerts", w.adminRead, []hook.Alert{over, a}},
		{"/v1/tenants/acme/alerts?endpoint=main", w.a.read, []hook.Alert{a}},
		{"/v1/tenants/bolt/alerts?endpoint=" + ep, w.b.read, nil},
	} {
		var got, want []string
		limit := "limit=3"
		if strings.Contains(tc.path, "?") {
			limit = "&" + limit
		} else {
			limit = "?" + limit
		}
		page := w.must(200, http.MethodGet, tc.path+limit, tc.key, nil).object(t)
		for page != nil {
			for _, v := range page["data"].([]any) {
				got = append(got, v.(map[string]any)["id"].(string))
				if v.(map[string]any)["notifications"] != nil {
					t.Errorf("%s shows notifications", tc.path)
				}
			}
			cursor, more := page["next_cursor"].(string)
			if page = nil; more && !strings.Contains(tc.path, "order=asc") {
				page = w.must(200, http.MethodGet, tc.path+limit+"&cursor="+cursor, tc.key, nil).object(t)
			}
		}
		for _, a := range tc.want {
			want = append(want, shownAlert(a))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s = %v, want %v", tc.path, got, want)
		}
	}
}

func TestAlertIsAcknowledged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.alert("retry_storm", hook.AlertSubject{Tenant: w.a.tenant})
	path := "/v1/alerts/" + shownAlert(a) + "/ack"
	got := w.must(200, http.MethodPost, path, w.a.write, `{"note":"I know","snooze":"1h"}`).object(t)
	by, _ := got["acked_by"].(string)
	if !strings.HasPrefix(by, "key_") || got["ack_note"] != "I know" || got["acked_at"] != "2026-03-02T10:30:15.123Z" ||
		got["snoozed_until"] != "2026-03-02T11:30:15.123Z" {
		t.Errorf("acknowledged: %v", got)
	}
	if audit := w.dump("audit"); !strings.Contains(audit, "alert.ack") || !strings.Contains(audit, "I know") {
		t.Errorf("no record of it:\n%s", audit)
	}
	got = w.must(200, http.MethodPost, path, w.admin, nil).object(t)
	if got["ack_note"] != nil || got["snoozed_until"] != nil || got["acked_by"] == by {
		t.Errorf("acknowledged again, without a body: %v", got)
	}
	w.must(404, http.MethodPost, path, w.b.write, nil)
	w.resolve(a)
	if p := w.must(409, http.MethodPost, path, w.a.write, nil).problem(t); p.Code != "state_conflict" || p.Current != "resolved" {
		t.Errorf("acknowledged after its end: %+v", p)
	}
}

func TestChannelKeepsItsSecretsToItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const path = "/v1/alert-channels"
	made := w.must(201, http.MethodPost, path, w.admin, `{"name":"pager","kind":"webhook","url":"https://example.com/alerts","headers":{"X-Token":"s3cr3t"},
		"levels":["endpoint"],"min_severity":"page","rules":["retry_storm"],"operational_events":["storm.*"],"send_resolved":false}`)
	id, secret := made.text(t, "id"), made.text(t, "secret")
	if made.header.Get("Location") != path+"/"+id || !strings.HasPrefix(secret, "whsec_") {
		t.Errorf("created at %q: %s", made.header.Get("Location"), made.body)
	}
	want := map[string]any{
		"id": id, "name": "pager", "kind": "webhook", "tenant": nil, "levels": []any{"endpoint"}, "min_severity": "page", "rules": []any{"retry_storm"},
		"operational_events": []any{"storm.*"}, "send_resolved": false, "url": "https://example.com/alerts", "secret_last4": secret[len(secret)-4:],
		"headers": map[string]any{"X-Token": "***"}, "to": []any{}, "failing_since": nil, "error": nil, "events_dropped": 0.0,
		"created_at": "2026-03-02T10:30:15.123Z", "updated_at": "2026-03-02T10:30:15.123Z", "version": 1.0,
	}
	read := w.must(200, http.MethodGet, path+"/"+id, w.adminRead, nil)
	if diff := cmp.Diff(want, read.object(t)); diff != "" || read.header.Get("ETag") != `"1"` {
		t.Errorf("channel with ETag %s (-want +got):\n%s", read.header.Get("ETag"), diff)
	}
	chat := w.channel(path, w.admin, slackChannel)
	list := string(w.must(200, http.MethodGet, path, w.adminRead, nil).body)
	if !strings.Contains(list, `"https://hooks.example.com/***"`) || !strings.Contains(list, id) || !strings.Contains(list, chat) {
		t.Errorf("list: %s", list)
	}
	for _, text := range []string{list, w.dump("alert_channels", "audit"), w.logs.String()} {
		for _, hidden := range []string{"s3cr3t", "t0ken", secret} {
			if strings.Contains(text, hidden) {
				t.Errorf("%q can be read in\n%s", hidden, text)
			}
		}
	}
}

func TestChannelIsChanged(t *testing.T) {
	t.Parallel()
	var tested []hook.Channel
	w := newWorld(t, func(cfg *api.Config) {
		cfg.Alerts.Test = func(_ context.Context, ch hook.Channel) (bool, string) {
			tested = append(tested, ch)
			return ch.Kind != hook.ChannelEmail, "what they said"
		}
	})
	const path = "/v1/tenants/acme/alert-channels"
	id := w.channel(path, w.a.write, `{"name":"chat","kind":"slack","url":"https://hooks.example.com/services/T0/B0/t0ken","min_severity":"page"}`)
	one := path + "/" + id
	got := w.must(200, http.MethodPatch, one, w.a.write, `{"name":"room","min_severity":null,"levels":["tenant"],"url":"https://hooks.example.com/***"}`, "If-Match", `"1"`)
	if v := got.object(t); v["name"] != "room" || v["min_severity"] != nil || v["version"] != 2.0 || v["url"] != "https://hooks.example.com/***" || got.header.Get("ETag") != `"2"` {
		t.Errorf("changed: %s", got.body)
	}
	if p := w.must(412, http.MethodPatch, one, w.a.write, `{"name":"x"}`, "If-Match", `"1"`).problem(t); p.Code != "version_mismatch" {
		t.Errorf("change of an old version: %+v", p)
	}
	failing := w.failed(id)
	test := w.must(200, http.MethodPost, one+"/test", w.a.write, nil).object(t)
	if diff := cmp.Diff(map[string]any{"result": "ok", "detail": "what they said"}, test); diff != "" {
		t.Errorf("test (-want +got):\n%s", diff)
	}
	if ch, err := w.db.ChannelByID(w.ctx(), 0, failing); err != nil || !ch.FailingSince.IsZero() {
		t.Errorf("after a test that got through the channel fails since %v (%v)", ch.FailingSince, err)
	}
	if len(tested) != 1 || tested[0].URL != "https://hooks.example.com/services/T0/B0/t0ken" || tested[0].Name != "room" {
		t.Errorf("tested %+v", tested)
	}

	pager := path + "/" + w.channel(path, w.a.write, `{"name":"pager","kind":"webhook","url":"https://example.com/a","headers":{"X-A":"one","X-B":"two"}}`)
	first := w.must(200, http.MethodGet, pager, w.a.read, nil).text(t, "secret_last4")
	const other = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	w.must(200, http.MethodPatch, pager, w.a.write, `{"headers":{"x-a":"***","X-B":null,"X-C":"three"},"url":"https://example.com/b","secret":"`+other+`"}`)
	if soon := w.must(429, http.MethodPost, pager+"/test", w.a.write, nil); soon.problem(t).Code != "rate_limited" || soon.header.Get("Retry-After") != "5" {
		t.Errorf("a second test at once: Retry-After %s, %s", soon.header.Get("Retry-After"), soon.body)
	}
	w.clock.pass(5 * time.Second)
	w.must(200, http.MethodPost, pager+"/test", w.a.write, nil)
	ch := tested[1]
	if diff := cmp.Diff(map[string]string{"X-A": "one", "X-C": "three"}, ch.Headers); diff != "" || ch.URL != "https://example.com/b" || ch.Secret != other || first == "" {
		t.Errorf("changed webhook %s %s (-want +got):\n%s", ch.URL, ch.Secret, diff)
	}

	mail := path + "/" + w.channel(path, w.a.write, mailChannel)
	if r := w.must(200, http.MethodPost, "/v1/alert-channels/"+strings.TrimPrefix(mail, path+"/")+"/test", w.admin, nil).text(t, "result"); r != "failed" {
		t.Errorf("failed test = %s", r)
	}
	w.must(204, http.MethodDelete, mail, w.a.write, nil)
	w.must(404, http.MethodGet, mail, w.a.write, nil)
	w.must(404, http.MethodDelete, mail, w.a.write, nil)
	audit := w.dump("audit")
	for _, action := range []string{"alert_channel.create", "alert_channel.change", "alert_channel.delete", "alert_channel.test"} {
		if !strings.Contains(audit, action) {
			t.Errorf("no record of %s", action)
		}
	}
	if !strings.Contains(audit, `\"secret\":\"changed\"`) && !strings.Contains(audit, `"secret":"changed"`) {
		t.Errorf("no record of the new secret:\n%s", audit)
	}
}

func TestChannelsStayInTheirTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	operators := w.channel("/v1/alert-channels", w.admin, hookChannel)
	given := w.must(201, http.MethodPost, "/v1/alert-channels", w.admin, `{"tenant":"acme","name":"m","kind":"email","to":["a@example.com"]}`)
	if given.text(t, "tenant") != w.a.id {
		t.Errorf("channel for a tenant: %s", given.body)
	}
	theirs := w.channel("/v1/tenants/bolt/alert-channels", w.b.write, hookChannel)
	list := string(w.must(200, http.MethodGet, "/v1/tenants/-/alert-channels", w.a.read, nil).body)
	if !strings.Contains(list, given.text(t, "id")) || strings.Contains(list, operators) || strings.Contains(list, theirs) {
		t.Errorf("channels of tenant a: %s", list)
	}
	for _, id := range []string{operators, theirs, "log", "ach_0000000000001"} {
		path := "/v1/tenants/acme/alert-channels/" + id
		w.must(404, http.MethodGet, path, w.a.write, nil)
		w.must(404, http.MethodPatch, path, w.a.write, `{"name":"x"}`)
		w.must(404, http.MethodDelete, path, w.a.write, nil)
		w.must(404, http.MethodPost, path+"/test", w.a.write, nil)
	}
	w.must(200, http.MethodGet, "/v1/alert-channels/"+theirs, w.admin, nil)
	w.must(204, http.MethodDelete, "/v1/alert-channels/"+theirs, w.admin, nil)
}

func TestLogChannelIsAlwaysThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if v := w.must(200, http.MethodGet, "/v1/alert-channels/log", w.admin, nil).object(t); v["id"] != "log" || v["kind"] != "log" || v["send_resolved"] != true {
		t.Errorf("log channel: %v", v)
	}
	test := w.must(200, http.MethodPost, "/v1/alert-channels/log/test", w.admin, nil).object(t)
	if test["result"] != "failed" || test["detail"] != "this server sends no notices" {
		t.Errorf("test without a sender: %v", test)
	}
	w.must(409, http.MethodPatch, "/v1/alert-channels/log", w.admin, `{"name":"x"}`)
	w.must(409, http.MethodDelete, "/v1/alert-channels/log", w.admin, nil)
}

func TestChannelsHaveABound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 20 {
		w.channel("/v1/tenants/acme/alert-channels", w.a.write, fmt.Sprintf(`{"name":"m%d","kind":"email","to":["a@example.com"]}`, i))
	}
	p := w.must(422, http.MethodPost, "/v1/tenants/acme/alert-channels", w.a.write, mailChannel).problem(t)
	if !strings.Contains(p.Detail, "alert_channels must be at most 20") {
		t.Errorf("one too many: %+v", p)
	}
	w.channel("/v1/tenants/bolt/alert-channels", w.b.write, mailChannel)
}

func TestRulesShowTheThresholdsInForce(t *testing.T) {
	t.Parallel()
	thresholds, err := alert.Thresholds{}.With("retry_storm", "ratio", "7")
	if err == nil {
		thresholds, err = thresholds.WithRule("dead_rate", false)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, func(cfg *api.Config) {
		cfg.Alerts = alerts.Parts{Thresholds: func() alert.Thresholds { return thresholds }}
	})
	list := w.must(200, http.MethodGet, "/v1/alert-rules", w.adminRead, nil).object(t)["data"].([]any)
	if len(list) != len(alert.Rules()) {
		t.Errorf("%d rules, want %d", len(list), len(alert.Rules()))
	}
	for _, v := range list {
		rule := v.(map[string]any)
		if enabled := rule["name"] != "dead_rate"; rule["enabled"] != enabled {
			t.Errorf("%s: enabled = %v", rule["name"], rule["enabled"])
		}
		if rule["name"] != "retry_storm" {
			continue
		}
		want := map[string]any{
			"name": "ratio", "value": "7", "default": "5", "bounds": "1 to 1000", "unit": "number", "doc": "and above so many retries for each first attempt",
		}
		if diff := cmp.Diff(want, rule["thresholds"].([]any)[1]); diff != "" || rule["window"] != "15m" || rule["runbook"] != "docs/alerts.md#retry_storm" {
			t.Errorf("retry_storm over %v, %v (-want +got):\n%s", rule["window"], rule["runbook"], diff)
		}
		levels := []any{map[string]any{"level": "endpoint", "severities": []any{"page"}}}
		if diff := cmp.Diff(levels, rule["levels"]); diff != "" {
			t.Errorf("levels (-want +got):\n%s", diff)
		}
	}
}

// TestAcknowledgementsAreDated: by the server, whatever was said before.
func TestAcknowledgementsAreDated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.alert("retry_storm", hook.AlertSubject{})
	w.clock.pass(time.Hour)
	got := w.must(200, http.MethodPost, "/v1/alerts/"+shownAlert(a)+"/ack", w.admin, `{"snooze":"7d"}`).object(t)
	if got["acked_at"] != "2026-03-02T11:30:15.123Z" || got["snoozed_until"] != "2026-03-09T11:30:15.123Z" {
		t.Errorf("acknowledged: %v", got)
	}
}

// TestAlertsThatNobodyJudgesAreStale: with alert.enabled=false nobody knows whether
// an alert still fires.
func TestAlertsThatNobodyJudgesAreStale(t *testing.T) {
	t.Parallel()
	for _, unjudged := range []bool{false, true} {
		w := newWorld(t, func(cfg *api.Config) { cfg.Alerts.Unjudged = unjudged })
		w.alert("retry_storm", hook.AlertSubject{})
		w.resolve(w.alert("disk_low", hook.AlertSubject{}))
		for _, v := range w.must(200, http.MethodGet, "/v1/alerts", w.adminRead, nil).object(t)["data"].([]any) {
			a := v.(map[string]any)
			if want := unjudged && a["status"] == "firing"; a["stale"] != want {
				t.Errorf("unjudged %v: %v alert is stale: %v", unjudged, a["status"], a["stale"])
			}
			one := w.must(200, http.MethodGet, "/v1/alerts/"+a["id"].(string), w.adminRead, nil).object(t)
			if one["stale"] != a["stale"] {
				t.Errorf("unjudged %v: %v alert by itself is stale: %v", unjudged, a["status"], one["stale"])
			}
		}
	}
}
