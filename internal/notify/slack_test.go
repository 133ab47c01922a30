package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
)

func waiting(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

type slackMessage struct {
	Text        string
	Attachments []struct {
		Fallback, Color string
		Fields          []struct {
			Title, Value string
			Short        bool
		}
	}
}

// newSlack starts a server that takes what Slack's incoming webhooks take.
func newSlack(t *testing.T) (url string, messages func() []slackMessage) {
	t.Helper()
	var mu sync.Mutex
	var got []slackMessage
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		var m slackMessage
		if err := decoder.Decode(&m); err != nil || m.Text == "" || r.Header.Get("Content-Type") != "application/json" {
			http.Error(w, "invalid_payload", http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, m)
		_, _ = io.WriteString(w, "ok")
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []slackMessage {
		mu.Lock()
		defer mu.Unlock()
		return append([]slackMessage(nil), got...)
	}
}

func TestSlackMessageArrives(t *testing.T) {
	t.Parallel()
	url, messages := newSlack(t)
	queue := &memory{}
	queue.add(notice(slack(1, url), alert(1), hook.NoticeFiring))
	queue.add(notice(slack(1, url), resolved(1), hook.NoticeResolved))
	defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: newGuarded(t, egress.Config{Dev: true})}))()
	queue.results(waiting(t), t)
	got := messages()
	if len(got) != 2 {
		t.Fatalf("%d arrived: %q", len(got), queue.at(0).errors)
	}
	if want := "[PAGE] retry_storm: api.example.com/hook: 505 retries for 53 first attempts in 15 minutes (ratio 9.53)"; got[0].Text != want {
		t.Errorf("text = %q, want %q", got[0].Text, want)
	}
	if want := "[RESOLVED] retry_storm: api.example.com/hook: Over after 12m30s. It was: 505 retries for 53 first attempts in 15 minutes (ratio 9.53)"; got[1].Text != want {
		t.Errorf("text = %q, want %q", got[1].Text, want)
	}
	if red, green := got[0].Attachments[0].Color, got[1].Attachments[0].Color; red != "#c0392b" || green != "#27ae60" {
		t.Errorf("colours %s, %s", red, green)
	}
	fields := map[string]string{}
	for _, f := range got[0].Attachments[0].Fields {
		fields[f.Title] = f.Value
	}
	if !strings.HasPrefix(fields["Since"], "2026-03-04 05:00:00 UTC (") {
		t.Errorf("since %q", fields["Since"])
	}
	delete(fields, "Since")
	if diff := cmp.Diff(map[string]string{
		"Value": "9.53", "Threshold": "5", "Endpoint": "ep_000000000000c (api.example.com/hook)",
		"Tenant": "ten_000000000000b (Acme &amp; Söhne &lt;b&gt;)", "What to do": publicURL + "/docs/alerts.md#retry_storm",
		"Dashboard": publicURL + "/ui/alerts/alr_0000000000001", "API": publicURL + "/v1/alerts/alr_0000000000001",
	}, fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// TestNamesCannotCallEverybody: a tenant's name or a summary is text and nothing
// else.
func TestNamesCannotCallEverybody(t *testing.T) {
	t.Parallel()
	url, messages := newSlack(t)
	queue := &memory{}
	a := alert(1)
	a.Summary = "<!channel> @everyone <https://evil.example|click> & more"
	n := notice(slack(1, url), a, hook.NoticeFiring)
	n.Tenant = "@here <!here> [reset your key](https://evil.example)"
	n.Endpoint = "https://api.example.com/@channel/<!channel>"
	queue.add(n)
	defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: newGuarded(t, egress.Config{Dev: true})}))()
	queue.results(waiting(t), t)
	text, err := json.Marshal(messages())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<", ">", "@everyone", "@here", "@channel", "]("} {
		if strings.Contains(strings.ReplaceAll(strings.ReplaceAll(string(text), `\u003c`, "<"), `\u003e`, ">"), bad) {
			t.Errorf("%q is in %s", bad, text)
		}
	}
}

func TestLogChannelWritesOneLine(t *testing.T) {
	t.Parallel()
	var out syncBuffer
	queue := &memory{}
	ch := hook.Channel{ID: 1, Name: "log", Kind: hook.ChannelLog, SendResolved: true}
	bad := alert(3)
	bad.Summary = "first\nalert=forged status=resolved"
	queue.add(notice(ch, alert(1), hook.NoticeFiring))
	queue.add(notice(ch, resolved(2), hook.NoticeResolved))
	queue.add(notice(ch, bad, hook.NoticeFiring))
	defer run(t, newSender(t, notify.Config{Queue: queue, Log: slog.New(slog.NewTextHandler(&out, nil))}))()
	queue.results(waiting(t), t)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("log:\n%s", out.String())
	}
	for _, want := range []string{
		"level=WARN", "alert=retry_storm status=firing severity=page alert_level=endpoint notice=firing alert_id=alr_0000000000001",
		"subject=api.example.com/hook value=9.53 threshold=5", "tenant=ten_000000000000b endpoint=ep_000000000000c",
		"runbook=" + publicURL + "/docs/alerts.md#retry_storm",
	} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%q is not in %s", want, lines[0])
		}
	}
	if !strings.Contains(lines[1], "level=INFO") || !strings.Contains(lines[1], "status=resolved") || !strings.Contains(lines[1], "lasted=12m30s") {
		t.Errorf("end: %s", lines[1])
	}
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
