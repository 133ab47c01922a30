package browser_test

import (
	"strings"
	"testing"
)

func TestWrongKeyStaysOnTheLoginPage(t *testing.T) {
	s := story(t)
	for name, key := range map[string]string{"no such key": "bw_" + strings.Repeat("x", 48), "no key at all": "hello"} {
		t.Run(name, func(t *testing.T) {
			b := open(t, s.URL, desk)
			b.visit("/ui/login")
			b.fill("#key", key)
			status := int64(401)
			if name == "no key at all" {
				status = 422
			}
			b.submit("log in", status, click("form[action='/ui/login'] button"))
			if b.text("[role=alert]") == "" {
				t.Error("the page does not say what is wrong")
			}
			b.visitAs("/ui", 200)
			if !strings.HasPrefix(b.path(), "/ui/login") {
				t.Errorf("the overview is shown to nobody: %s", b.path())
			}
		})
	}
}

func TestKeyThatMayOnlySendCannotLogIn(t *testing.T) {
	s := story(t)
	b := open(t, s.URL, desk)
	b.visit("/ui/login")
	b.fill("#key", s.Keys["publish"])
	b.submit("log in", 403, click("form[action='/ui/login'] button"))
}

func TestLogInLeadsBackAndLogOutEnds(t *testing.T) {
	s := story(t)
	b := open(t, s.URL, desk)
	b.withoutScript()
	b.visit("/ui?window=24h")
	if !strings.HasPrefix(b.path(), "/ui/login") {
		t.Fatalf("nobody is logged in, but the page is %s", b.path())
	}
	b.fill("#key", s.Key)
	b.follow("form[action='/ui/login'] button")
	if b.path() != "/ui?window=24h" {
		t.Errorf("after logging in the page is %s, want the one that was asked for", b.path())
	}
	b.follow("form[action='/ui/logout'] button")
	b.visit("/ui")
	if !strings.HasPrefix(b.path(), "/ui/login") {
		t.Errorf("after logging out the page is %s", b.path())
	}
}
