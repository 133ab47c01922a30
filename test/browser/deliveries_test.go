package browser_test

import (
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/test/seed"
)

// TestDeliveryIsFoundAndSentAgain walks from the list to one delivery, looks at what was
// sent and answered, and sends it once more.
func TestDeliveryIsFoundAndSentAgain(t *testing.T) {
	s := story(t)
	b := open(t, s.URL, desk)
	b.login(s.Key)
	b.visit("/ui/deliveries")
	b.follow("nav[aria-label='Saved views'] a:nth-of-type(2)")
	if !strings.Contains(b.path(), "status=dead") || !strings.Contains(b.text("main"), "since=1h") {
		t.Errorf("the view of what failed is %s", b.path())
	}
	b.follow(".chip a[aria-label='Remove filter since=1h']")
	if strings.Contains(b.path(), "since") {
		t.Errorf("the filter stays: %s", b.path())
	}
	b.follow("tbody tr:first-child a.code")
	for _, tab := range []string{"Request", "Event"} {
		b.follow("nav.tabs a:nth-of-type(" + map[string]string{"Request": "1", "Event": "3"}[tab] + ")")
		b.eventually("tab "+tab, func() bool { return strings.HasPrefix(b.text("nav.tabs [aria-current]"), tab) })
	}
	b.follow(".head a.btn.primary")
	b.fill("#note", "the receiver is fixed")
	b.follow("main form button")
	if !strings.Contains(b.text(".toast"), "One more attempt is made now.") {
		t.Errorf("nothing is said: %s", b.text("main"))
	}
	b.eventually("another attempt", func() bool { return strings.Contains(b.text("main table"), "manual") })
}

// TestDeadLettersAreReplayedToTheEnd chooses a group, looks at what a replay would do,
// starts it and watches it come to its end without a reload.
func TestDeadLettersAreReplayedToTheEnd(t *testing.T) {
	s := story(t)
	b := open(t, s.URL, desk)
	b.login(s.Key)
	b.visit("/ui/replays/" + s.Replays["running"]) // one replay of an endpoint runs at a time
	if strings.Contains(b.text(".head"), "Cancel replay") {
		b.follow(".head a.btn.danger")
		b.follow("main form button.danger")
	}
	was := s.Town.Tell("crm.acme.example", seed.Mood{}) // it has been mended
	t.Cleanup(func() { s.Town.Tell("crm.acme.example", was) })
	b.visit("/ui/dead-letters?endpoint=" + s.Endpoints["crm"])
	b.follow("a.pickbox")
	if !strings.Contains(b.text(".selbar"), "Select all") {
		t.Errorf("what is selected: %q", b.text(".selbar"))
	}
	for _, row := range []string{"1", "2", "3"} { // the others stay for other tests
		b.click("form tbody tr:nth-child(" + row + ") input[name=delivery_ids]")
	}
	b.follow("section[aria-labelledby=rows-title] header button:not([formaction])")
	if !strings.Contains(b.text("main"), "Endpoints touched") {
		t.Fatalf("the preview says %q", b.text("main"))
	}
	b.fill("#per_minute", "6000")
	b.follow("button[value=preview]")
	b.follow("button[value=start]")
	b.eventually("100 %", func() bool { return strings.Contains(b.text("main"), "100 % ended") })
	b.eventually("Done", func() bool { return strings.Contains(b.text(".head"), "Done") })
}

// TestReplayIsStartedWithoutScript does the same by forms and links alone.
func TestReplayIsStartedWithoutScript(t *testing.T) {
	s := story(t)
	b := open(t, s.URL, desk)
	b.withoutScript()
	b.login(s.Key)
	b.visit("/ui/deliveries?status=delivered&endpoint=" + s.Endpoints["crm"])
	b.click("tbody tr:first-child input[type=checkbox]")
	b.follow("section.panel header button")
	if !strings.Contains(b.text("h1"), "Replay 1 delivery") {
		t.Fatalf("the preview is of %q", b.text("h1"))
	}
	b.follow("button[value=start]")
	if !strings.Contains(b.text("main"), "Replay to several endpoints") && !strings.Contains(b.text("main"), "1 chosen delivery") {
		t.Errorf("the page says %q", b.text("main"))
	}
}
