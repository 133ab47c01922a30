package notify_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
)

func TestCheckTakesGoodChannels(t *testing.T) {
	t.Parallel()
	full := webhook(1, "https://example.com/hook?a=b")
	full.Levels = []hook.AlertLevel{hook.LevelEndpoint, hook.LevelTenant, hook.LevelSystem}
	full.MinSeverity = hook.SeverityPage
	full.Rules = []string{"retry_storm", "dead_rate"}
	full.OperationalEvents = []string{"*", "storm.*", "breaker.opened"}
	full.Headers = map[string]string{"Authorization": "Bearer x", "X-Team": "ops"}
	for name, ch := range map[string]hook.Channel{
		"log": {Name: "log", Kind: hook.ChannelLog}, "webhook": full, "slack": slack(1, "http://mattermost.internal:8065/hooks/x"),
		"email": email(1, "ops@example.com", "lead@example.com"), "name in another script": {Name: "Bereitschaft Süd 夜", Kind: hook.ChannelLog},
	} {
		if err := notify.Check(ch); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckNamesFieldAndRule(t *testing.T) {
	t.Parallel()
	many := func(n int, format string) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf(format, i)
		}
		return out
	}
	for name, tc := range map[string]struct {
		ch     hook.Channel
		change func(*hook.Channel)
		path   string
		rule   string
	}{
		"no name":           {webhook(1, hookURL), func(c *hook.Channel) { c.Name = "" }, "name", "must not be empty"},
		"name of spaces":    {webhook(1, hookURL), func(c *hook.Channel) { c.Name = "  " }, "name", "must not be empty"},
		"long name":         {webhook(1, hookURL), func(c *hook.Channel) { c.Name = strings.Repeat("ü", 101) }, "name", "at most 100 characters"},
		"line in name":      {webhook(1, hookURL), func(c *hook.Channel) { c.Name = "a\r\nBcc: x" }, "name", "one line"},
		"name not UTF-8":    {webhook(1, hookURL), func(c *hook.Channel) { c.Name = "a\xff" }, "name", "UTF-8"},
		"no kind":           {webhook(1, hookURL), func(c *hook.Channel) { c.Kind = 0 }, "kind", "must be log, webhook, slack or email"},
		"unknown kind":      {webhook(1, hookURL), func(c *hook.Channel) { c.Kind = 9 }, "kind", "must be log"},
		"level":             {webhook(1, hookURL), func(c *hook.Channel) { c.Levels = []hook.AlertLevel{9} }, "levels[0]", "must be endpoint"},
		"level twice":       {webhook(1, hookURL), func(c *hook.Channel) { c.Levels = []hook.AlertLevel{1, 1} }, "levels[1]", "twice"},
		"tenant and system": {webhook(1, hookURL), func(c *hook.Channel) { c.Tenant, c.Levels = 5, []hook.AlertLevel{hook.LevelSystem} }, "levels[0]", "must not be system"},
		"severity":          {webhook(1, hookURL), func(c *hook.Channel) { c.MinSeverity = 4 }, "min_severity", "must be info"},
		"rule":              {webhook(1, hookURL), func(c *hook.Channel) { c.Rules = []string{"Retry Storm"} }, "rules[0]", "a-z"},
		"empty rule":        {webhook(1, hookURL), func(c *hook.Channel) { c.Rules = []string{""} }, "rules[0]", "a-z"},
		"rule twice":        {webhook(1, hookURL), func(c *hook.Channel) { c.Rules = []string{"a", "a"} }, "rules[1]", "twice"},
		"many rules":        {webhook(1, hookURL), func(c *hook.Channel) { c.Rules = many(101, "r%d") }, "rules", "at most 100"},
		"pattern":           {webhook(1, hookURL), func(c *hook.Channel) { c.OperationalEvents = []string{"storm*"} }, "operational_events[0]", "must be"},
		"misspelt pattern":  {webhook(1, hookURL), func(c *hook.Channel) { c.OperationalEvents = []string{"strom.*"} }, "operational_events[0]", "must select"},
		"pattern twice":     {webhook(1, hookURL), func(c *hook.Channel) { c.OperationalEvents = []string{"*", "*"} }, "operational_events[1]", "twice"},
		"many patterns":     {webhook(1, hookURL), func(c *hook.Channel) { c.OperationalEvents = many(51, "a%d") }, "operational_events", "at most 50"},
		"events over slack": {slack(1, hookURL), func(c *hook.Channel) { c.OperationalEvents = []string{"*"} }, "operational_events", "only webhook"},
		"no url":            {slack(1, ""), nil, "url", "must not be empty"},
		"long url":          {slack(1, hookURL+strings.Repeat("a", 2048)), nil, "url", "at most 2048"},
		"scheme":            {slack(1, "file:///etc/passwd"), nil, "url", "http or https"},
		"no host":           {slack(1, "https:///x"), nil, "url", "https://host/path"},
		"opaque":            {slack(1, "https:example.com"), nil, "url", "https://host/path"},
		"user":              {slack(1, "https://u:p@example.com"), nil, "url", "user name or password"},
		"fragment":          {slack(1, "https://example.com/#x"), nil, "url", "fragment"},
		"line in url":       {slack(1, "https://example.com/\r\nX: y"), nil, "url", "control characters"},
		"space in url":      {slack(1, "https://example.com/ x"), nil, "url", "spaces"},
		"broken url":        {slack(1, "https://example.com/%zz"), nil, "url", "not a valid URL"},
		"no secret":         {webhook(1, hookURL), func(c *hook.Channel) { c.Secret = "" }, "secret", "must start with"},
		"short secret":      {webhook(1, hookURL), func(c *hook.Channel) { c.Secret = "whsec_YQ==" }, "secret", "must have 24 to 64"},
		"header name":       {webhook(1, hookURL), func(c *hook.Channel) { c.Headers = map[string]string{"X\r\nY": "z"} }, `headers["X\r\nY"]`, "malformed"},
		"header value":      {webhook(1, hookURL), func(c *hook.Channel) { c.Headers = map[string]string{"X": "y\nZ: 1"} }, `headers["X"]`, "control character"},
		"reserved header":   {webhook(1, hookURL), func(c *hook.Channel) { c.Headers = map[string]string{"webhook-id": "1"} }, "headers.webhook-id", "reserved"},
		"content type":      {webhook(1, hookURL), func(c *hook.Channel) { c.Headers = map[string]string{"Content-Type": "1"} }, "headers.Content-Type", "reserved"},
		"header twice":      {webhook(1, hookURL), func(c *hook.Channel) { c.Headers = map[string]string{"X-A": "1", "x-a": "2"} }, "headers.x-a", "twice"},
		"many headers": {webhook(1, hookURL), func(c *hook.Channel) {
			c.Headers = map[string]string{}
			for _, n := range many(21, "x-%d") {
				c.Headers[n] = ""
			}
		}, "headers", "at most 20"},
		"nobody":            {email(1), nil, "to", "1 to 20 addresses"},
		"many addresses":    {email(1, many(21, "a%d@example.com")...), nil, "to", "1 to 20"},
		"address":           {email(1, "ops@example.com", "x"), nil, "to[1]", "name@domain"},
		"line in address":   {email(1, "ops@example.com\r\nBcc: x@y"), nil, "to[0]", "must have a host name"},
		"named address":     {email(1, "Ops <ops@example.com>"), nil, "to[0]", "before the @"},
		"address twice":     {email(1, "ops@example.com", "OPS@example.com"), nil, "to[1]", "twice"},
		"url for log":       {hook.Channel{Name: "l", Kind: hook.ChannelLog, URL: hookURL}, nil, "url", "must be empty for a channel of kind log"},
		"to for log":        {hook.Channel{Name: "l", Kind: hook.ChannelLog, To: []string{"a@b"}}, nil, "to", "must be empty"},
		"to for webhook":    {webhook(1, hookURL), func(c *hook.Channel) { c.To = []string{"a@b"} }, "to", "must be empty"},
		"secret for slack":  {slack(1, hookURL), func(c *hook.Channel) { c.Secret = secret }, "secret", "must be empty"},
		"headers for slack": {slack(1, hookURL), func(c *hook.Channel) { c.Headers = map[string]string{"a": "b"} }, "headers", "must be empty"},
		"url for email":     {email(1, "a@b"), func(c *hook.Channel) { c.URL = hookURL }, "url", "must be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change != nil {
				tc.change(&tc.ch)
			}
			var invalid *hook.Invalid
			if err := notify.Check(tc.ch); !errors.As(err, &invalid) {
				t.Fatalf("Check = %v", err)
			}
			if f := invalid.Fields; len(f) != 1 || f[0].Path != tc.path || !strings.Contains(f[0].Message, tc.rule) {
				t.Errorf("fields %+v, want %s: %s", f, tc.path, tc.rule)
			}
		})
	}
}

// TestErrorsKeepSecrets: neither a secret, nor a header's value, nor a URL with a
// token in it comes back in an error.
func TestErrorsKeepSecrets(t *testing.T) {
	t.Parallel()
	ch := webhook(1, "https://example.com/s3cret/%zz")
	ch.Secret = "whsec_s3cret"
	ch.Headers = map[string]string{"X": "s3cret\n"}
	if err := notify.Check(ch); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Check = %v", err)
	}
}

// FuzzCheck: a channel that passes has nothing in it that could leave its field,
// and nothing makes Check panic.
func FuzzCheck(f *testing.F) {
	f.Add(uint8(2), "pager", hookURL, secret, "X-Team", "ops", "", "storm.*", "retry_storm")
	f.Add(uint8(3), "chat", "https://hooks.slack.com/services/T/B/x", "", "", "", "", "", "")
	f.Add(uint8(4), "mail\r\nX: y", "", "", "", "", "a@b\r\nRCPT TO:<c@d>", "", "")
	f.Add(uint8(2), "x", "https://h/\r\n", "whsec_", "A\nB", "c\r\nd", "a@b", "*", "A")
	f.Fuzz(func(t *testing.T, kind uint8, name, url, secret, header, value, to, pattern, rule string) {
		ch := hook.Channel{Name: name, Kind: hook.ChannelKind(kind), URL: url, Secret: secret}
		if header != "" {
			ch.Headers = map[string]string{header: value}
		}
		if to != "" {
			ch.To = []string{to}
		}
		if pattern != "" {
			ch.OperationalEvents = []string{pattern}
		}
		if rule != "" {
			ch.Rules = []string{rule}
		}
		err := notify.Check(ch)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n\x00") {
				t.Errorf("the error has a control character: %q", err)
			}
			return
		}
		for _, s := range []string{name, url, secret, header, to, pattern, rule} {
			if strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }) {
				t.Errorf("%q passes", s)
			}
		}
		if header != "" && strings.ContainsAny(value, "\r\n\x00") || strings.ContainsAny(header, ": \t") || strings.ContainsAny(to, " <>,;:\"") {
			t.Errorf("header %q: %q, address %q pass", header, value, to)
		}
	})
}

func TestNewNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := notify.Config{Queue: &memory{}, HTTP: httpFunc(nil), Log: slog.New(slog.DiscardHandler)}
	if _, err := notify.New(good); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*notify.Config)
		want   string
	}{
		"no queue":      {func(c *notify.Config) { c.Queue = nil }, "Queue"},
		"no way out":    {func(c *notify.Config) { c.HTTP = nil }, "HTTP"},
		"no log":        {func(c *notify.Config) { c.Log = nil }, "Log"},
		"poll":          {func(c *notify.Config) { c.Poll = time.Millisecond }, "Poll must be"},
		"timeout":       {func(c *notify.Config) { c.Timeout = time.Hour }, "Timeout must be"},
		"grace":         {func(c *notify.Config) { c.Grace = -1 }, "Grace must be"},
		"sending":       {func(c *notify.Config) { c.Sending = 1001 }, "Sending must be"},
		"public url":    {func(c *notify.Config) { c.PublicURL = "javascript:alert(1)" }, "PublicURL must use http or https"},
		"runbook url":   {func(c *notify.Config) { c.RunbookURL = "x" }, "RunbookURL must use http or https"},
		"smtp":          {func(c *notify.Config) { c.SMTP = mailer.Config{Host: "mail.example.net"} }, "smtp.from must not be empty"},
		"smtp, no host": {func(c *notify.Config) { c.SMTP = mailer.Config{From: "a@b"} }, "smtp.host must not be empty"},
	} {
		cfg := good
		tc.change(&cfg)
		if _, err := notify.New(cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: New = %v, want %q", name, err, tc.want)
		}
	}
}
