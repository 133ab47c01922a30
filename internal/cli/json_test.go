package cli_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// commands returns all commands that are listed, by the manual that they write.
func commands(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	if got := runWith(nil, "", "man", "--markdown", dir); got.code != 0 {
		t.Fatalf("man: exit %d, %s", got.code, got.stderr)
	}
	page, err := os.ReadFile(filepath.Join(dir, "cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for section := range strings.SplitSeq(strings.ReplaceAll(string(page), "\n### ", "\n## "), "\n## breakwater ") {
		if name, text, _ := strings.Cut(section, "\n"); strings.Contains(text, "\nUsage: ") {
			all = append(all, name)
		}
	}
	if len(all) < 80 {
		t.Fatalf("%d commands: %q", len(all), all)
	}
	return all
}

// scripted runs commands with --json against a server, and knows which it has run.
type scripted struct {
	*live

	commands []string
	done     map[string]bool
}

// run runs a command and returns the first document that it printed. All of stdout has
// to be documents.
func (s *scripted) run(code int, args ...string) map[string]any {
	s.t.Helper()
	got := s.live.run(code, append(args, "--json")...)
	s.note(args)
	if got.stdout == "" {
		s.t.Errorf("%q --json prints nothing", args)
	}
	var first map[string]any
	for documents := json.NewDecoder(strings.NewReader(got.stdout)); documents.More(); {
		var v any
		if err := documents.Decode(&v); err != nil {
			s.t.Fatalf("%q --json: %v in %q", args, err, got.stdout)
		}
		if object, ok := v.(map[string]any); ok && first == nil {
			first = object
		}
	}
	return first
}

// note remembers which command it was: the longest name that fits.
func (s *scripted) note(args []string) {
	line, longest := strings.Join(args, " ")+" ", ""
	for _, name := range s.commands {
		if strings.HasPrefix(line, name+" ") && len(name) > len(longest) {
			longest = name
		}
	}
	s.done[longest] = true
}

// text returns a member of a document.
func text(t *testing.T, v map[string]any, name string) string {
	t.Helper()
	s, ok := v[name].(string)
	if !ok {
		t.Fatalf("no %s in %v", name, v)
	}
	return s
}

// firstID returns the id of the first object of a list.
func firstID(t *testing.T, v map[string]any) string {
	t.Helper()
	list, _ := v["data"].([]any)
	if len(list) == 0 {
		t.Fatalf("an empty list: %v", v)
	}
	object, _ := list[0].(map[string]any)
	return text(t, object, "id")
}

// TestEveryResultAsJSON runs every command there is with --json. A new command fails
// here until it is run too, or named with the reason why not.
func TestEveryResultAsJSON(t *testing.T) {
	t.Parallel()
	elsewhere := map[string]string{
		"serve":           "runs until it is ended: its document is what every process test reads",
		"sink":            "runs until it is ended: TestSinkCommand",
		"listen":          "runs until it is ended: TestListen",
		"demo":            "takes a minute: TestDemo reads its document",
		"bench":           "takes minutes: its document is bench.json",
		"bench backlog":   "as bench",
		"bench endpoints": "as bench",
		"bench nodes":     "as bench",
	}
	l := newLive(t)
	s := &scripted{live: l, commands: commands(t), done: map[string]bool{}}
	dir := t.TempDir()
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	s.local(file)
	endpoint := s.manage(file)
	s.deliver(endpoint)
	s.remove(endpoint)

	for _, name := range s.commands {
		if _, told := elsewhere[name]; told == s.done[name] {
			t.Errorf("breakwater %s: with --json it is run here: %v, and elsewhere: %q", name, s.done[name], elsewhere[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(elsewhere)) {
		if !slices.Contains(s.commands, name) {
			t.Errorf("there is no command %s any more", name)
		}
	}
}

// local runs what needs no server, or the folder of one that does not run.
func (s *scripted) local(file func(name, content string) string) {
	dir := filepath.Dir(file("x", ""))
	s.run(0, "version")
	s.run(0, "config", "check")
	s.run(0, "config", "print")
	s.run(0, "rules")
	s.run(0, "dashboard-json")
	s.run(0, "simulate", "--list")
	s.run(0, "simulate", "--outage", "30s", "--capacity", "20", "--rate", "5")
	store := filepath.Join(dir, "store")
	s.run(0, "migrate", "up", "--data-dir", store)
	s.run(0, "migrate", "status", "--data-dir", store)
	const key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	old := file("old.key", key)
	s.run(0, "rekey", "--data-dir", store, "--encryption-key-file", old, "--new-key-file", file("new.key", strings.ToUpper(key[:1])+"QECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="))
	s.run(0, "backup", "--to", filepath.Join(dir, "copy.db"))
	s.run(0, "restore", "--from", filepath.Join(dir, "copy.db"), "--data-dir", filepath.Join(dir, "restored"))
	for _, batch := range []string{"0", "1"} { // what the machine lacks may fail too
		got := runWith(s.environ, "", "doctor", "--json", "--data-dir", store, "--store-batch", batch)
		if !json.Valid([]byte(got.stdout)) {
			s.t.Errorf("doctor --json: exit %d, %q", got.code, got.stdout)
		}
		s.note([]string{"doctor"})
	}
	s.run(8, "verify", "--secret-file", file("s", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "--headers", file("h", "webhook-id: a\n"), "--body", file("b", "{}"))
}

// manage runs what makes and changes objects, and returns an endpoint.
func (s *scripted) manage(file func(name, content string) string) string {
	s.run(0, "health", "--ready")
	endpoint := text(s.t, s.run(0, "endpoints", "create", s.sink.URL+"/hook", "--types", "order.*"), "id")
	for _, name := range []string{"get", "lane", "policy", "stats", "pause", "resume", "disable", "resume", "reset", "rotate-secret"} {
		s.run(0, "endpoints", name, endpoint)
	}
	s.run(0, "endpoints", "list")
	s.run(0, "endpoints", "update", endpoint, "--description", "shop")
	s.run(0, "tenants", "create", "--uid", "acme")
	s.run(0, "tenants", "list")
	s.run(0, "tenants", "get", "acme")
	s.run(0, "tenants", "update", "acme", "--name", "Acme")
	s.run(0, "tenants", "portal-link", "acme")
	s.run(0, "tenants", "delete", "acme")
	key := text(s.t, s.run(0, "keys", "create", "--scope", "tenant:read"), "id")
	s.run(0, "keys", "list")
	s.run(0, "keys", "revoke", key)
	s.run(0, "policies", "create", "gentle", "--file", file("gentle.yaml", "preset: quick\n"))
	s.run(0, "policies", "list")
	s.run(0, "policies", "get", "gentle")
	s.run(0, "policies", "delete", "gentle")
	s.run(0, "event-types", "create", "order.paid", "--description", "paid")
	s.run(0, "event-types", "list")
	s.run(0, "event-types", "get", "order.paid")
	s.run(0, "event-types", "update", "order.paid", "--description", "paid in full")
	s.run(0, "event-types", "delete", "order.paid")
	channel := text(s.t, s.run(0, "alerts", "channels", "create", "log"), "id")
	s.run(0, "alerts", "channels", "list")
	s.run(0, "alerts", "channels", "get", channel)
	s.run(0, "alerts", "channels", "update", channel, "--min-severity", "page")
	s.run(0, "alerts", "test", channel)
	s.run(0, "alerts", "channels", "delete", channel)
	s.run(0, "alerts", "list")
	s.run(0, "alerts", "rules")
	config := s.live.run(0, "export", "--json")
	s.run(0, "export")
	s.run(0, "import", file("config.json", config.stdout), "--dry-run")
	s.run(0, "apply", file("config.json", config.stdout), "--dry-run")
	return endpoint
}

// deliver runs what is about deliveries.
func (s *scripted) deliver(endpoint string) {
	t := s.t
	s.run(0, "send", "order.paid", "--wait")
	event := text(t, s.run(0, "endpoints", "test", endpoint), "event")
	s.run(0, "inspect", event)
	control(t, s.sink.URL, `{"fail":422}`)
	s.run(1, "send", "order.paid", "--wait")
	dead := firstID(t, s.run(0, "dead", "list"))
	s.run(0, "dead", "groups")
	s.run(0, "deliveries", "list")
	for _, args := range [][]string{{"deliveries", "get"}, {"deliveries", "attempts"}, {"inspect"}, {"curl"}} {
		s.run(0, append(args, dead)...)
	}
	s.run(0, "tail")
	s.run(0, "lanes")
	s.run(0, "top")
	s.run(0, "replay", "--all", "--dry-run")
	s.run(0, "endpoints", "pause", endpoint)
	replay := text(t, s.run(0, "replay", "--all", "--detach"), "id")
	s.run(0, "replay", "list")
	s.run(0, "replay", "show", replay)
	s.run(0, "replay", "pause", replay)
	s.run(0, "replay", "resume", replay)
	s.run(0, "replay", "cancel", replay)
	s.run(1, "replay", "watch", replay) // it was cancelled
	waiting := text(t, s.run(0, "send", "order.paid"), "id")
	pending := firstID(t, s.run(0, "deliveries", "list", "--event", waiting))
	s.run(0, "deliveries", "cancel", pending)
	s.run(0, "deliveries", "retry", pending)
	s.run(0, "endpoints", "resume", endpoint)
	s.run(0, "dead", "discard", "--all", "--yes")
}

// remove lets an alert fire and ends with what deletes.
func (s *scripted) remove(endpoint string) {
	control(s.t, s.sink.URL, `{"fail":503}`)
	s.run(0, "send", "order.paid", "--count", "30")
	s.until("the breaker opens", func() bool { return strings.Contains(s.live.run(0, "lanes", "--state", "open").stdout, endpoint) })
	s.until("a probe is sent", func() bool { return runWith(s.environ, "", "endpoints", "probe", endpoint).code == 0 }) // none may be in flight
	s.until("a probe is told", func() bool {
		got := runWith(s.environ, "", "endpoints", "probe", endpoint, "--json")
		if got.code == 0 {
			s.note([]string{"endpoints", "probe"})
		}
		return got.code == 0 && json.Valid([]byte(got.stdout))
	})
	var alert string
	s.until("an alert fires", func() bool {
		alert, _, _ = strings.Cut(s.live.run(0, "alerts", "list", "--quiet").stdout, "\n")
		return alert != ""
	})
	s.run(0, "alerts", "show", alert)
	s.run(0, "alerts", "ack", alert)
	s.run(0, "endpoints", "delete", endpoint)
}

// until waits for something.
func (s *scripted) until(what string, ok func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within three minutes: %s", what)
		}
	}
}
