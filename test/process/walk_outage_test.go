package process_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// laneRow is what a lane is compared by.
type laneRow struct {
	Endpoint   string    `json:"endpoint"`
	State      string    `json:"state"`
	OpenedAt   time.Time `json:"opened_at"`
	OpenReason string    `json:"open_reason"`
	NextProbe  time.Time `json:"next_probe_at"`
	RetryQueue struct {
		Depth *int64 `json:"depth"`
	} `json:"retry_queue"`
}

func (l *laneRow) String() string {
	depth := "–"
	if l.RetryQueue.Depth != nil {
		depth = strconv.FormatInt(*l.RetryQueue.Depth, 10)
	}
	return fmt.Sprint(l.Endpoint, l.State, l.OpenedAt, l.OpenReason, l.NextProbe, " depth ", depth)
}

type laneRows struct {
	Data []laneRow `json:"data"`
}

// TestWalkOfAnOperator: one of two destinations is down. The command line shows what
// the API shows, an alert can be acknowledged, and what is dead is counted before it
// is replayed.
func TestWalkOfAnOperator(t *testing.T) {
	t.Parallel()
	w, server, url := walk(t).serveDev("--alert-interval", "1s", "--alert-repeat", "5m")
	_, to := w.sink()
	down := w.endpoint(to+"/down", "order.*")
	up := w.endpoint(to+"/up", "refund.*")
	w.shell(`curl -sS -f -d '{"fail":503}' ` + to + `/_sink/down`)
	w.run(0, "send", "order.paid", "--count", "40")
	w.run(0, "send", "refund.made", "--wait=4m")

	// 3. The same lane on the command line and in the API, and the same count as on
	// the overview.

	ask := func(path string) string {
		return w.shell(`curl -sS -f -H "Authorization: Bearer $(cat breakwater-data/admin.key)" '` + url + path + `'`)
	}
	eventually(t, time.Minute, "the breaker opens and the command line agrees with the API", func() bool {
		before := document[laneRows](t, ask("/v1/lanes?state=open"))
		printed, _ := w.run(0, "lanes", "--state", "open", "--json")
		after := document[laneRows](t, ask("/v1/lanes?state=open"))
		shown := document[laneRows](t, printed)
		if len(before.Data) != 1 || len(after.Data) != 1 || before.Data[0].String() != after.Data[0].String() {
			return false // it changes while we look
		}
		if len(shown.Data) != 1 || shown.Data[0].String() != before.Data[0].String() || shown.Data[0].Endpoint != down {
			t.Fatalf("lanes --state open shows\n%+v, the API\n%+v", shown.Data, before.Data)
		}
		return true
	})
	row := regexp.MustCompile(`(?m)^` + down + ` +open \S+ +.*probe in \S+ +` + regexp.QuoteMeta(to) + `/down$`)
	eventually(t, time.Minute, "the table and the overview show one open breaker", func() bool { // between two probes
		table, _ := w.run(0, "lanes", "--state", "open")
		if strings.Contains(table, up) {
			t.Fatalf("a healthy endpoint is listed as open:\n%s", table)
		}
		return row.MatchString(table) && document[struct{ Breakers struct{ Open int } }](t, ask("/v1/stats")).Breakers.Open == 1
	})

	// The alert is told once in the log, and acknowledged by its id.
	var alert string
	eventually(t, time.Minute, "an alert fires", func() bool {
		list, _ := w.run(0, "alerts", "list", "--rule", "breaker_open", "--quiet")
		alert = strings.TrimSpace(list)
		return alert != ""
	})
	match(t, alert, `^alr_[0-9a-z]{13}$`)
	server.shows(server.stderr, `alert=breaker_open.*status=firing|status=firing.*alert=breaker_open`)
	said, _ := w.run(0, "alerts", "ack", alert, "--note", "on it")
	match(t, said, `^`+alert+` acknowledged$`)
	shown, _ := w.run(0, "alerts", "show", alert)
	match(t, shown, `^acked +\d{4}-\S+ \S+ by key_\w+: on it$`)
	w.run(3, "alerts", "ack", "alr_0000000000000")

	// 5. What is given up on is counted by a dry run, which changes nothing.
	w.shell(`curl -sS -f -d '{"fail":422}' ` + to + `/_sink/up`)
	w.run(0, "send", "refund.made", "--count", "7")
	dead := func() int {
		return document[struct{ Count int }](t, ask("/v1/tenants/default/dead-letters/count?endpoint="+up)).Count
	}
	eventually(t, time.Minute, "seven dead letters", func() bool { return dead() == 7 })
	preview, warned := w.run(0, "replay", "--endpoint", up, "--status", "dead", "--dry-run")
	match(t, preview, `^7 deliveries would be replayed in about \S+$`)
	match(t, preview, `^  `+up+` 7 closed$`)
	if warned != "" {
		t.Errorf("a warning without a reason: %s", warned)
	}
	brief, _ := w.run(0, "replay", "--endpoint", up, "--status", "dead", "--dry-run", "--quiet")
	if brief != "7\n" || dead() != 7 {
		t.Errorf("the preview says %q, and %d are dead after it", brief, dead())
	}
	if list, _ := w.run(0, "replay", "list", "--quiet"); list != "" {
		t.Errorf("a dry run made a replay: %s", list)
	}
	// The real one delivers them.
	w.shell(`curl -sS -f -d '{"heal":true}' ` + to + `/_sink/up`)
	ended, _ := w.run(0, "replay", "--endpoint", up, "--status", "dead", "--rate", "6000")
	match(t, ended, `^rpl_\w+ done: 7 delivered, 0 failed, 0 skipped$`)
	if dead() != 0 {
		t.Errorf("%d are still dead", dead())
	}
}

// endpoint creates an endpoint and returns its id.
func (w *walker) endpoint(url string, types ...string) string {
	w.t.Helper()
	out, _ := w.run(0, "--quiet", "endpoints", "create", url, "--types", strings.Join(types, ","))
	return strings.Fields(out)[0]
}

// TestWalkOfSupport: a customer says that order 42 never came. A key that may only
// read is enough to find out why.
func TestWalkOfSupport(t *testing.T) {
	t.Parallel()
	w, _, _ := walk(t).serveDev()
	w.run(0, "tenants", "create", "--uid", "acme")
	w.run(0, "tenants", "create", "--uid", "other")
	_, to := w.sink()
	w.shell(`curl -sS -f -d '{"fail":422}' ` + to + `/_sink`)
	for _, tenant := range []string{"acme", "other"} {
		w.run(0, "--tenant", tenant, "endpoints", "create", to+"/"+tenant)
	}
	w.run(0, "--tenant", "other", "send", "order.paid", "-d", `{"order":41}`)
	w.run(1, "--tenant", "acme", "send", "order.paid", "-d", `{"order":42}`, "--wait=4m") // it is not delivered
	w.run(1, "--tenant", "acme", "send", "order.refunded", "-d", `{"order":42}`, "--wait=4m")
	w.shell(`breakwater keys create --scope tenant:read --tenant acme > support.key && chmod 600 support.key`)
	support := w.with("BREAKWATER_API_KEY_FILE=support.key")

	// 5. The list leads to the delivery, and the delivery says why.
	printed, _ := support.run(0, "--tenant", "acme", "deliveries", "list", "--type", "order.paid", "--status", "dead", "--since", "24h", "--json")
	type row struct {
		ID, Type, Status, Reason string
		Last                     struct {
			StatusCode int `json:"status_code"`
		}
	}
	list := document[struct{ Data []row }](t, printed)
	if len(list.Data) != 1 || list.Data[0].Type != "order.paid" || list.Data[0].Reason != "permanent" || list.Data[0].Last.StatusCode != 422 {
		t.Fatalf("listed:\n%s", printed)
	}
	delivery := list.Data[0].ID
	story, _ := support.run(0, "inspect", delivery)
	match(t, story, `^`+delivery+`  order\.paid of evt_\w+ to ep_\w+, accepted `)
	match(t, story, `^  #1 first \S+ 422 \w+ after \d+ms`)
	match(t, story, `^  dead since \S+ \S+ permanent\. Nothing more is sent; to send it again: breakwater --tenant ten_\w+ deliveries retry `+delivery+`$`)
	shown, _ := support.run(0, "curl", delivery)
	match(t, shown, `^curl `)
	if strings.Contains(shown, "whsec_") {
		t.Errorf("the request shows a secret:\n%s", shown)
	}
	// Reading is all that this key may do, and of one tenant only.
	_, refused := support.run(4, "--tenant", "acme", "deliveries", "retry", delivery)
	match(t, refused, `breakwater keys create --scope tenant:write --tenant acme`)
	_, hidden := support.run(3, "--tenant", "other", "deliveries", "list")
	match(t, hidden, `tenant other; see: breakwater tenants list`)
}
