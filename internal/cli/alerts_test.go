package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const firing = `{"id":"alr_1","rule":"retry_storm","level":"endpoint","severity":"page","status":"firing",
"subject":{"tenant":"ten_1","endpoint":"ep_1","replay":null,"node":null},"summary":"505 retries","value":9.53,"threshold":5,
"since":"2026-03-02T10:00:00Z","last_at":"2026-03-02T10:05:00Z","resolved_at":null,"count":2,"flapping":false,
"acked_by":"key_1","acked_at":"2026-03-02T10:06:00Z","ack_note":"on it","snoozed_until":"2026-03-02T11:06:00Z"`

func TestAlertsAreListed(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"GET /v1/tenants/-/alerts":    always(200, `{"data":[`+firing+`}],"next_cursor":null}`),
		"GET /v1/tenants/acme/alerts": always(200, `{"data":[]}`),
	})
	got := s.run("alerts", "list")
	want := here(t, "ID     SEVERITY  STATUS  SINCE                RULE         ABOUT  ACKED                SUMMARY\n"+
		"alr_1  page      firing  2026-03-02 10:00:00  retry_storm  ep_1   2026-03-02 10:06:00  505 retries\n")
	if got.code != 0 || got.stdout != want {
		t.Errorf("exit %d\n%s\nwant\n%s%s", got.code, got.stdout, want, got.stderr)
	}
	s.run("alerts", "list", "--tenant=acme", "--status=firing,resolved", "--level=tenant", "--severity=page", "--rule=a", "--rule=b", "--endpoint=main", "--limit=7")
	for i, want := range []string{
		"/v1/tenants/-/alerts?limit=50&status=firing",
		"/v1/tenants/acme/alerts?endpoint=main&level=tenant&limit=7&rule=a&rule=b&severity=page&status=firing&status=resolved",
	} {
		if s.got[i].Path != want {
			t.Errorf("asked %s, want %s", s.got[i].Path, want)
		}
	}
}

func TestAlertInWords(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"GET /v1/alerts/alr_1": always(200, firing+`,"notifications":[{"channel":"ach_1","at":"2026-03-02T10:00:00Z","kind":"firing","result":"failed","tries":6,"error":"answered 503"}]}`),
	})
	want := here(t, `alert    alr_1
rule     retry_storm, docs/alerts.md#retry_storm
status   firing, page
about    ep_1
summary  505 retries
value    9.53, threshold 5
since    2026-03-02 10:00:00, last true 2026-03-02 10:05:00, 2 times
tenant   ten_1
acked    2026-03-02 10:06:00 by key_1, snoozed until 2026-03-02 11:06:00: on it

NOTICE  CHANNEL  AT                   RESULT  TRIES  ERROR
firing  ach_1    2026-03-02 10:00:00  failed  6      answered 503
`)
	if got := s.run("alerts", "show", "alr_1"); got.code != 0 || got.stdout != want {
		t.Errorf("exit %d (-want +got):\n%s%s", got.code, cmp.Diff(want, got.stdout), got.stderr)
	}
}

func TestAlertsAreAcknowledged(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"POST /v1/alerts/alr_1/ack": always(200, firing+"}"),
		"POST /v1/alerts/alr_2/ack": always(409, `{"title":"Conflict","status":409,"detail":"the alert is over","code":"state_conflict"}`),
	})
	got := s.run("alerts", "ack", "alr_1", "alr_2", "--note=on it", "--snooze=1h")
	if got.code != 7 || got.stdout != "alr_1 acknowledged\n" || !strings.Contains(got.stderr, "alr_2: the alert is over") {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if want := `{"note":"on it","snooze":"1h"}`; s.got[0].Body != want {
		t.Errorf("sent %s, want %s", s.got[0].Body, want)
	}
	if got := s.run("alerts", "ack", "alr_1"); got.code != 0 || s.got[2].Body != "{}" {
		t.Errorf("exit %d, sent %s", got.code, s.got[2].Body)
	}
}

func TestAlertChannels(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "slack.url")
	if err := os.WriteFile(file, []byte("https://hooks.example.com/t0ken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const channel = `{"id":"ach_1","kind":"slack","name":"room","tenant":null,"url":"https://hooks.example.com/***","levels":["endpoint","tenant"],"min_severity":"page",
"rules":["retry_storm"],"operational_events":[],"send_resolved":false,"to":[],"failing_since":"2026-03-02T10:00:00Z","error":"answered 404","events_dropped":0,"version":3}`
	for name, tc := range map[string]struct {
		args    []string
		request string
		answer  answer
		body    string // sent
		code    int
		want    string
	}{
		"list": {
			[]string{"channels", "list"},
			"GET /v1/tenants/-/alert-channels",
			answer{200, `{"data":[` + channel + `]}`},
			"", 0,
			here(t, "ID     KIND   NAME  TENANT  TO                             FILTERS                                           STATE\n"+
				"ach_1  slack  room  –       https://hooks.example.com/***  endpoint,tenant; from page; retry_storm; no ends  failing since 2026-03-02 10:00:00: answered 404\n"),
		},
		"get": {[]string{"channels", "get", "ach_1"}, "GET /v1/tenants/-/alert-channels/ach_1", answer{200, `{"id":"ach_1"}`}, "", 0, "{\n  \"id\": \"ach_1\"\n}\n"},
		"slack": {
			[]string{"channels", "create", "slack", "--url-file", file, "--name=room", "--send-resolved=false"},
			"POST /v1/alert-channels",
			answer{201, channel},
			`{"kind":"slack","name":"room","send_resolved":false,"url":"https://hooks.example.com/t0ken"}`, 0, "channel  ach_1\n",
		},
		"webhook of a tenant": {
			[]string{"channels", "create", "webhook", "https://example.com/a", "--tenant=acme", "--header=X-A=1", "--operational-events=storm.*", "--min-severity=page"},
			"POST /v1/tenants/acme/alert-channels",
			answer{201, `{"id":"ach_2","secret":"whsec_x"}`},
			`{"headers":{"X-A":"1"},"kind":"webhook","min_severity":"page","name":"webhook","operational_events":["storm.*"],"url":"https://example.com/a"}`, 0,
			"channel  ach_2\nsecret   whsec_x (shown once)\n",
		},
		"email": {
			[]string{"channels", "create", "email", "a@example.com", "b@example.com", "--levels=system", "--quiet"},
			"POST /v1/alert-channels",
			answer{201, `{"id":"ach_3"}`},
			`{"kind":"email","levels":["system"],"name":"email","to":["a@example.com","b@example.com"]}`, 0, "ach_3\n",
		},
		"update": {
			[]string{"channels", "update", "ach_1", "https://example.com/b", "--min-severity=", "--rules="},
			"PATCH /v1/tenants/-/alert-channels/ach_1",
			answer{200, channel},
			`{"min_severity":null,"rules":[],"url":"https://example.com/b"}`, 0, "ach_1 changed, version 3\n",
		},
		"delete": {[]string{"channels", "delete", "ach_1"}, "DELETE /v1/tenants/-/alert-channels/ach_1", answer{204, ""}, "", 0, "ach_1 deleted\n"},
		"test": {
			[]string{"test", "ach_1"},
			"POST /v1/tenants/-/alert-channels/ach_1/test",
			answer{200, `{"result":"ok","detail":"the receiver took it"}`},
			"", 0,
			"ok: the receiver took it\n",
		},
		"failed test": {
			[]string{"test", "ach_1"},
			"POST /v1/tenants/-/alert-channels/ach_1/test",
			answer{200, `{"result":"failed","detail":"answered 404"}`},
			"", 8,
			"failed: answered 404\n",
		},
		"rules": {
			[]string{"rules"},
			"GET /v1/alert-rules",
			answer{200, `{"data":[{"name":"retry_storm","enabled":true,"levels":[{"level":"endpoint","severities":["warning","page"]}],
"thresholds":[{"name":"retries","value":"100"},{"name":"ratio","value":"5"}]},{"name":"dead_rate","enabled":false,"levels":[{"level":"system","severities":["page"]}],"thresholds":[]}]}`},
			"", 0,
			"RULE         ON   LEVELS                 THRESHOLDS\nretry_storm  yes  endpoint:warning→page  retries=100 ratio=5\ndead_rate    no   system:page            –\n",
		},
		"nothing to change": {[]string{"channels", "update", "ach_1"}, "", answer{}, "", 2, ""},
		"two URLs":          {[]string{"channels", "create", "webhook", "https://a.example", "https://b.example"}, "", answer{}, "", 2, ""},
		"URL twice":         {[]string{"channels", "create", "slack", "https://a.example", "--url-file", file}, "", answer{}, "", 2, ""},
		"no such file":      {[]string{"channels", "create", "slack", "--url-file", file + "x"}, "", answer{}, "", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string][]answer{tc.request: {tc.answer}})
			got := s.run(append([]string{"alerts"}, tc.args...)...)
			if got.code != tc.code || got.stdout != tc.want {
				t.Errorf("exit %d, want %d (-want +got):\n%s%s", got.code, tc.code, cmp.Diff(tc.want, got.stdout), got.stderr)
			}
			switch {
			case tc.request == "" && len(s.got) > 0:
				t.Errorf("asked %v", s.got)
			case tc.request != "" && (len(s.got) != 1 || s.got[0].Body != tc.body):
				t.Errorf("sent %+v, want %s", s.got, tc.body)
			}
		})
	}
}
