package cli_test

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

// here shows moments of a text as the clock on the wall does, wherever that is.
func here(t *testing.T, text string) string {
	t.Helper()
	return regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`).ReplaceAllStringFunc(text, func(s string) string {
		at, err := time.Parse(time.DateTime, s)
		if err != nil {
			t.Fatal(err)
		}
		return at.Local().Format(time.DateTime)
	})
}

func TestLaneInWords(t *testing.T) {
	t.Parallel()
	const quiet = `{"usual":null,"proven":null,"ceiling":null,"throttle":null,"recovery":null,"host_rate":null}`
	lane := func(more, learnt string) string {
		return `{"endpoint":"ep_1","state":"closed","status":"active","limit":12.5,"limit_mode":"adaptive","hold_until":null,"next_probe_at":null,
"opened_at":null,"paced_by":null,"rate_per_second":null,` + more + `"learnt":` + learnt + `}`
	}
	for name, tc := range map[string]struct {
		answer string
		want   string
	}{
		"nothing": {lane("", quiet), `
endpoint  ep_1, active
breaker   closed
limit     at most 12.5 requests in flight, adaptive
pace      none
learnt    nothing
`},
		"open": {lane(`"state":"open","status":"paused","opened_at":"2026-03-02T10:00:00Z","open_reason":"consecutive","next_probe_at":"2026-03-02T10:00:30Z",
"slow_start":true,"hold_until":"2126-01-01T00:00:00Z","retry_queue":{"depth":10000,"at_least":true,"growing":true},`, quiet), `
endpoint     ep_1, paused
breaker      open since 2026-03-02 10:00:00 after failures in a row; next probe 2026-03-02 10:00:30
hold         nothing is sent before 2126-01-01 00:00:00: the endpoint asked for it
limit        at most 12.5 requests in flight, adaptive, slow start
pace         none
learnt       nothing
retry queue  at least 10000, growing
`},
		"throttle": {lane(`"paced_by":"throttle","rate_per_second":19.4321,`, `{"usual":30,"throttle":{"rate":19.4321,"at":"2026-03-02T10:00:00Z","retry_after":"1s"}}`), `
endpoint  ep_1, active
breaker   closed
limit     at most 12.5 requests in flight, adaptive
pace      19.4/s by throttle: the endpoint refused more
usual     30/s of live events
throttle  refused 2026-03-02 10:00:00, asked to wait 1s; 19.4/s now, rising by itself
`},
		"ceiling": {lane(`"paced_by":"ceiling","rate_per_second":96,`, `{"usual":48,"proven":91.25,"ceiling":
{"rate":100,"learnt":100,"at":"2026-03-02T10:00:00Z","sure":true,"test_after":"2026-03-02T16:00:00Z"}}`), `
endpoint  ep_1, active
breaker   closed
limit     at most 12.5 requests in flight, adaptive
pace      96/s by ceiling: more broke it before
usual     48/s of live events
proven    91.2/s were carried
ceiling   broke at 100/s, more than once, last 2026-03-02 10:00:00; more is tried after 2026-03-02 16:00:00 if it is in the way
`},
		"suspicion": {lane(`"paced_by":"ceiling","rate_per_second":0.96,`, `{"ceiling":
{"rate":1,"learnt":1,"at":"2026-03-02T10:00:00Z","sure":false,"test_after":"2026-03-02T10:00:00Z"}}`), `
endpoint  ep_1, active
breaker   closed
limit     at most 12.5 requests in flight, adaptive
pace      0.96/s by ceiling: more broke it before
ceiling   broke at 1/s, a suspicion, last 2026-03-02 10:00:00; more is tried soon if it is in the way
`},
		"test of a ceiling": {lane(`"paced_by":"ceiling","rate_per_second":1920,`, `{"ceiling":
{"rate":2000,"learnt":1000,"at":"2026-03-02T10:00:00Z","sure":true,"test_after":"2026-03-02T16:00:00Z"}}`), `
endpoint  ep_1, active
breaker   closed
limit     at most 12.5 requests in flight, adaptive
pace      1920/s by ceiling: more broke it before
ceiling   broke at 1000/s, more than once, last 2026-03-02 10:00:00; up to 2000/s are being tried
`},
		"recovery and host": {lane(`"paced_by":"host","rate_per_second":5,`, `{"recovery":{"rate":20,"held":"10m"},"host_rate":5}`), `
endpoint  ep_1, active
breaker   closed
limit     at most 12.5 requests in flight, adaptive
pace      5/s by host: other endpoints of its host came back with it
recovery  at 20/s, of what was held for 10m
host      leaves it 5/s
`},
		"the policy": {lane(`"paced_by":"rate_limit","rate_per_second":5,`, quiet), `
endpoint  ep_1, active
breaker   closed
limit     at most 12.5 requests in flight, adaptive
pace      5/s by rate_limit: its policy says so
learnt    nothing
`},
		"a reason of the future": {lane(`"paced_by":"moon","rate_per_second":5,`, quiet), `
endpoint  ep_1, active
breaker   closed
limit     at most 12.5 requests in flight, adaptive
pace      5/s by moon
learnt    nothing
`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string][]answer{"GET /v1/tenants/default/endpoints/ep_1/lane": always(200, tc.answer)})
			got, want := s.run("endpoints", "lane", "ep_1"), here(t, tc.want[1:])
			if got.code != 0 || got.stdout != want {
				t.Errorf("exit %d (%s):\n%s\nwant\n%s", got.code, got.stderr, got.stdout, want)
			}
			if got := s.run("endpoints", "lane", "ep_1", "--json"); got.code != 0 || !strings.HasPrefix(got.stdout, `{"endpoint":"ep_1"`) {
				t.Errorf("--json: exit %d, %s", got.code, got.stdout)
			}
		})
	}
}

func TestResetOfAnEndpoint(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{"POST /v1/tenants/default/endpoints/ep_1/reset": always(200, `{}`)})
	if got := s.run("endpoints", "reset", "ep_1"); got.code != 0 || got.stdout != "ep_1 reset\n" {
		t.Errorf("exit %d, %q (%s)", got.code, got.stdout, got.stderr)
	}
}

func TestDeliveriesThatWaitInTheList(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{"GET /v1/tenants/default/deliveries": always(200, `{"data":[
{"id":"dlv_1","status":"pending","view":null,"waiting_for":"pace","endpoint":"ep_1","type":"a"},
{"id":"dlv_2","status":"pending","view":"retrying","waiting_for":"hold","endpoint":"ep_1","type":"a"},
{"id":"dlv_3","status":"pending","view":"held","waiting_for":"open","endpoint":"ep_1","type":"a"},
{"id":"dlv_4","status":"pending","view":null,"waiting_for":null,"endpoint":"ep_1","type":"a"}]}`)})
	got := s.run("deliveries", "list", "--waiting-for=pace,hold")
	const want = `
ID     STATUS         ENDPOINT  TYPE  ATTEMPTS  LAST  DUE
dlv_1  pending:pace   ep_1      a     0         –     –
dlv_2  retrying:hold  ep_1      a     0         –     –
dlv_3  held:open      ep_1      a     0         –     –
dlv_4  pending        ep_1      a     0         –     –
`
	if got.code != 0 || got.stdout != want[1:] {
		t.Errorf("exit %d (%s):\n%s\nwant\n%s", got.code, got.stderr, got.stdout, want[1:])
	}
	if path := s.got[0].Path; !strings.Contains(path, "waiting_for=pace&waiting_for=hold") {
		t.Errorf("asked for %s", path)
	}
}
