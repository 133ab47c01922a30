package browser_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/receiver"
	"github.com/breakwaterhq/breakwater/test/program"
)

// verifies reports whether a receiver that has one secret takes a request.
func (a arrival) verifies(t *testing.T, secret string) bool {
	t.Helper()
	v, err := receiver.New(receiver.Config{Secrets: []string{secret}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Verify(a.header, a.body)
	return err == nil
}

// TestEndpointFromFirstToLast makes, tests, halts and removes an endpoint by pages alone,
// as the developer of a receiver does, and rotates its secret without a gap.
func TestEndpointFromFirstToLast(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := open(t, h.url, desk)
	b.login(program.AdminKey)
	address := h.to + "/hook"
	b.visit("/ui/endpoints/new?tenant=default")
	b.fill("#url", address)
	b.fill("#types", "nothing.ever")
	b.follow("button[value=preview]")
	b.follow("form.cols button.primary")
	old := b.text("#secret-0")
	if !strings.HasPrefix(old, "whsec_") {
		t.Errorf("the secret is %q", old)
	}
	b.follow("main a.primary")
	page, _, _ := strings.Cut(b.path(), "?")

	b.follow("form[action*='/test'] button")
	b.eventually("the page shows the answer to the test", func() bool { return strings.Contains(b.text("[data-live=endpoints-test]"), "200") })
	if !h.latest().verifies(t, old) {
		t.Errorf("the secret of the page does not verify what was sent")
	}

	b.click("details.menu summary")
	b.follow("details.menu a[href*='/rotate-secret']")
	b.follow("main form button.primary")
	secret := b.text("#secret-0")
	if !strings.HasPrefix(secret, "whsec_") || secret == old {
		t.Fatalf("the new secret is %q, the old one %q", secret, old)
	}
	b.visit(page + "?tab=secrets")
	b.says("Secrets that sign 2")
	b.follow("form[action*='/test'] button")
	b.eventually("the page shows the answer to the test", func() bool { return strings.Contains(b.text("[data-live=endpoints-test]"), "200") })
	for name, s := range map[string]string{"old": old, "new": secret} {
		if !h.latest().verifies(t, s) {
			t.Errorf("during the overlap the %s secret does not verify", name)
		}
	}
	if h.latest().verifies(t, "whsec_"+strings.Repeat("A", 32)) {
		t.Error("any secret verifies")
	}

	h.status.Store(http.StatusTooManyRequests)
	h.wait.Store(600)
	b.follow("form[action*='/test'] button")
	b.eventually("the lane waits as long as it was told to", func() bool {
		say := b.text(".lanebox .say")
		return strings.Contains(say, "asked for") && strings.Contains(say, "The lane waits until")
	})
	arrived := h.arrived.Load()

	b.follow("form[action*='/pause'] button")
	b.eventually("it is paused", func() bool { return strings.Contains(b.text("main .sub"), "Paused") })
	b.follow("form[action*='/resume'] button")
	b.eventually("it is resumed", func() bool { return !strings.Contains(b.text("main .sub"), "Paused") })
	if n := h.arrived.Load() - arrived; n > 0 {
		t.Errorf("%d requests came to an endpoint that asked for quiet", n)
	}
	b.click("details.menu summary")
	b.follow("details.menu a[href*='/delete']")
	b.fill("#typed", "not the address")
	b.submit("delete with the wrong address", 422, click("button.danger"))
	b.fill("#typed", address)
	b.follow("button.danger")
	b.visitAs(page, 404)
}
