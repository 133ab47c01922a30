package notify_test

import (
	"encoding/json"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
)

func render(t *testing.T, cfg notify.Config, n notify.Notice) notify.Rendered {
	t.Helper()
	r, err := newSender(t, cfg).Render(&n, since.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestFirstLineSaysWhatIsWrong for every kind of notice and subject.
func TestFirstLineSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		kind    hook.NoticeKind
		change  func(*hook.Alert)
		title   string
		subject string
	}{
		"firing": {hook.NoticeFiring, nil, "[PAGE] retry_storm: api.example.com/hook: 505 retries", "[page][retry_storm] api.example.com/hook"},
		"repeat": {hook.NoticeRepeat, nil, "[PAGE] retry_storm: api.example.com/hook: still firing: 505 retries", "[page][retry_storm] api.example.com/hook"},
		"raised": {hook.NoticeRaised, nil, "[PAGE] retry_storm: api.example.com/hook: now page: 505 retries", "[page][retry_storm] api.example.com/hook"},
		"flapping": {
			hook.NoticeFlapping, nil,
			"[PAGE] retry_storm: api.example.com/hook: comes and goes; the next notice is its end: 505 retries", "[page][retry_storm] api.example.com/hook",
		},
		"warning, tenant": {
			hook.NoticeFiring, func(a *hook.Alert) {
				a.Severity, a.Level, a.Subject.Endpoint = hook.SeverityWarning, hook.LevelTenant, 0
			}, "[WARNING] retry_storm: Acme & Söhne <b>: 505 retries", "[warning][retry_storm] Acme & Söhne <b>",
		},
		"system": {
			hook.NoticeFiring, func(a *hook.Alert) { a.Subject = hook.AlertSubject{} },
			"[PAGE] retry_storm: 505 retries", "[page][retry_storm] system",
		},
		"node": {
			hook.NoticeFiring, func(a *hook.Alert) { a.Subject = hook.AlertSubject{Node: 7} },
			"[PAGE] retry_storm: node_0000000000007: 505 retries", "[page][retry_storm] node_0000000000007",
		},
		"replay": {
			hook.NoticeFiring, func(a *hook.Alert) { a.Subject = hook.AlertSubject{Tenant: 11, Replay: 7} },
			"[PAGE] retry_storm: rpl_0000000000007: 505 retries", "[page][retry_storm] rpl_0000000000007",
		},
		"a summary that names it": {
			hook.NoticeFiring, func(a *hook.Alert) { a.Summary = "api.example.com/hook: 505 retries" },
			"[PAGE] retry_storm: api.example.com/hook: 505 retries", "[page][retry_storm] api.example.com/hook",
		},
		"no summary": {
			hook.NoticeFiring, func(a *hook.Alert) { a.Summary = "" },
			"[PAGE] retry_storm: api.example.com/hook", "[page][retry_storm] api.example.com/hook",
		},
		"end without a word": {
			hook.NoticeResolved, func(a *hook.Alert) {
				a.Status, a.Summary, a.ResolvedAt = hook.AlertResolved, "", since.Add(90*time.Minute)
			}, "[RESOLVED] retry_storm: api.example.com/hook: over after 1 h 30 min", "[resolved][retry_storm] api.example.com/hook",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := alert(1)
			a.Summary = "505 retries"
			if tc.change != nil {
				tc.change(a)
			}
			r := render(t, notify.Config{}, notice(email(1, "a@b"), a, tc.kind))
			if r.Title != tc.title || !strings.HasPrefix(r.Text, tc.title+"\n") {
				t.Errorf("title %q, want %q", r.Title, tc.title)
			}
			if r.Subject != tc.subject {
				t.Errorf("subject %q, want %q", r.Subject, tc.subject)
			}
		})
	}
}

// TestKeysInURLsStayHidden: the query of an endpoint's URL is shown nowhere.
func TestKeysInURLsStayHidden(t *testing.T) {
	t.Parallel()
	r := render(t, notify.Config{}, notice(email(1, "a@b"), alert(1), hook.NoticeFiring))
	for _, s := range []string{r.Title, r.Subject, r.Text, r.HTML, string(r.Slack), string(r.Webhook)} {
		if strings.Contains(s, "s3cret") {
			t.Errorf("%s", s)
		}
	}
}

func TestLinksFollowTheSettings(t *testing.T) {
	t.Parallel()
	n := notice(email(1, "a@b"), alert(1), hook.NoticeFiring)
	r := render(t, notify.Config{PublicURL: "https://x.example/base/", RunbookURL: "https://wiki.example/alerts"}, n)
	for _, want := range []string{"https://wiki.example/alerts#retry_storm", "https://x.example/base/v1/alerts/alr_"} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("%q is not in\n%s", want, r.Text)
		}
	}
}

func TestDurationsAndNumbersForPeople(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 s", -time.Hour: "0 s", 400 * time.Millisecond: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min",
		12*time.Minute + 30*time.Second: "12 min 30 s", time.Hour: "1 h", time.Hour + time.Second: "1 h",
		26*time.Hour + 59*time.Minute: "1 d 2 h", 1000 * time.Hour: "41 d 16 h",
	} {
		if got := notify.Lasted(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for v, want := range map[float64]string{
		0: "0", 5: "5", 9.53: "9.53", 1.0 / 3: "0.3333", 8120: "8120", 12345678: "12345678", -2: "-2", math.Inf(1): "unbounded", 99.999: "100",
	} {
		if got := notify.Number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	if got := notify.Number(math.NaN()); got != "unknown" {
		t.Errorf("NaN: %q", got)
	}
}

// FuzzForeignText: whatever a name, a URL or a summary holds, headlines and
// subjects are one bounded line, Slack gets no markup and HTML no element.
func FuzzForeignText(f *testing.F) {
	f.Add("505 retries", "https://api.example.com/hook", "Acme", "retry_storm", uint8(1))
	f.Add("x\r\nBcc: y", "https://h/\r\n<script>", "<!channel>\u2028", "a\nb", uint8(5))
	f.Add("\xff\xfe</title><script>", "::::", strings.Repeat("ü", 1000), "", uint8(4))
	s, err := notify.New(notify.Config{Queue: &memory{}, HTTP: httpFunc(nil), Log: slog.New(slog.DiscardHandler), PublicURL: publicURL})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, summary, url, tenant, rule string, kind uint8) {
		a := alert(1)
		a.Summary, a.Rule = summary, rule
		n := notice(email(1, "a@b"), a, hook.NoticeKind(kind))
		n.Endpoint, n.Tenant = url, tenant
		r, err := s.Render(&n, since.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{r.Title, r.Subject} {
			if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) || len([]rune(line)) > 1000 {
				t.Errorf("%q is not a line", line)
			}
		}
		if len([]rune(r.Subject)) > 200 || strings.TrimSpace(r.Subject) == "" {
			t.Errorf("subject %q", r.Subject)
		}
		var message slackMessage
		if err := json.Unmarshal(r.Slack, &message); err != nil || strings.ContainsAny(message.Text, "<>") {
			t.Errorf("slack %s: %v", r.Slack, err)
		}
		if !json.Valid(r.Webhook) {
			t.Errorf("webhook %s", r.Webhook)
		}
		checkElements(t, r.HTML)
	})
}

// checkElements fails when the page has an element that is not in its template.
func checkElements(t *testing.T, page string) {
	t.Helper()
	tokens := html.NewTokenizer(strings.NewReader(page))
	for {
		switch tokens.Next() {
		case html.ErrorToken:
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := tokens.TagName()
			if !strings.Contains(" html head meta title body p table tr td ul li a ", " "+string(name)+" ") {
				t.Errorf("element %s in\n%s", name, page)
			}
		default:
		}
	}
}
