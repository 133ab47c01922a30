package mailer_test

import (
	"net/mail"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
)

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"a@b", "ops@example.com", "first.last+tag@mail.example.co.uk", "o'hara@example.com", "x@xn--bcher-kva.example",
		strings.Repeat("a", 64) + "@example.com", "1@2.3",
	} {
		if err := mailer.CheckAddress(good); err != nil {
			t.Errorf("CheckAddress(%q) = %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "a", "@", "a@", "@b", "a@@b", "a b@c", "a@b c", "a@b\n", "a\r\n@b", "a@b>", "<a@b>", "Ops <a@b>", `"a"@b`, "a..b@c", ".a@b", "a.@b",
		"a@b..c", "a@-b", "a@b-", "a@[127.0.0.1]", "a@b,c@d", "a@b;c@d", "ü@b", "a@ü", "a@b\x00", "a@b.", "a(x)@b", "a@b(x)",
		strings.Repeat("a", 65) + "@b", "a@" + strings.Repeat("b", 64), "a@" + strings.Repeat("b.", 126) + "b",
		"a\u200b@b", "a@b\u2028",
	} {
		if err := mailer.CheckAddress(bad); err == nil {
			t.Errorf("CheckAddress(%q) takes it", bad)
		}
	}
}

// FuzzCheckAddress: an address that passes has no character that means anything
// in a command or a header, and everybody reads it as the same one.
func FuzzCheckAddress(f *testing.F) {
	for _, seed := range []string{"ops@example.com", "a\r\n@b", `"a> X"@b`, "a@b,c@d", "Ops <a@b>", "a@[::1]", "ü@b", "a+b@c.d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if mailer.CheckAddress(s) != nil {
			return
		}
		if len(s) > mailer.MaxAddress || strings.Count(s, "@") != 1 {
			t.Errorf("%q passes", s)
		}
		for i := range len(s) {
			if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("<>()[]\\,;:\"", c) >= 0 {
				t.Errorf("%q passes with %q", s, c)
			}
		}
		parsed, err := mail.ParseAddress("<" + s + ">")
		if err != nil || parsed.Address != s || parsed.Name != "" {
			t.Errorf("%q is read as %v, %v", s, parsed, err)
		}
		if got := (&mail.Address{Address: s}).String(); got != "<"+s+">" {
			t.Errorf("%q is written as %q", s, got)
		}
	})
}

// FuzzCheckLine: a line that passes is one line, wherever it is read.
func FuzzCheckLine(f *testing.F) {
	for _, seed := range []string{"ops", "a\r\nb", "a\u2028b", "\x1b[1m", "a\u202eb", " ", "ü"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if mailer.CheckLine(s, 100) != nil {
			return
		}
		if len(strings.TrimSpace(s)) == 0 || len([]rune(s)) > 100 {
			t.Errorf("%q passes", s)
		}
		for _, r := range s {
			if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\u202e' || r == '\ufffe' {
				t.Errorf("%q passes with %U", s, r)
			}
		}
	})
}
