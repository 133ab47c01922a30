package mailer_test

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer/mailtest"
)

const patience = 2 * time.Minute

func newMailer(t *testing.T, cfg mailer.Config) *mailer.Mailer {
	t.Helper()
	m, err := mailer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func message() mailer.Message {
	return mailer.Message{
		To: []string{"ops@example.com", "lead@example.com"}, Subject: "[page][retry_storm] api.example.com/hook",
		Text: "[PAGE] retry_storm\n\n.a line that begins with a dot\n", HTML: "<p>retry_storm &lt;b&gt; ü</p>",
		Date: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), ID: "alr_1_firing_1", Thread: "alr_1", Urgent: true,
	}
}

func config(port int) mailer.Config {
	return mailer.Config{Host: "127.0.0.1", Port: port, From: "Breakwater Süd <alerts@example.net>", TLS: mailer.NoTLS}
}

// TestMessageArrives over each kind of connection, with and without a password.
func TestMessageArrives(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tls      string
		secure   bool
		username string
	}{
		"starttls":               {mailer.StartTLS, true, ""},
		"starttls, password":     {mailer.StartTLS, true, "breakwater"},
		"implicit TLS":           {mailer.ImplicitTLS, true, ""},
		"implicit TLS, password": {mailer.ImplicitTLS, true, "breakwater"},
		"none":                   {mailer.NoTLS, false, ""},
		"none, local password":   {mailer.NoTLS, false, "breakwater"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			o := mailtest.Options{Implicit: tc.tls == mailer.ImplicitTLS, Username: tc.username, Password: "s3cret pass"}
			var cfg mailer.Config
			if tc.secure {
				o.TLS, cfg.RootCAs = mailtest.Certificate(t, time.Now(), "127.0.0.1")
			}
			server, port := mailtest.Start(t, o)
			cfg.Host, cfg.Port, cfg.TLS, cfg.From = "127.0.0.1", port, tc.tls, "alerts@example.net"
			if tc.username != "" {
				cfg.Username, cfg.Password = tc.username, "s3cret pass"
			}
			refused, err := newMailer(t, cfg).Send(ctx, message(), []string{"ops@example.com", "lead@example.com"})
			if err != nil || len(refused) != 0 {
				t.Fatalf("Send = %v, %v", refused, err)
			}
			mails := server.Mails()
			if len(mails) != 1 {
				t.Fatalf("%d messages arrived, want 1", len(mails))
			}
			got := mails[0]
			if got.From != "alerts@example.net" || !slices.Equal(got.To, []string{"ops@example.com", "lead@example.com"}) ||
				got.TLS != tc.secure || got.User != tc.username {
				t.Errorf("arrived %+v", got)
			}
		})
	}
}

func TestMessageHasWhatReadersNeed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server, port := mailtest.Start(t, mailtest.Options{})
	if _, err := newMailer(t, config(port)).Send(ctx, message(), []string{"ops@example.com"}); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(server.Commands(), func(c string) bool { return strings.Contains(c, "SMTPUTF8") }) {
		t.Error("an ASCII message asks for SMTPUTF8")
	}
	m, err := mail.ReadMessage(strings.NewReader(server.Mails()[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Subject": "[page][retry_storm] api.example.com/hook", "Message-Id": "<alr_1_firing_1@example.net>",
		"References": "<alr_1@example.net>", "In-Reply-To": "<alr_1@example.net>", "Auto-Submitted": "auto-generated",
		"Date": "Wed, 04 Mar 2026 05:06:07 +0000", "To": "<ops@example.com>, <lead@example.com>", "Importance": "high",
		"From": "Breakwater Süd <alerts@example.net>",
	} {
		got, err := (&mime.WordDecoder{}).DecodeHeader(m.Header.Get(name))
		if err != nil || strings.ReplaceAll(got, `"`, "") != want {
			t.Errorf("%s = %q (%v), want %q", name, got, err, want)
		}
	}
	parts := readParts(t, m)
	if got := parts["text/plain"]; got != message().Text {
		t.Errorf("text = %q", got)
	}
	if got := parts["text/html"]; got != message().HTML {
		t.Errorf("html = %q", got)
	}
}

func readParts(t *testing.T, m *mail.Message) map[string]string {
	t.Helper()
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("content type %q, %v", kind, err)
	}
	out := map[string]string{}
	reader := multipart.NewReader(m.Body, params["boundary"])
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		out[kind] = strings.ReplaceAll(string(text), "\r\n", "\n")
	}
}

// TestNothingLeavesWithoutTheRightTLS: a server that is not who it should be, or
// offers no TLS, gets neither the password nor the message.
func TestNothingLeavesWithoutTheRightTLS(t *testing.T) {
	t.Parallel()
	right, pool := mailtest.Certificate(t, time.Now(), "127.0.0.1")
	otherName, otherPool := mailtest.Certificate(t, time.Now(), "mail.example.org")
	old, oldPool := mailtest.Certificate(t, time.Now().Add(-48*time.Hour), "127.0.0.1")
	for name, tc := range map[string]struct {
		o    mailtest.Options
		cfg  mailer.Config
		want string
	}{
		"starttls, unknown authority": {mailtest.Options{TLS: right}, mailer.Config{TLS: mailer.StartTLS}, "certificate is not valid"},
		"implicit, unknown authority": {mailtest.Options{TLS: right, Implicit: true}, mailer.Config{TLS: mailer.ImplicitTLS}, "certificate is not valid"},
		"starttls, another name":      {mailtest.Options{TLS: otherName}, mailer.Config{TLS: mailer.StartTLS, RootCAs: otherPool}, "certificate is not valid"},
		"implicit, expired":           {mailtest.Options{TLS: old, Implicit: true}, mailer.Config{TLS: mailer.ImplicitTLS, RootCAs: oldPool}, "certificate is not valid"},
		"starttls not offered":        {mailtest.Options{}, mailer.Config{TLS: mailer.StartTLS, RootCAs: pool}, "STARTTLS"},
		"starttls refused": {mailtest.Options{TLS: right, Answer: func(c string) string {
			if c == "STARTTLS" {
				return "454 not now"
			}
			return ""
		}}, mailer.Config{TLS: mailer.StartTLS, RootCAs: pool}, "454 not now"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			tc.o.Username, tc.o.Password = "breakwater", "s3cret"
			server, port := mailtest.Start(t, tc.o)
			tc.cfg.Host, tc.cfg.Port, tc.cfg.From = "127.0.0.1", port, "alerts@example.net"
			tc.cfg.Username, tc.cfg.Password = "breakwater", "s3cret"
			_, err := newMailer(t, tc.cfg).Send(ctx, message(), []string{"ops@example.com"})
			var e *mailer.Error
			if !errors.As(err, &e) || e.Permanent || !strings.Contains(e.Error(), tc.want) {
				t.Fatalf("Send = %v, want a passing error with %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "127.0.0.1:") || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error says too much: %v", err)
			}
			if len(server.Mails()) != 0 || slices.ContainsFunc(server.Commands(), func(c string) bool { return strings.HasPrefix(c, "MAIL") }) {
				t.Errorf("the server heard %q", server.Commands())
			}
		})
	}
}

// TestAnswersSayWhetherToTryAgain: 5xx is final, everything else is not.
func TestAnswersSayWhetherToTryAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at, answer string
		permanent  bool
		want       string
	}{
		"greeting 421":     {"CONNECT", "421 too busy", false, "421 too busy"},
		"greeting 554":     {"CONNECT", "554 go away", true, "554 go away"},
		"greeting dropped": {"CONNECT", mailtest.Drop, false, "connection was closed"},
		"hello refused":    {"EHLO", "550 who are you", true, "550"},
		"password":         {"AUTH", "535 wrong", true, "535 wrong"},
		"password, later":  {"AUTH", "454 ask again", false, "454 ask again"},
		"sender":           {"MAIL", "550 not you", true, "sender alerts@example.net: answered 550 not you"},
		"sender, later":    {"MAIL", "451 later", false, "451 later"},
		"data":             {"DATA", "554 no", true, "message: answered 554 no"},
		"data, later":      {"DATA", "452 disk", false, "452 disk"},
		"end":              {"DATA END", "552 too large", true, "552 too large"},
		"end, later":       {"DATA END", "451 later", false, "451 later"},
		"end dropped":      {"DATA END", mailtest.Drop, false, "connection was closed"},
		"control chars":    {"MAIL", "451 \x1b[31mred\x07", false, "[31mred"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			server, port := mailtest.Start(t, mailtest.Options{Username: "u", Password: "p", Answer: func(c string) string {
				if c == tc.at || strings.HasPrefix(c, tc.at+" ") && c != "DATA END" || tc.at == "EHLO" && strings.HasPrefix(c, "HELO") {
					return tc.answer
				}
				return ""
			}})
			cfg := config(port)
			cfg.Username, cfg.Password = "u", "p"
			refused, err := newMailer(t, cfg).Send(ctx, message(), []string{"ops@example.com"})
			var e *mailer.Error
			if !errors.As(err, &e) || e.Permanent != tc.permanent || !strings.Contains(e.Error(), tc.want) || len(refused) != 0 {
				t.Errorf("Send = %v, %v; want %q, permanent %v", refused, err, tc.want, tc.permanent)
			}
			if err != nil && strings.ContainsAny(err.Error(), "\x1b\x07\r\n") {
				t.Errorf("the error has control characters: %q", err)
			}
			if len(server.Mails()) != 0 {
				t.Error("a message was taken")
			}
		})
	}
}

// TestOneBadAddressDoesNotKeepItFromOthers: the message goes to those whom the
// server takes.
func TestOneBadAddressDoesNotKeepItFromOthers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server, port := mailtest.Start(t, mailtest.Options{Answer: func(c string) string {
		switch {
		case strings.Contains(c, "gone@"):
			return "550 5.1.1 no such user"
		case strings.Contains(c, "full@"):
			return "452 4.2.2 mailbox full"
		}
		return ""
	}})
	m := newMailer(t, config(port))
	to := []string{"gone@example.com", "ops@example.com", "full@example.com"}
	refused, err := m.Send(ctx, message(), to)
	if err != nil || len(refused) != 2 {
		t.Fatalf("Send = %v, %v", refused, err)
	}
	if e := refused["gone@example.com"]; e == nil || !e.Permanent {
		t.Errorf("gone = %v, want permanent", e)
	}
	if e := refused["full@example.com"]; e == nil || e.Permanent {
		t.Errorf("full = %v, want passing", e)
	}
	if mails := server.Mails(); len(mails) != 1 || !slices.Equal(mails[0].To, []string{"ops@example.com"}) {
		t.Errorf("arrived %+v", mails)
	}
	// With nobody left there is an error, and no message.
	refused, err = m.Send(ctx, message(), []string{"gone@example.com"})
	if err == nil || len(refused) != 1 || len(server.Mails()) != 1 {
		t.Errorf("Send = %v, %v; want an error", refused, err)
	}
}

// TestHangingServerEndsInTime: wherever the server falls silent, Send ends when
// its context does, in virtual time, and leaves no goroutine behind.
func TestHangingServerEndsInTime(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"CONNECT", "EHLO", "MAIL", "RCPT", "DATA", "DATA END"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := mailtest.New(mailtest.Options{Answer: func(c string) string {
					if c == at || strings.HasPrefix(c, at+" ") && c != "DATA END" {
						return mailtest.Hang
					}
					return ""
				}})
				cfg := config(25)
				cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
					ours, theirs := net.Pipe()
					go server.Serve(theirs)
					return ours, nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				began := time.Now()
				_, err := newMailer(t, cfg).Send(ctx, message(), []string{"ops@example.com"})
				var e *mailer.Error
				if !errors.As(err, &e) || e.Permanent || e.Text != "no answer in time" {
					t.Errorf("Send = %v", err)
				}
				if took := time.Since(began); took != 20*time.Second {
					t.Errorf("took %v, want 20s", took)
				}
			})
		})
	}
}

// TestHandshakeThatHangsEndsInTime: a server that accepts and says nothing while
// TLS is expected.
func TestHandshakeThatHangsEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := config(465)
		cfg.TLS = mailer.ImplicitTLS
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		}
		_, err := newMailer(t, cfg).Send(t.Context(), message(), []string{"ops@example.com"})
		if err == nil || !strings.Contains(err.Error(), "no answer in time") {
			t.Errorf("Send = %v", err)
		}
	})
}

// TestSilentGoodbyeIsNoFailure: the server has taken the message, so it must not
// be sent again because QUIT is not answered.
func TestSilentGoodbyeIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := mailtest.New(mailtest.Options{Answer: func(c string) string {
			if c == "QUIT" {
				return mailtest.Hang
			}
			return ""
		}})
		cfg := config(25)
		cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go server.Serve(theirs)
			return ours, nil
		}
		if _, err := newMailer(t, cfg).Send(t.Context(), message(), []string{"ops@example.com"}); err != nil {
			t.Errorf("Send = %v", err)
		}
		if n := len(server.Mails()); n != 1 {
			t.Errorf("%d messages", n)
		}
	})
}

// TestServerThatTalksWithoutEndIsCutOff: answers are read into memory.
func TestServerThatTalksWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	cfg := config(25)
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			for {
				if _, err := theirs.Write([]byte("220-" + strings.Repeat("x", 1000) + "\r\n")); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := newMailer(t, cfg).Send(ctx, message(), []string{"ops@example.com"})
	if err == nil || !strings.Contains(err.Error(), "says too much") {
		t.Errorf("Send = %v", err)
	}
}

func TestNoServerIsAPassingError(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = newMailer(t, config(port)).Send(ctx, message(), []string{"ops@example.com"})
	var e *mailer.Error
	if !errors.As(err, &e) || e.Permanent || !strings.Contains(e.Text, "refused") || strings.Contains(e.Text, "127.0.0.1") {
		t.Errorf("Send = %v", err)
	}
}

func TestNewNamesTheSettingAndTheRule(t *testing.T) {
	t.Parallel()
	good := mailer.Config{Host: "mail.example.net", From: "a@example.net"}
	if _, err := mailer.New(good); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*mailer.Config)
		want   string
	}{
		"no host":             {func(c *mailer.Config) { c.Host = "" }, "smtp.host"},
		"host with a line":    {func(c *mailer.Config) { c.Host = "a\r\nb" }, "smtp.host"},
		"unix socket":         {func(c *mailer.Config) { c.Host = "unix:///run/x" }, "smtp.host"},
		"port":                {func(c *mailer.Config) { c.Port = 65536 }, "smtp.port"},
		"negative port":       {func(c *mailer.Config) { c.Port = -1 }, "smtp.port"},
		"tls":                 {func(c *mailer.Config) { c.TLS = "ssl" }, "smtp.tls must be"},
		"no password":         {func(c *mailer.Config) { c.Username = "u" }, "smtp.password"},
		"no username":         {func(c *mailer.Config) { c.Password = "p" }, "smtp.username"},
		"line in username":    {func(c *mailer.Config) { c.Username, c.Password = "u\n", "p" }, "smtp.username"},
		"line in password":    {func(c *mailer.Config) { c.Username, c.Password = "u", "p\r" }, "smtp.password"},
		"password, clear":     {func(c *mailer.Config) { c.Username, c.Password, c.TLS = "u", "p", mailer.NoTLS }, "travel in the clear"},
		"no from":             {func(c *mailer.Config) { c.From = "" }, "smtp.from"},
		"from":                {func(c *mailer.Config) { c.From = "nobody" }, "smtp.from"},
		"line in from":        {func(c *mailer.Config) { c.From = "a@example.net\r\nBcc: b@example.net" }, "smtp.from"},
		"line in from's name": {func(c *mailer.Config) { c.From = "=?utf-8?q?x=0D=0ABcc=3A_y?= <a@example.net>" }, "smtp.from"},
		"two senders":         {func(c *mailer.Config) { c.From = "a@example.net, b@example.net" }, "smtp.from"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := good
			tc.change(&cfg)
			_, err := mailer.New(cfg)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New = %v, want %q", err, tc.want)
			}
		})
	}
}

// TestNothingGetsIntoAHeader: what does not fit its field is refused before a
// connection is opened.
func TestNothingGetsIntoAHeader(t *testing.T) {
	t.Parallel()
	server, port := mailtest.Start(t, mailtest.Options{})
	m := newMailer(t, config(port))
	for name, change := range map[string]func(*mailer.Message){
		"subject":       func(m *mailer.Message) { m.Subject = "x\r\nBcc: evil@example.org" },
		"subject, LF":   func(m *mailer.Message) { m.Subject = "x\nBcc: evil@example.org" },
		"subject, NUL":  func(m *mailer.Message) { m.Subject = "x\x00" },
		"subject, 2028": func(m *mailer.Message) { m.Subject = "x\u2028y" },
		"empty subject": func(m *mailer.Message) { m.Subject = " " },
		"to":            func(m *mailer.Message) { m.To = []string{"a@example.com>\r\nRCPT TO:<evil@example.org"} },
		"quoted to":     func(m *mailer.Message) { m.To = []string{`"a> ORCPT=b"@example.com`} },
		"id":            func(m *mailer.Message) { m.ID = "a>\r\nX: y" },
		"thread":        func(m *mailer.Message) { m.Thread = "a b" },
	} {
		msg := message()
		change(&msg)
		_, err := m.Send(t.Context(), msg, []string{"ops@example.com"})
		var e *mailer.Error
		if !errors.As(err, &e) || !e.Permanent {
			t.Errorf("%s: Send = %v, want a permanent error", name, err)
		}
	}
	if _, err := m.Send(t.Context(), message(), []string{"a@example.com> NOTIFY=NEVER"}); err == nil {
		t.Error("a recipient with a parameter was taken")
	}
	if server.Sessions() != 0 {
		t.Error("a connection was opened")
	}
}
