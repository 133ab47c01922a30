package cli_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/cli"
)

// shown is a replay as the server shows it.
func shown(status, reason string, delivered, failed, total int) answer {
	pause := "null"
	if reason != "" {
		pause = `"` + reason + `"`
	}
	return answer{200, fmt.Sprintf(`{"id":"rpl_1","status":%q,"pause_reason":%s,"current_per_minute":800,"created_at":null,"progress":
{"total":%d,"fed":%d,"delivered":%d,"failed":%d,"skipped":0,"percent":%d,"eta":null}}`,
		status, pause, total, delivered+failed, delivered, failed, 100*(delivered+failed)/total)}
}

func TestReplayRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"POST /v1/tenants/default/replays": always(201, shown("queued", "", 0, 0, 1200).body),
	})
	for name, tc := range map[string]struct {
		args []string
		body string
	}{
		"ids":     {[]string{"dlv_1", "dlv_2"}, `{"delivery_ids":["dlv_1","dlv_2"]}`},
		"all":     {[]string{"--all"}, `{"all":true}`},
		"rate":    {[]string{"--all", "--rate=30", "--max-rate=45"}, `{"all":true,"per_minute":30,"max_multiple":1.5}`},
		"faster":  {[]string{"--all", "--max-rate=2000"}, `{"all":true,"per_minute":100,"max_multiple":20}`},
		"missing": {[]string{"--endpoint=ep_1", "--since=7d", "--include-missing"}, `{"endpoint":"ep_1","since":"7d","include_missing":true}`},
		"filter": {
			[]string{"--endpoint=ep_1", "--status=dead,delivered", "--reason=expired", "--type=order.*", "--since=24h", "--until=1h"},
			`{"endpoint":"ep_1","statuses":["dead","delivered"],"reasons":["expired"],"types":["order.*"],"since":"24h","until":"1h"}`,
		},
	} {
		got := s.run(append([]string{"replay", "--detach"}, tc.args...)...)
		if got.code != 0 || got.stdout != "rpl_1 queued, 1,200 deliveries\n" {
			t.Errorf("%s: exit %d, %q (%s)", name, got.code, got.stdout, got.stderr)
		}
		if last := s.got[len(s.got)-1]; last.Body != tc.body {
			t.Errorf("%s: sent %s, want %s", name, last.Body, tc.body)
		}
	}
	if got := s.run("replay", "--all", "--detach", "--quiet"); got.stdout != "rpl_1\n" {
		t.Errorf("--quiet: %q", got.stdout)
	}
}

func TestReplayUsage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"subcommand": {[]string{"lsit"}, `unknown command "lsit" for "breakwater replay"; did you mean list?`},
		"rate":       {[]string{"--all", "--rate=-1"}, "--rate: must be at least 1"},
		"max rate":   {[]string{"--all", "--rate=50", "--max-rate=40"}, "--max-rate: must be at least the rate of 50"},
		"of whom":    {[]string{"--include-missing", "--since=1h"}, "--include-missing: needs --endpoint and --since"},
		"since when": {[]string{"--include-missing", "--endpoint=ep_1"}, "--include-missing: needs --endpoint and --since"},
		"which":      {[]string{"dlv_1", "--include-missing", "--endpoint=ep_1", "--since=1h"}, "--include-missing: what is missing has no id"},
		"watch":      {[]string{"watch"}, "wrong number of arguments"},
	} {
		got := runWith(nil, "", append([]string{"replay"}, tc.args...)...)
		if got.code != 2 || !strings.Contains(got.stderr, tc.want) {
			t.Errorf("%s: exit %d, %q; want 2 and %q", name, got.code, got.stderr, tc.want)
		}
	}
}

func TestReplayDryRun(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{"POST /v1/tenants/default/replays": {
		{200, `{"count":50000,"exact":true,"estimated_seconds":3150,"per_endpoint":[{"endpoint":"ep_1","count":50000,"state":"open"}],"warnings":["it is open"]}`},
		{200, `{"count":1,"exact":false,"estimated_seconds":5,"per_endpoint":[],"warnings":[]}`},
		{200, `{"count":5,"exact":true,"missing":3,"estimated_seconds":5,"per_endpoint":[],"warnings":[]}`},
		{422, `{"detail":"all must be true","code":"filter_empty"}`},
	}})
	got := s.run("replay", "--endpoint=ep_1", "--dry-run")
	if got.code != 0 || got.stdout != "50,000 deliveries would be replayed in about 53m\n  ep_1 50,000 open\n" || got.stderr != "warning: it is open\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", got.code, got.stdout, got.stderr)
	}
	if got := s.run("replay", "--all", "--dry-run"); got.stdout != "at least 1 delivery would be replayed in about 5s\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	if got := s.run("replay", "--endpoint=ep_1", "--since=1h", "--include-missing", "--dry-run"); !strings.Contains(got.stdout, "\n  3 of them for events that have none yet\n") {
		t.Errorf("stdout %q", got.stdout)
	}
	if got := s.run("replay"); got.code != 5 || !strings.Contains(got.stderr, "filter_empty") {
		t.Errorf("without a filter: exit %d, %q", got.code, got.stderr)
	}
}

func TestReplayWatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers []answer
		code    int
		out     string
		err     []string
	}{
		"done": {
			[]answer{shown("running", "", 24100, 0, 50000), shown("done", "", 50000, 0, 50000)},
			0,
			"rpl_1 done: 50,000 delivered, 0 failed, 0 skipped\n",
			[]string{"[#########           ] 48% 24,100/50,000 · 800/min · 0 failed\n"},
		},
		"partly": {
			[]answer{shown("paused", "breaker", 1, 1, 4), shown("done", "", 3, 1, 4)},
			7,
			"rpl_1 done: 3 delivered, 1 failed, 0 skipped\n",
			[]string{"paused:breaker · 1 failed\n", "1 delivery was not delivered"},
		},
		"stuck": {
			[]answer{shown("paused", "stuck", 0, 2, 4)},
			1, "rpl_1 paused:stuck: 0 delivered, 2 failed, 0 skipped\n",
			[]string{"breakwater replay resume rpl_1"},
		},
		"cancelled": {
			[]answer{shown("cancelled", "", 1, 0, 4)}, 1, "rpl_1 cancelled: 1 delivered, 0 failed, 0 skipped\n", []string{"was cancelled"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, map[string][]answer{"GET /v1/tenants/default/replays/rpl_1": tc.answers})
			got := s.run("replay", "watch", "rpl_1")
			if got.code != tc.code || got.stdout != tc.out {
				t.Errorf("exit %d, stdout %q; want %d, %q", got.code, got.stdout, tc.code, tc.out)
			}
			for _, want := range tc.err {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("stderr %q, want %q in it", got.stderr, want)
				}
			}
		})
	}
}

func TestReplayLineTellsTheTimeLeft(t *testing.T) {
	t.Parallel()
	eta := time.Now().Add(26*time.Minute + 5*time.Second).UTC().Format(time.RFC3339)
	running := shown("running", "", 1, 0, 4)
	running.body = strings.Replace(running.body, `"eta":null`, `"eta":"`+eta+`"`, 1)
	s := newServer(t, map[string][]answer{"GET /v1/tenants/default/replays/rpl_1": {running, shown("done", "", 4, 0, 4)}})
	if got := s.run("replay", "watch", "rpl_1"); !strings.Contains(got.stderr, "25% 1/4 · 800/min · 0 failed · 26m left\n") {
		t.Errorf("stderr %q", got.stderr)
	}
}

func TestReplayWatchIsInterrupted(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"POST /v1/tenants/default/replays":      always(201, shown("queued", "", 0, 0, 4).body),
		"GET /v1/tenants/default/replays/rpl_1": {shown("running", "", 1, 0, 4)},
	})
	signals := s.interruptAfter(2) // once created, once looked at
	var stdout, stderr bytes.Buffer
	code := cli.Run(cli.Host{
		Args: []string{"replay", "--all", "--url", s.URL}, Stdout: &stdout, Stderr: &stderr, Signals: signals,
	})
	if code != 130 || !strings.Contains(stderr.String(), "breakwater replay watch rpl_1") {
		t.Errorf("exit %d, stderr %q; want 130 and how to go on watching", code, stderr.String())
	}
}

func TestReplayTables(t *testing.T) {
	t.Parallel()
	s := newServer(t, map[string][]answer{
		"GET /v1/tenants/default/replays":               always(200, `{"data":[`+shown("paused", "stuck", 1200, 34, 5000).body+`],"next_cursor":null}`),
		"GET /v1/tenants/default/replays/rpl_1":         always(200, `{"id":"rpl_1"}`),
		"POST /v1/tenants/default/replays/rpl_1/pause":  always(200, `{}`),
		"POST /v1/tenants/default/replays/rpl_1/cancel": always(409, `{"detail":"the replay has ended","code":"state_conflict"}`),
	})
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"list": {
			[]string{"list", "--status=paused"},
			0,
			"ID     STATUS        DONE   TOTAL  RATE     FAILED  CREATED\nrpl_1  paused:stuck  1,234  5,000  800/min  34      –\n",
		},
		"show":   {[]string{"show", "rpl_1"}, 0, "{\n  \"id\": \"rpl_1\"\n}\n"},
		"pause":  {[]string{"pause", "rpl_1"}, 0, "rpl_1 paused\n"},
		"cancel": {[]string{"cancel", "rpl_1"}, 5, ""},
	} {
		got := s.run(append([]string{"replay"}, tc.args...)...)
		if got.code != tc.code || got.stdout != tc.want {
			t.Errorf("%s: exit %d, want %d; stdout\n%s\nwant\n%s(%s)", name, got.code, tc.code, got.stdout, tc.want, got.stderr)
		}
	}
}
