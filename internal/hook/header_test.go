package hook_test

import (
	"errors"
	"net/textproto"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestCheckHeaderName(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		header string
		want   error
	}{
		"custom":               {"X-Tenant", nil},
		"authorization":        {"Authorization", nil},
		"all token characters": {"!#$%&'*+-.^_`|~09azAZ", nil},
		"longest":              {strings.Repeat("x", hook.MaxHeaderName), nil},
		"webhook without dash": {"X-Webhook-Source", nil},
		"webhooks":             {"Webhooks-Source", nil},
		"proxy alone":          {"Proxied-By", nil},
		"host inside":          {"X-Host", nil},

		"empty":             {"", hook.ErrHeaderMalformed},
		"too long":          {strings.Repeat("x", hook.MaxHeaderName+1), hook.ErrHeaderMalformed},
		"space":             {"X Tenant", hook.ErrHeaderMalformed},
		"trailing space":    {"Host ", hook.ErrHeaderMalformed},
		"colon":             {"X-Tenant:", hook.ErrHeaderMalformed},
		"line break":        {"X-Tenant\r\nHost", hook.ErrHeaderMalformed},
		"tab":               {"X\tTenant", hook.ErrHeaderMalformed},
		"NUL":               {"X\x00", hook.ErrHeaderMalformed},
		"not ASCII":         {"X-Größe", hook.ErrHeaderMalformed},
		"invalid UTF-8":     {"X-\xff", hook.ErrHeaderMalformed},
		"parentheses":       {"X(1)", hook.ErrHeaderMalformed},
		"Kelvin sign, fold": {"\u212aeep-Alive", hook.ErrHeaderMalformed},

		"host":              {"Host", hook.ErrHeaderReserved},
		"content-length":    {"Content-Length", hook.ErrHeaderReserved},
		"content-type":      {"Content-Type", hook.ErrHeaderReserved},
		"transfer-encoding": {"Transfer-Encoding", hook.ErrHeaderReserved},
		"connection":        {"Connection", hook.ErrHeaderReserved},
		"keep-alive":        {"Keep-Alive", hook.ErrHeaderReserved},
		"te":                {"TE", hook.ErrHeaderReserved},
		"trailer":           {"Trailer", hook.ErrHeaderReserved},
		"upgrade":           {"Upgrade", hook.ErrHeaderReserved},
		"expect":            {"Expect", hook.ErrHeaderReserved},
		"accept-encoding":   {"Accept-Encoding", hook.ErrHeaderReserved},
		"user-agent":        {"User-Agent", hook.ErrHeaderReserved},
		"idempotency":       {"Idempotency-Key", hook.ErrHeaderReserved},
		"x-idempotency":     {"X-Idempotency-Key", hook.ErrHeaderReserved},
		"proxy-*":           {"Proxy-Authorization", hook.ErrHeaderReserved},
		"webhook-*":         {"Webhook-Anything", hook.ErrHeaderReserved},
		"webhook-signature": {"Webhook-Signature", hook.ErrHeaderReserved},
		"breakwater-*":      {"Breakwater-Attempt", hook.ErrHeaderReserved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Names have no case, and both rules are about names.
			for _, header := range []string{tc.header, strings.Map(asciiLower, tc.header), strings.Map(asciiUpper, tc.header)} {
				if err := hook.CheckHeader(header, "v"); !errors.Is(err, tc.want) {
					t.Errorf("CheckHeader(%q) = %v, want %v", header, err, tc.want)
				}
				if err := hook.CheckHeaderName(header); !errors.Is(err, tc.want) {
					t.Errorf("CheckHeaderName(%q) = %v, want %v", header, err, tc.want)
				}
			}
		})
	}
}

// asciiLower leaves other letters alone: some of them have ASCII ones as their
// lower case, and the test is about names as they were given.
func asciiLower(r rune) rune {
	if r >= 'A' && r <= 'Z' {
		return r - 'A' + 'a'
	}
	return r
}

func asciiUpper(r rune) rune {
	if r >= 'a' && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}

func TestReservedHeaderIsExplained(t *testing.T) {
	t.Parallel()
	err := hook.CheckHeaderName("webhook-signature")
	if err == nil || !strings.HasPrefix(err.Error(), "header name is reserved") {
		t.Errorf(`CheckHeaderName("webhook-signature") = %v, want "header name is reserved"`, err)
	}
}

func TestCheckHeaderValue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value string
		ok    bool
	}{
		"empty":            {"", true},
		"text":             {"Bearer s3cret-value", true},
		"tab":              {"a\tb", true},
		"not ASCII":        {"größe", true},
		"bytes":            {"\xff\x80", true},
		"longest":          {strings.Repeat("s", hook.MaxHeaderValue), true},
		"too long":         {strings.Repeat("s", hook.MaxHeaderValue+1), false},
		"CR":               {"s3cret\rX: y", false},
		"LF":               {"s3cret\nX: y", false},
		"trailing newline": {"s3cret\n", false},
		"NUL":              {"s3cret\x00", false},
		"escape":           {"s3cret\x1b[2J", false},
		"unit separator":   {"s3cret\x1f", false},
		"DEL":              {"s3cret\x7f", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := hook.CheckHeader("X-Tenant", tc.value)
			if tc.ok && err != nil || !tc.ok && !errors.Is(err, hook.ErrHeaderMalformed) {
				t.Errorf("CheckHeader(%q) = %v, want ok %v", tc.value, err, tc.ok)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "sss")) {
				t.Errorf("error %q holds the value", err)
			}
		})
	}
}

func FuzzCheckHeader(f *testing.F) {
	f.Add("X-Tenant", "v")
	f.Add("webhook-ID", "v")
	f.Add("X-Tenant", "a\r\nHost: b")
	f.Fuzz(func(t *testing.T, name, value string) {
		if hook.CheckHeader(name, value) != nil {
			return
		}
		if strings.ContainsAny(name+value, "\r\n\x00") || strings.ContainsAny(name, " :\t") {
			t.Fatalf("CheckHeader(%q, %q) accepts what splits a request", name, value)
		}
		// The form that is sent must be as allowed as the form that was given.
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if err := hook.CheckHeader(canonical, value); err != nil {
			t.Fatalf("%q is accepted, but is sent as %q: %v", name, canonical, err)
		}
	})
}
