package deadletters_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/ui/uitest"
)

func shown(row store.DeliveryRow) string { return hook.DeliveryPrefix.Format(row.ID) }

// scene has dead letters of the endpoints main (3 with 500, 2 with 503) and other (1
// refused), and one of another tenant.
func scene(t *testing.T) (w *uitest.World, main, other string) {
	t.Helper()
	w = uitest.New(t)
	main = w.Endpoint(w.Acme, map[string]any{"uid": "main", "url": "https://hooks.example.com/in", "types": []string{"a"}})
	other = w.Endpoint(w.Acme, map[string]any{"uid": "other", "url": "https://other.example.com/in", "types": []string{"b"}})
	w.Endpoint(w.Bolt, map[string]any{"uid": "bolts"})
	for range 5 {
		w.Event(w.Acme, "a", 1)
	}
	w.Event(w.Acme, "b", 1)
	w.Event(w.Bolt, "a", 1)
	w.Clock.Pass(time.Minute)
	for i, row := range w.Deliveries(w.Acme) {
		w.Settle(row, hook.Dead, hook.DeadExhausted, func(d *hook.Delivery, a *hook.Attempt) {
			switch {
			case row.Type == "b":
				d.Reason, a.Class, a.Reason, a.Status = hook.DeadPermanent, hook.Permanent, hook.ClientError, 422
			case i > 3:
				a.Status = 503
			}
		})
	}
	w.Settle(w.Deliveries(w.Bolt)[0], hook.Dead, hook.DeadExhausted, nil)
	w.Clock.Pass(time.Minute)
	return w, main, other
}

func TestDeadLettersAreGrouped(t *testing.T) {
	t.Parallel()
	w, main, _ := scene(t)
	b := w.Login(w.Acme.Write)
	all := b.Open("/ui/dead-letters")
	all.Says("6 deliveries have been given up on.", "hooks.example.com", "main", "exhausted", "500 server_error", "503 server_error",
		"other.example.com", "permanent", "422 client_error", "The receiver refused the content. Replay only after a fix.", "Select all 6 matching this filter")
	all.SaysNot("bolts", "Discard…")
	if n := strings.Count(all.Body, "data-row="); n != 3 {
		t.Errorf("%d groups, want 3", n)
	}
	group := b.Open("/ui/dead-letters?group=" + main + ".exhausted.500")
	group.Says("3 selected: main, exhausted, 500", "it takes all 5, whatever their last answer was", "newest 3 of 3", "Replay ticked…", "Discard ticked…")
	group.Has("/ui/replays/new?endpoint="+main+"&amp;reason=exhausted", "/ui/dead-letters/discard?endpoint="+main)
	b.Open("/ui/dead-letters?group=all").Says("6 selected: all that match this filter")
	filtered := b.Open("/ui/dead-letters?reason=permanent")
	filtered.Says("1 matches this filter.", "reason=permanent", "other.example.com")
	filtered.SaysNot("hooks.example.com")
	b.Open("/ui/dead-letters?reason=moon").Says("This filter cannot be used.")
	b.Open("/ui/dead-letters?type=z").Says("Nothing matches this filter")
	read := w.Login(w.Acme.Read).Open("/ui/dead-letters?group=all")
	read.SaysNot("Replay…", "Discard…")
	op := w.Login(w.Admin)
	op.Open("/ui/dead-letters?group=all").Says("They belong to several tenants.")
	op.Open("/ui/dead-letters?group=" + main + ".exhausted.500").Has("tenant=" + w.Acme.Text)
	op.Open("/ui/dead-letters?tenant=bolt&group=all").Has("/ui/replays/new?tenant=bolt")
	w.Clock.Pass(24*24*time.Hour - 2*time.Minute)
	b = w.Login(w.Acme.Write) // sessions end
	b.Open("/ui/dead-letters").Says("They stay with their whole log; the first are removed in 6 d")
	b.Open("/ui/dead-letters?group="+main+".exhausted.500").Says("Removed", "in 6 d")
	b.Open("/ui/deliveries?status=dead").Says("removed in 6 d")
	b.Open("/ui/deliveries/" + hook.DeliveryPrefix.Format(w.Deliveries(w.Acme)[0].ID)).Says("It is kept, and removed in 6 d")
}

func TestNoDeadLetters(t *testing.T) {
	t.Parallel()
	w := uitest.New(t)
	w.Login(w.Admin).Open("/ui/dead-letters?group=all").Says("Nothing has been given up on")
	w.Login(w.Admin).Open("/ui/replays").Says("No replays yet")
}

var replayID = regexp.MustCompile(`rpl_[0-9a-z]{13}`)

func TestReplayIsPreviewedAndStarted(t *testing.T) {
	t.Parallel()
	w, main, _ := scene(t)
	b := w.Login(w.Acme.Write)
	path := "/ui/replays/new?endpoint=" + main + "&reason=exhausted"
	p := b.Open(path)
	p.Says("Replay 5 dead letters", "endpoint="+main, "reason=exhausted", "5 deliveries match this filter", "Start replay of 5", "Endpoints touched", "Starts at once.", "done after 3 s")
	p.Has(`name="per_minute" inputmode="numeric" required value="100"`, `value="10"`)
	again := b.Done(path, url.Values{"do": {"preview"}, "per_minute": {"2"}, "max_multiple": {"1"}, "pause_error_percent": {"25"}})
	again.Says("done after 2 m 30 s")
	again.Has(`value="2"`, `value="25"`)
	for field, form := range map[string]url.Values{
		"must be a whole number": {"per_minute": {"many"}},
		"must be a number":       {"per_minute": {"1"}, "max_multiple": {"x"}},
		"1000":                   {"per_minute": {"1"}, "max_multiple": {"5000"}},
	} {
		form.Set("do", "start")
		wrong := b.Post(path, form)
		if wrong.Status != http.StatusUnprocessableEntity {
			t.Errorf("%v = %d", form, wrong.Status)
		}
		wrong.Says("Nothing was changed.", field)
		wrong.Has(`aria-invalid="true"`)
	}
	page := b.Done(path, url.Values{"do": {"start"}, "per_minute": {"60"}, "max_multiple": {"2"}, "pause_error_percent": {"50"}})
	page.Says("The replay is created.", "Replay to hooks.example.com", "Queued", "5 deliveries wait for this replay to start", "reason=exhausted", "Pause", "Cancel replay…")
	b.Open("/ui/replays").Says(replayID.FindString(page.Body), "Queued", "reason=exhausted")
	b.Open("/ui/replays?view=active").Says(replayID.FindString(page.Body))
	b.Open("/ui/replays?view=ended").Says("Nothing matches")
	b.Open("/ui/dead-letters").Says("0 of 5 fed")
	if p := w.Login(w.Bolt.Write).Post(path, url.Values{"do": {"start"}}); p.Status == http.StatusSeeOther {
		t.Error("another tenant started it")
	}
	w.Login(w.Acme.Read).Want(http.StatusNotFound, path)
}

// TestEventsThatAnEndpointNeverGot: whoever made an endpoint finds the way to what was
// accepted before.
func TestEventsThatAnEndpointNeverGot(t *testing.T) {
	t.Parallel()
	w, _, _ := scene(t)
	late := w.Endpoint(w.Acme, map[string]any{"uid": "late"})
	b := w.Login(w.Acme.Write)
	path := "/ui/replays/new?endpoint=" + late
	p := b.Open(path)
	p.Says("Nothing matches", "Events it never got")
	p.Has(`<input type="hidden" name="endpoint" value="`+late+`">`, `name="since" required`, `name="include_missing" value="true">`)
	path += "&since=24h&include_missing=true"
	p = b.Open(path)
	p.Says("deliveries", "include_missing=true", "Start replay of")
	p.Has(`name="include_missing" value="true" checked>`, `value="24h"`)
	b.Done(path, url.Values{"do": {"start"}}).Says("The replay is created.", "include_missing")
	b.Want(http.StatusUnprocessableEntity, "/ui/replays/new?include_missing=true&endpoint="+late)
}

func TestTickedDeliveriesAreReplayed(t *testing.T) {
	t.Parallel()
	w, _, _ := scene(t)
	rows := w.Deliveries(w.Acme)
	q := "delivery_ids=" + shown(rows[0]) + "&delivery_ids=" + shown(rows[1])
	op := w.Login(w.Admin)
	op.Open("/ui/replays/new?"+q).Says("Replay 2 deliveries", "2 chosen deliveries") // its tenant is found
	page := op.Done("/ui/replays/new?"+q, url.Values{"do": {"start"}})
	page.Says("2 deliveries wait", "2 chosen deliveries")
	op.Want(http.StatusUnprocessableEntity, "/ui/replays/new").Says("A replay is of one tenant.")
	op.Open("/ui/replays/new?tenant=acme").Says("Replay 6 dead letters")
	op.Open("/ui/replays/new?tenant=acme&type=nothing").Says("Nothing matches")
	op.Want(http.StatusNotFound, "/ui/replays/new?delivery_ids=dlv_0000000000000")
	op.Want(http.StatusUnprocessableEntity, "/ui/replays/new?tenant=acme&endpoint=a&endpoint=b")
}

func TestReplayIsSteered(t *testing.T) {
	t.Parallel()
	w, main, _ := scene(t)
	var made struct{ ID string }
	w.Call(http.StatusCreated, http.MethodPost, "/v1/tenants/acme/replays", w.Acme.Write, map[string]any{"endpoint": main, "per_minute": 10}, &made)
	path := "/ui/replays/" + made.ID
	b := w.Login(w.Acme.Write)
	b.Done(path+"/pause", nil).Says("The replay is paused.", "Paused", "Resume it to go on.")
	b.Done(path+"/resume", nil).Says("The replay goes on", "Queued")
	b.Open(path + "/pace").Has(`value="10"`)
	b.Done(path+"/pace", url.Values{"per_minute": {"30"}, "max_multiple": {"4"}}).Says("The pace starts from 30 per minute.", "up to 120")
	if p := b.Post(path+"/pace", url.Values{"per_minute": {"0"}, "max_multiple": {"4"}}); p.Status != http.StatusUnprocessableEntity {
		t.Errorf("a pace of nothing = %d", p.Status)
	} else {
		p.Has(`id="err-per_minute"`)
	}
	b.Open(path+"/cancel").Says("Cancel this replay?", "0 of 5 were fed so far.", "Cancel and leave 5")
	for name, p := range map[string]*uitest.Page{
		"without a token": b.Send(http.MethodPost, path+"/pause", url.Values{}), "read only": w.Login(w.Acme.Read).Post(path+"/pause", nil),
	} {
		if p.Status != http.StatusForbidden {
			t.Errorf("%s: %d", name, p.Status)
		}
	}
	if p := w.Login(w.Bolt.Write).Post(path+"/cancel", nil); p.Status != http.StatusNotFound {
		t.Errorf("another tenant's replay: %d", p.Status)
	}
	w.Login(w.Bolt.Read).Want(http.StatusNotFound, path)
	done := b.Done(path+"/cancel", url.Values{"note": {"no"}})
	done.Says("The replay is cancelled.", "Cancelled at", "5 were not fed and stay as they were.")
	done.SaysNot("Cancel replay…")
	w.Login(w.Acme.Read).Open(path).SaysNot("Pause")
}

func TestDiscardNeedsTheNumber(t *testing.T) {
	t.Parallel()
	w, main, _ := scene(t)
	b := w.Login(w.Acme.Write)
	path := "/ui/dead-letters/discard?endpoint=" + main
	b.Open(path).Says("Discard 5 dead letters?", "Type 5 to confirm", "This cannot be undone.")
	dead := func() (n int) {
		for _, d := range w.Deliveries(w.Acme) {
			if d.State == hook.Dead {
				n++
			}
		}
		return n
	}
	for _, typed := range []string{"", "4", "all"} {
		p := b.Post(path, url.Values{"count": {"5"}, "typed": {typed}})
		if p.Status != http.StatusUnprocessableEntity || dead() != 6 {
			t.Fatalf("typed %q: %d, and %d are dead", typed, p.Status, dead())
		}
		p.Has(`id="err-typed"`)
	}
	if p := b.Post(path, url.Values{"count": {"500"}, "typed": {"500"}}); p.Status != http.StatusConflict || dead() != 6 {
		t.Errorf("another number than there are: %d, and %d are dead", p.Status, dead())
	}
	b.Done(path, url.Values{"count": {"5"}, "typed": {"5"}, "note": {"stale"}}).Says("5 dead letters are discarded.", "1 delivery has been given up on.")
	if dead() != 1 {
		t.Errorf("%d are dead, want 1", dead())
	}
	b.Want(http.StatusNotFound, path).Says("No dead letter matches any more.")
	if p := w.Login(w.Acme.Read).Post("/ui/dead-letters/discard", url.Values{"count": {"1"}, "typed": {"1"}}); p.Status != http.StatusForbidden || dead() != 1 {
		t.Errorf("read only: %d", p.Status)
	}
	if p := b.Post(fmt.Sprintf("/ui/dead-letters/discard?delivery_ids=%s", shown(w.Deliveries(w.Bolt)[0])), url.Values{"count": {"1"}, "typed": {"1"}}); p.Status == http.StatusSeeOther {
		t.Error("another tenant's dead letter was discarded")
	}
	if w.Deliveries(w.Bolt)[0].State != hook.Dead {
		t.Error("another tenant's dead letter is gone")
	}
}
