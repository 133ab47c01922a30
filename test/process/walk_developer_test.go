package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	library "github.com/breakwaterhq/breakwater/receiver"
)

// webhook is a request as a developer's server got it.
type webhook struct {
	path   string
	header http.Header
	body   []byte
}

// desk is a server on the developer's machine that keeps what it gets.
type desk struct {
	mu  sync.Mutex
	got []webhook
}

func (d *desk) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got = append(d.got, webhook{r.URL.Path, r.Header.Clone(), body})
}

func (d *desk) webhooks() []webhook {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clip(d.got)
}

// TestWalkOfAReceiversDeveloper: events come to a server on the developer's machine,
// signed with a secret that stays; a request that was kept can be checked, and a byte
// that differs is found.
func TestWalkOfAReceiversDeveloper(t *testing.T) {
	t.Parallel()
	w, _, _ := walk(t).serveDev()
	w.shell(`breakwater keys create --scope tenant:read > read.key && chmod 600 read.key`)
	developer := w.with("BREAKWATER_API_KEY_FILE=read.key")
	d := &desk{}
	server := httptest.NewServer(d)
	defer server.Close()
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]

	// 1. The next event comes, of these types only.
	var secrets []string
	for round := range 2 {
		listening := developer.open("listen", port, "--path", "/hook", "--types", "order.*")
		secrets = append(secrets, listening.shows(listening.stdout, `^secret (whsec_\S+)$`)[1])
		listening.shows(listening.stderr, `^events of tenant default go to http://127\.0\.0\.1:`+port+`/hook from now on; secret from \S+; end with Ctrl-C$`)
		w.run(0, "send", "refund.made", "-d", `{"order":1}`)
		sent, _ := w.run(0, "send", "order.paid", "-d", fmt.Sprintf(`{"order": %d}`, 42+round))
		event := match(t, sent, `^(evt_\w+) accepted, 0 deliveries$`)[1]
		listening.shows(listening.stdout, `^→ order\.paid 200 \d+ms `+event+`$`)
		if code := listening.end(); code != 130 {
			t.Errorf("listen ended with %d after Ctrl-C, want 130", code)
		}
	}
	if secrets[0] != secrets[1] {
		t.Errorf("the secret was %s, and %s when it ran again", secrets[0], secrets[1])
	}
	got := d.webhooks()
	if len(got) != 2 || got[0].path != "/hook" || string(got[0].body) != `{"order": 42}` || string(got[1].body) != `{"order": 43}` {
		t.Fatalf("the developer's server got %+v", got)
	}
	v, err := library.New(library.Config{Secrets: secrets[:1], Tolerance: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range got {
		if _, err := v.Verify(hook.header, hook.body); err != nil {
			t.Errorf("the signature is no good: %v", err)
		}
	}
	// 2. A request that was kept is checked without a server.
	w.keep("s", secrets[0])
	var header bytes.Buffer
	if err := got[0].header.Write(&header); err != nil {
		t.Fatal(err)
	}
	w.keep("h", header.String())
	w.keep("b", string(got[0].body))
	check := []string{"verify", "--secret-file", "s", "--headers", "h", "--body", "b", "--tolerance", "1h"}
	if said, _ := w.run(0, check...); said != "ok, key 1 of 1\n" {
		t.Errorf("verify says %q", said)
	}
	for changed, reason := range map[string]string{
		`{"order": 44}`:        "signature differs: no secret of 1 fits these headers and 13 bytes of body",
		`{"order": 42}` + "\n": "body differs: signature matches with trailing newline removed",
	} {
		w.keep("b", changed)
		if said, _ := w.run(8, check...); !strings.HasPrefix(said, reason) {
			t.Errorf("verify of %q says %q, want %q", changed, said, reason)
		}
	}
}

// keep writes a file into the walker's folder.
func (w *walker) keep(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// TestWalkOfAReceiverThatDeduplicates: the same delivery three times, by hand, is one
// piece of work; and a receiver that asks for half a minute gets it.
func TestWalkOfAReceiverThatDeduplicates(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := walk(t).with("BREAKWATER_URL="+s.url, "BREAKWATER_API_KEY="+adminKey)
	c := newCustomer(t, s)

	once := c.endpoint("once")
	w.run(0, "send", "library.once", "--wait=4m")
	list, _ := w.run(0, "deliveries", "list", "--endpoint", once.id, "--quiet")
	delivery := strings.TrimSpace(list)
	for attempt := 2; attempt <= 3; attempt++ {
		w.run(0, "deliveries", "retry", delivery)
		eventually(t, time.Minute, "it is delivered again", func() bool { return len(w.answers(delivery)) == attempt })
	}
	for i, code := range w.answers(delivery) {
		if code != http.StatusNoContent {
			t.Errorf("attempt %d was answered with %d, want 204", i+1, code)
		}
	}
	once.effects(1)

	later := c.endpoint("later")
	const silence = 30 * time.Second
	later.answers(library.Later(errors.New("the database is full"), silence))
	before := time.Now()
	w.run(0, "send", "library.later")
	eventually(t, time.Minute, "the lane is held", func() bool {
		facts, _ := w.run(0, "endpoints", "lane", later.id)
		return strings.Contains(facts, "nothing is sent before ")
	})
	until := s.lane(later.id).HoldUntil
	if until.Before(before.Add(silence)) {
		t.Errorf("the lane is held until %v, less than %v after the event", until, silence)
	}
	facts, _ := w.run(0, "endpoints", "lane", later.id)
	if until.After(time.Now().Add(time.Second)) && !strings.Contains(facts, until.Local().Format(time.DateTime)) {
		t.Errorf("the lane is held until %v; the command says\n%s", until, facts)
	}
	later.answers(nil)
	w.run(0, "send", "library.later", "--count", "3")
	asked := later.requests.Load()
	// Whatever arrives is looked at the moment it does: none of it may be early.
	eventually(t, 2*time.Minute, "something arrives again", func() bool { return later.requests.Load() > asked })
	if early := time.Until(until); early > time.Second {
		t.Errorf("a request came %v before the end of the silence", early)
	}
	later.counted(4, "status=delivered")
	later.effects(4)
}

// answers returns the status codes of a delivery's attempts.
func (w *walker) answers(delivery string) (codes []int) {
	w.t.Helper()
	printed, _ := w.run(0, "deliveries", "attempts", delivery, "--json")
	type attempt struct {
		StatusCode int `json:"status_code"`
	}
	for _, a := range document[struct{ Data []attempt }](w.t, printed).Data {
		codes = append(codes, a.StatusCode)
	}
	return codes
}
