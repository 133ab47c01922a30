package process_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/breakwaterhq/breakwater/internal/notify/mailer/mailtest"
)

// news is a notice as a person understands it: how severe (or that it is over),
// which rule, about what.
type news struct{ tag, rule, where string }

func (n news) String() string { return n.tag + " " + n.rule + " " + n.where }

// audience is everybody who gets notices: a mailbox, a chat and a signed webhook.
type audience struct {
	t    *testing.T
	mail *mailtest.Server
	port int
	url  string

	mu        sync.Mutex
	endpoints map[string]string // what people call an endpoint, by its id
	verify    *standardwebhooks.Webhook
	chat      []news
	hook      []news
	events    []string // operational events
	ids       []string // of webhooks
	wrong     []string // what no notice looks like
}

func gather(t *testing.T) *audience {
	t.Helper()
	a := &audience{t: t, endpoints: make(map[string]string)}
	a.mail, a.port = mailtest.Start(t, mailtest.Options{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /chat", a.takeChat)
	mux.HandleFunc("POST /hook", a.takeHook)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	a.url = "http://" + listener.Addr().String()
	return a
}

// flags are the settings of a server whose alerts come and go within a test.
func (a *audience) flags() []string {
	return []string{
		"--smtp-host", "127.0.0.1", "--smtp-port", fmt.Sprint(a.port), "--smtp-tls", "none", "--smtp-from", "Breakwater <alerts@example.com>",
		"--public-url", "https://hooks.example.com", "--alert-interval", "1s", "--alert-resolve-after", "1m",
		"--policy-limits-require-breaker=false", "--policy-limits-min-backoff", "100ms", "--policy-limits-max-attempts", "50",
		"--alerts-success-rate-percent", "50", "--alerts-success-rate-min-samples", "5",
	}
}

var (
	chatTitle = regexp.MustCompile(`^\[([A-Z]+)\] ([a-z_]+): `)
	named     = regexp.MustCompile(`\((.+)\)$`) // ep_… (api.example.com/hook)
)

func (a *audience) takeChat(_ http.ResponseWriter, r *http.Request) {
	var message struct {
		Text        string
		Attachments []struct {
			Color  string
			Fields []struct{ Title, Value string }
		}
	}
	err := json.NewDecoder(r.Body).Decode(&message)
	a.mu.Lock()
	defer a.mu.Unlock()
	m := chatTitle.FindStringSubmatch(message.Text)
	if err != nil || m == nil || len(message.Attachments) != 1 || len(message.Attachments[0].Fields) < 3 {
		a.wrong = append(a.wrong, fmt.Sprintf("chat: %+v (%v)", message, err))
		return
	}
	n := news{strings.ToLower(m[1]), m[2], "system"}
	for _, f := range slices.Backward(message.Attachments[0].Fields) {
		if name := named.FindStringSubmatch(f.Value); name != nil && (f.Title == "Endpoint" || f.Title == "Tenant") {
			n.where = name[1] // the endpoint comes before its tenant
		}
	}
	a.chat = append(a.chat, n)
}

func (a *audience) takeHook(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var payload struct {
		Type string
		Data struct {
			Rule, Severity string
			Subject        struct{ Tenant, Endpoint *string }
		}
	}
	decodeErr := json.Unmarshal(body, &payload)
	a.mu.Lock()
	defer a.mu.Unlock()
	if verifyErr := a.verify.Verify(body, r.Header); verifyErr != nil || decodeErr != nil {
		a.wrong = append(a.wrong, fmt.Sprintf("webhook: %v, %v: %s", verifyErr, decodeErr, body))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	a.ids = append(a.ids, r.Header.Get("Webhook-Id"))
	n := news{rule: payload.Data.Rule, where: "system"}
	switch payload.Type {
	case "alert.firing":
		n.tag = payload.Data.Severity
	case "alert.resolved":
		n.tag = "resolved"
	default:
		a.events = append(a.events, payload.Type)
		return
	}
	if s := payload.Data.Subject; s.Endpoint != nil {
		n.where = a.endpoints[*s.Endpoint]
	} else if s.Tenant != nil {
		n.where = "Default"
	}
	a.hook = append(a.hook, n)
}

var mailSubject = regexp.MustCompile(`^\[([a-z]+)\]\[([a-z_]+)\] (.+)$`)

// mails are the notices in the mailbox.
func (a *audience) mails() (list []news) {
	a.t.Helper()
	for _, m := range a.mail.Mails() {
		message, err := mail.ReadMessage(strings.NewReader(m.Data))
		if err != nil {
			a.t.Fatalf("not a mail: %v\n%s", err, m.Data)
		}
		s := mailSubject.FindStringSubmatch(message.Header.Get("Subject"))
		if s == nil || message.Header.Get("References") == "" || !slices.Equal(m.To, []string{"oncall@example.com"}) {
			a.t.Fatalf("not a notice:\n%s", m.Data)
		}
		list = append(list, news{s[1], s[2], s[3]})
	}
	return list
}

// heard returns what has come over each way, sorted.
func (a *audience) heard() map[string][]string {
	a.t.Helper()
	mails := a.mails()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.wrong) > 0 {
		a.t.Fatalf("no notices: %v", a.wrong)
	}
	out := make(map[string][]string)
	for way, list := range map[string][]news{"mail": mails, "chat": a.chat, "webhook": a.hook} {
		for _, n := range list {
			out[way] = append(out[way], n.String())
		}
		slices.Sort(out[way])
	}
	return out
}

// await waits until every way has so many notices, and compares.
func (a *audience) await(what string, want []string) {
	a.t.Helper()
	want = slices.Sorted(slices.Values(want))
	ways := []string{"mail", "chat", "webhook"}
	eventually(a.t, 3*time.Minute, what, func() bool {
		got := a.heard()
		return !slices.ContainsFunc(ways, func(way string) bool { return len(got[way]) < len(want) })
	})
	a.check(what, want)
}

// check fails when a way has had anything else.
func (a *audience) check(what string, want []string) {
	a.t.Helper()
	want = slices.Sorted(slices.Values(want))
	for way, got := range a.heard() {
		if !slices.Equal(got, want) {
			a.t.Errorf("%s: by %s came\n  %s\nwant\n  %s", what, way, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
}

// invite makes the channels. The two rules that the test is about have three levels
// together.
func (a *audience) invite(s *server) {
	a.t.Helper()
	for _, c := range []object{
		{"kind": "email", "to": []string{"oncall@example.com"}},
		{"kind": "slack", "url": a.url + "/chat"},
		{"kind": "webhook", "url": a.url + "/hook", "operational_events": []string{"storm.*"}},
	} {
		in := object{"name": c["kind"], "rules": []string{"retry_storm", "success_rate"}}
		maps.Copy(in, c)
		var out struct{ Secret string }
		s.ask("POST", "/v1/alert-channels", in, &out)
		if out.Secret == "" {
			continue
		}
		var err error
		if a.verify, err = standardwebhooks.NewWebhook(out.Secret); err != nil {
			a.t.Fatal(err)
		}
	}
	if a.verify == nil {
		a.t.Fatal("the webhook channel has no secret")
	}
}

// insistent retries every half second and has no breaker to stop it: days of a
// storm in a few seconds.
func insistent(attempts int) object {
	return object{"policy": object{
		"retry": object{
			"max_attempts": attempts, "min_delay": "100ms",
			"backoff": object{"kind": "exponential", "base": "500ms", "multiplier": 1, "cap": "500ms"},
		},
		"breaker": object{"enabled": false},
	}}
}

// sick makes an endpoint of a type of events that fails until it is cured.
func (a *audience) sick(s *server, r *receiver, kind string, attempts int) (endpoint string, cure func()) {
	a.t.Helper()
	path := "/" + kind
	extra := insistent(attempts)
	extra["types"] = []string{kind}
	endpoint, _ = s.endpoint(r.url+path, extra)
	a.mu.Lock()
	a.endpoints[endpoint] = strings.TrimPrefix(r.url, "http://") + path
	a.mu.Unlock()
	r.on(path, func() int { return http.StatusInternalServerError })
	return endpoint, func() { r.on(path, func() int { return http.StatusOK }) }
}

func (a *audience) storm(tag, endpoint string) string {
	return news{tag, "retry_storm", a.endpoints[endpoint]}.String()
}

// lanesInStorm returns which endpoints are flagged, and whether without any first
// attempt.
func (s *server) lanesInStorm() map[string]bool {
	s.t.Helper()
	var out struct {
		Data []struct {
			Endpoint string
			Storm    struct {
				NoFirst bool `json:"no_first"`
			}
		}
	}
	s.ask("GET", "/v1/lanes?storm=true", nil, &out)
	flagged := make(map[string]bool)
	for _, l := range out.Data {
		flagged[l.Endpoint] = l.Storm.NoFirst
	}
	return flagged
}

// metric returns the value of a series.
func (s *server) metric(series string) string {
	s.t.Helper()
	_, rest, _ := strings.Cut(s.metrics(), "\n"+series+" ")
	return strings.SplitN(rest, "\n", 2)[0]
}

// settled reports whether no notice of any alert waits.
func (s *server) settled() bool {
	s.t.Helper()
	var list struct{ Data []struct{ ID string } }
	s.ask("GET", "/v1/alerts?limit=100", nil, &list)
	for _, a := range list.Data {
		var one struct{ Notifications []struct{ Result string } }
		s.ask("GET", "/v1/alerts/"+a.ID, nil, &one)
		for _, n := range one.Notifications {
			if n.Result == "waiting" {
				return false
			}
		}
	}
	return true
}

var (
	ratesDown = []string{"warning success_rate Default", "page success_rate system"}
	ratesUp   = []string{"resolved success_rate Default", "resolved success_rate system"}
)

// TestAStormReachesPeople: endpoints that fail what they are sent are flagged while
// retries exceed five times the first attempts, one of them without any first
// attempt, which a restart has forgotten. The endpoint's, the tenant's and the
// system's alerts arrive once each by mail, chat and signed webhook, and so do their
// ends.
func TestAStormReachesPeople(t *testing.T) {
	t.Parallel()
	a, r := gather(t), receive(t)
	s := serve(t, a.flags()...)
	a.invite(s)

	forgotten, cureForgotten := a.sick(s, r, "forgotten", 40)
	s.publish("forgotten", 10)
	eventually(t, time.Minute, "all first attempts are made", func() bool { return len(r.since("/forgotten", time.Time{})) >= 30 })
	s.kill()
	s.start()
	sick, cure := a.sick(s, r, "sick", 25)
	s.publish("sick", 10)

	eventually(t, 2*time.Minute, "both lanes are flagged", func() bool { return len(s.lanesInStorm()) == 2 })
	if got := s.lanesInStorm(); !got[forgotten] || got[sick] {
		t.Errorf("flagged, and whether without first attempts: %v", got)
	}
	firing := append([]string{a.storm("page", forgotten), a.storm("page", sick)}, ratesDown...)
	a.await("alerts fire", firing)
	if got := s.metric(`breakwater_alerts_open{alert="retry_storm",severity="page"}`); got != "2" {
		t.Errorf("%q storms in the metrics, want 2", got)
	}

	cure()
	cureForgotten()
	for _, kind := range []string{"sick", "forgotten"} {
		s.publish(kind, 100) // more first attempts than a fifth of the retries
	}
	a.await("alerts end", slices.Concat(firing, ratesUp, []string{a.storm("resolved", forgotten), a.storm("resolved", sick)}))
	eventually(t, 3*time.Minute, "no lane is flagged", func() bool { return len(s.lanesInStorm()) == 0 })
	eventually(t, time.Minute, "operational events arrive", func() bool { return a.operational() == "storm.ended storm.ended storm.started storm.started" })
	a.checkIDs()
}

// operational are the operational events that came, sorted.
func (a *audience) operational() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(a.events)), " ")
}

// checkIDs fails when a webhook came twice.
func (a *audience) checkIDs() {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := slices.Sorted(slices.Values(a.ids))
	if unique := slices.Compact(slices.Clone(ids)); len(unique) != len(ids) {
		a.t.Errorf("webhooks came again: %v", ids)
	}
}

// TestAlertsOutliveTheirEvaluator: of three nodes the one that evaluates is killed
// while alerts fire, and again while they are about to end. Nothing arrives twice,
// and every end once.
func TestAlertsOutliveTheirEvaluator(t *testing.T) {
	t.Parallel()
	a, r := gather(t), receive(t)
	nodes, dsn := cluster(t, 3, append(shortLease, a.flags()...)...)
	eventually(t, time.Minute, "the nodes share the shards", func() bool { return shared(t, dsn, 3) })
	a.invite(nodes[0])
	alive := func() *server {
		i := slices.IndexFunc(nodes, func(s *server) bool { return s.cmd != nil })
		return nodes[i]
	}
	sick, cure := a.sick(nodes[0], r, "sick", 25)
	nodes[0].publish("sick", 10)
	firing := append([]string{a.storm("page", sick)}, ratesDown...)
	a.await("alerts fire", firing)
	eventually(t, time.Minute, "it is stored that all were told", func() bool { return alive().settled() })
	eventually(t, time.Minute, "the lane is flagged", func() bool { return len(alive().lanesInStorm()) == 1 })

	killEvaluator(t, nodes, dsn)
	cure()
	alive().publish("sick", 100)
	time.Sleep(10 * time.Second) // of the minute for which they must be calm
	a.check("after the first kill", firing)
	killEvaluator(t, nodes, dsn)
	a.await("alerts end", slices.Concat(firing, ratesUp, []string{a.storm("resolved", sick)}))
	eventually(t, 2*time.Minute, "operational events arrive", func() bool { return a.operational() == "storm.ended storm.started" })
	time.Sleep(5 * time.Second) // for anything that comes again
	a.check("in the end", slices.Concat(firing, ratesUp, []string{a.storm("resolved", sick)}))
	a.checkIDs()
}

// killEvaluator kills the node that owns shard 0 and waits until another one does.
func killEvaluator(t *testing.T, nodes []*server, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	owner := func() *server {
		const query = `SELECT n.name FROM shards s JOIN nodes n ON n.id = s.owner_id WHERE s.shard = 0 AND s.expires_at > clock_timestamp()`
		var name string
		if err := conn.QueryRow(t.Context(), query).Scan(&name); err != nil {
			return nil
		}
		for _, n := range nodes {
			kept, err := os.ReadFile(filepath.Join(n.dir, "node.name"))
			if err == nil && strings.TrimSpace(string(kept)) == name && n.cmd != nil {
				return n
			}
		}
		return nil
	}
	var old *server
	eventually(t, time.Minute, "somebody evaluates", func() bool { old = owner(); return old != nil })
	old.kill()
	eventually(t, time.Minute, "another node evaluates", func() bool { next := owner(); return next != nil && next != old })
}
