package notify_test

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer/mailtest"
)

func email(id hook.ID, to ...string) hook.Channel {
	return hook.Channel{ID: id, Name: "mail", Kind: hook.ChannelEmail, SendResolved: true, To: to}
}

func smtpTo(port int) mailer.Config {
	return mailer.Config{Host: "127.0.0.1", Port: port, From: "alerts@example.net", TLS: mailer.NoTLS}
}

// read takes an e-mail apart: its header, its text and its HTML.
func read(t *testing.T, m mailtest.Mail) (h mail.Header, text, html string) {
	t.Helper()
	msg, err := mail.ReadMessage(strings.NewReader(m.Data))
	if err != nil {
		t.Fatal(err)
	}
	_, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	reader := multipart.NewReader(msg.Body, params["boundary"])
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return msg.Header, text, html
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(part.Header.Get("Content-Type"), "text/html") {
			html = string(body)
		} else {
			text = strings.ReplaceAll(string(body), "\r\n", "\n")
		}
	}
}

// TestEmailArrives over STARTTLS with a password: subject, text, HTML and thread.
func TestEmailArrives(t *testing.T) {
	t.Parallel()
	serverTLS, pool := mailtest.Certificate(t, time.Now(), "127.0.0.1")
	server, port := mailtest.Start(t, mailtest.Options{TLS: serverTLS, Username: "breakwater", Password: "s3cret"})
	queue := &memory{}
	queue.add(notice(email(1, "ops@example.com"), alert(1), hook.NoticeFiring))
	queue.add(notice(email(1, "ops@example.com"), resolved(1), hook.NoticeResolved))
	queue.add(notice(email(1, "ops@example.com"), alert(2), hook.NoticeFiring))
	defer run(t, newSender(t, notify.Config{Queue: queue, SMTP: mailer.Config{
		Host: "127.0.0.1", Port: port, Username: "breakwater", Password: "s3cret", From: "Breakwater <alerts@example.net>", RootCAs: pool,
	}}))()
	queue.results(waiting(t), t)
	mails := server.Mails()
	if len(mails) != 3 || !mails[0].TLS || mails[0].User != "breakwater" {
		t.Fatalf("%d arrived: %q", len(mails), queue.at(0).errors)
	}
	bySubject := map[string][]mail.Header{}
	var firing, end string
	for _, m := range mails {
		h, text, _ := read(t, m)
		bySubject[h.Get("Subject")] = append(bySubject[h.Get("Subject")], h)
		switch {
		case strings.HasPrefix(text, "[RESOLVED]"):
			end = text
		case strings.Contains(text, "alr_0000000000001"):
			firing = text
		}
	}
	first, last := bySubject["[page][retry_storm] api.example.com/hook"], bySubject["[resolved][retry_storm] api.example.com/hook"]
	if len(first) != 2 || len(last) != 1 {
		t.Fatalf("subjects %v", bySubject)
	}
	if !slices.ContainsFunc(first, func(h mail.Header) bool { return h.Get("References") == last[0].Get("References") }) ||
		first[0].Get("References") == first[1].Get("References") {
		t.Error("the notices of an alert, and of no other, must be one thread")
	}
	ids := []string{first[0].Get("Message-Id"), first[1].Get("Message-Id"), last[0].Get("Message-Id")}
	if slices.Sort(ids); len(slices.Compact(ids)) != 3 {
		t.Errorf("message ids %v", ids)
	}
	for _, want := range []string{
		"[PAGE] retry_storm: api.example.com/hook: 505 retries for 53 first attempts in 15 minutes (ratio 9.53)\n\n",
		"Value:      9.53\n", "Threshold:  5\n", "Since:      2026-03-04 05:00:00 UTC (", "Endpoint:   ep_000000000000c (api.example.com/hook)\n",
		"Tenant:     ten_000000000000b (Acme & Söhne <b>)\n", "What to do: " + publicURL + "/docs/alerts.md#retry_storm\n",
		"API:        " + publicURL + "/v1/alerts/alr_0000000000001\n",
	} {
		if !strings.Contains(firing, want) {
			t.Errorf("%q is not in\n%s", want, firing)
		}
	}
	if !strings.Contains(end, "Over after 12m30s") || !strings.Contains(end, "Lasted:     12 min 30 s\n") || strings.Contains(end, "What to do") {
		t.Errorf("end:\n%s", end)
	}
}

// TestHTMLIsEscaped: nothing that others wrote becomes markup.
func TestHTMLIsEscaped(t *testing.T) {
	t.Parallel()
	server, port := mailtest.Start(t, mailtest.Options{})
	queue := &memory{}
	a := alert(1)
	a.Summary = `<script>alert(1)</script> "quoted" & <img src=x onerror=y>`
	n := notice(email(1, "ops@example.com"), a, hook.NoticeFiring)
	n.Endpoint = "https://api.example.com/<b>"
	queue.add(n)
	defer run(t, newSender(t, notify.Config{Queue: queue, SMTP: smtpTo(port)}))()
	queue.results(waiting(t), t)
	_, text, html := read(t, server.Mails()[0])
	if strings.Contains(html, "<script") || strings.Contains(html, "<img") || strings.Contains(html, "<b>") ||
		!strings.Contains(html, "&lt;script&gt;") || !strings.Contains(html, `href="https://hooks.example.net/docs/alerts.md#retry_storm"`) {
		t.Errorf("html:\n%s", html)
	}
	if !strings.Contains(text, `<script>alert(1)</script> "quoted" &`) {
		t.Errorf("text:\n%s", text)
	}
}

// TestForeignTextAddsNoHeader: line breaks in what others wrote end up as spaces.
func TestForeignTextAddsNoHeader(t *testing.T) {
	t.Parallel()
	server, port := mailtest.Start(t, mailtest.Options{})
	queue := &memory{}
	a := alert(1)
	a.Rule = "retry_storm\r\nBcc: evil@example.org"
	a.Subject = hook.AlertSubject{Tenant: 11}
	a.Summary = "x\r\n.\r\nMAIL FROM:<evil@example.org>"
	n := notice(email(1, "ops@example.com"), a, hook.NoticeFiring)
	n.Tenant = "Acme\r\nBcc: evil@example.org\r\n\r\nBody"
	queue.add(n)
	defer run(t, newSender(t, notify.Config{Queue: queue, SMTP: smtpTo(port)}))()
	queue.results(waiting(t), t)
	mails := server.Mails()
	if len(mails) != 1 {
		t.Fatalf("%d arrived: %q", len(mails), queue.at(0).errors)
	}
	h, _, _ := read(t, mails[0])
	if h.Get("Bcc") != "" || !slices.Equal(mails[0].To, []string{"ops@example.com"}) {
		t.Errorf("header %v, to %v", h, mails[0].To)
	}
	if got, want := h.Get("Subject"), "[page][retry_storm Bcc: evil@example.org] Acme Bcc: evil@example.org Body"; got != want {
		t.Errorf("subject %q", got)
	}
}

// TestRecipientsAreServedOnce: who has the notice does not get it again because
// somebody else's mailbox is full.
func TestRecipientsAreServedOnce(t *testing.T) {
	t.Parallel()
	tries := 0
	server, port := mailtest.Start(t, mailtest.Options{Answer: func(c string) string {
		switch {
		case strings.HasPrefix(c, "RCPT") && strings.Contains(c, "gone@"):
			return "550 5.1.1 no such user"
		case strings.HasPrefix(c, "RCPT") && strings.Contains(c, "full@"):
			if tries++; tries == 1 {
				return "452 4.2.2 mailbox full"
			}
		}
		return ""
	}})
	queue := &memory{}
	queue.add(notice(email(1, "ops@example.com", "gone@example.com", "full@example.com"), alert(1), hook.NoticeFiring))
	defer run(t, newSender(t, notify.Config{Queue: queue, SMTP: smtpTo(port)}))()
	if got := queue.results(waiting(t), t); got[0] != hook.NoticeSent {
		t.Fatalf("%v: %q", got, queue.at(0).errors)
	}
	mails := server.Mails()
	if len(mails) != 2 || !slices.Equal(mails[0].To, []string{"ops@example.com"}) || !slices.Equal(mails[1].To, []string{"full@example.com"}) {
		t.Fatalf("arrived %+v", mails)
	}
	h0, _, _ := read(t, mails[0])
	h1, _, _ := read(t, mails[1])
	if h0.Get("Message-Id") != h1.Get("Message-Id") || h0.Get("To") != h1.Get("To") {
		t.Error("both must be the same message")
	}
	e := queue.at(0).errors
	if !strings.Contains(e[0], "full@example.com: answered 452") || !strings.Contains(e[0], "gone@example.com: answered 550") {
		t.Errorf("errors %q", e)
	}
	if !strings.Contains(e[1], "gone@example.com: answered 550") {
		t.Errorf("the result does not say who was left out: %q", e)
	}
}

// TestNoticeThatNobodyGotFails: whoever was refused, and in which try.
func TestNoticeThatNobodyGotFails(t *testing.T) {
	t.Parallel()
	tries := 0
	server, port := mailtest.Start(t, mailtest.Options{Answer: func(c string) string {
		switch {
		case strings.HasPrefix(c, "RCPT") && strings.Contains(c, "gone@"):
			return "550 no such user"
		case strings.HasPrefix(c, "RCPT"):
			if tries++; tries == 1 {
				return "452 mailbox full"
			}
			return "550 mailbox removed"
		}
		return ""
	}})
	queue := &memory{}
	queue.add(notice(email(1, "gone@example.com", "full@example.com"), alert(1), hook.NoticeFiring))
	defer run(t, newSender(t, notify.Config{Queue: queue, SMTP: smtpTo(port)}))()
	if got := queue.results(waiting(t), t); got[0] != hook.NoticeFailed || len(server.Mails()) != 0 || queue.at(0).n.Tries != 2 {
		t.Errorf("%v after %d tries: %q", got, queue.at(0).n.Tries, queue.at(0).errors)
	}
}

// TestAddressRefusedForGoodFailsOnce: 550 for everybody ends the notice.
func TestAddressRefusedForGoodFailsOnce(t *testing.T) {
	t.Parallel()
	server, port := mailtest.Start(t, mailtest.Options{Answer: func(c string) string {
		if strings.HasPrefix(c, "RCPT") {
			return "550 5.1.1 no such user"
		}
		return ""
	}})
	queue := &memory{}
	queue.add(notice(email(1, "gone@example.com"), alert(1), hook.NoticeFiring))
	defer run(t, newSender(t, notify.Config{Queue: queue, SMTP: smtpTo(port)}))()
	if got := queue.results(waiting(t), t); got[0] != hook.NoticeFailed || queue.at(0).n.Tries != 1 || server.Sessions() != 1 {
		t.Errorf("%v after %d tries, %d sessions", got, queue.at(0).n.Tries, server.Sessions())
	}
}

// TestTryAfterServerRecovers: 421 at the first try, taken at the second.
func TestTryAfterServerRecovers(t *testing.T) {
	t.Parallel()
	greeted := 0
	server, port := mailtest.Start(t, mailtest.Options{Answer: func(c string) string {
		if c == "CONNECT" {
			if greeted++; greeted == 1 {
				return "421 too busy"
			}
		}
		return ""
	}})
	queue := &memory{}
	queue.add(notice(email(1, "ops@example.com"), alert(1), hook.NoticeFiring))
	defer run(t, newSender(t, notify.Config{Queue: queue, SMTP: smtpTo(port)}))()
	if got := queue.results(waiting(t), t); got[0] != hook.NoticeSent || queue.at(0).n.Tries != 2 || len(server.Mails()) != 1 {
		t.Errorf("%v after %d tries", got, queue.at(0).n.Tries)
	}
}

// TestTestTellsTheTruth about every kind of channel.
func TestTestTellsTheTruth(t *testing.T) {
	t.Parallel()
	server, port := mailtest.Start(t, mailtest.Options{Answer: func(c string) string {
		if strings.HasPrefix(c, "RCPT") && strings.Contains(c, "gone@") {
			return "550 no such user"
		}
		return ""
	}})
	s := newSender(t, notify.Config{SMTP: smtpTo(port)})
	without := newSender(t, notify.Config{})
	for name, tc := range map[string]struct {
		s    *notify.Sender
		ch   hook.Channel
		want notify.TestResult
	}{
		"log":              {s, hook.Channel{Name: "log", Kind: hook.ChannelLog}, notify.TestResult{OK: true, Detail: "written to the log"}},
		"webhook":          {s, webhook(1, hookURL), notify.TestResult{OK: true, Detail: "the receiver took it"}},
		"slack":            {s, slack(1, hookURL), notify.TestResult{OK: true, Detail: "the receiver took it"}},
		"email":            {s, email(1, "ops@example.com"), notify.TestResult{OK: true, Detail: "the mail server took it"}},
		"email, bad":       {s, email(1, "gone@example.com"), notify.TestResult{Detail: "recipient gone@example.com: answered 550 no such user"}},
		"email, partly":    {s, email(1, "ops@example.com", "gone@example.com"), notify.TestResult{Detail: "not sent to everybody: recipient gone@example.com: answered 550 no such user"}},
		"email, no server": {without, email(1, "ops@example.com"), notify.TestResult{Detail: "no mail server is set (smtp.host)"}},
		"invalid":          {s, slack(1, "ftp://example.com"), notify.TestResult{Detail: "url must use http or https"}},
	} {
		if got := tc.s.Test(waiting(t), tc.ch); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
	h, text, _ := read(t, server.Mails()[0])
	if h.Get("Subject") != "[test][test] system" || !strings.Contains(text, `This is a test of the channel "mail". Nothing is wrong.`) ||
		strings.Contains(text, "/v1/alerts") {
		t.Errorf("subject %q, text\n%s", h.Get("Subject"), text)
	}
}
