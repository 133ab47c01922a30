package words_test

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

func retrying(f func(*words.Delivery)) words.Delivery {
	d := words.Delivery{MaxAttempts: 8, Delivery: view.Delivery{
		Status: "pending", View: new("retrying"), Attempts: 5, Charged: 5, Run: 1, CreatedAt: stamp(-35 * time.Minute),
		DueAt: stamp(17*time.Minute + 20*time.Second), ExpiresAt: stamp(7 * 24 * time.Hour), Last: &view.Last{Class: "retry", Reason: "server_error", StatusCode: new(500)},
	}}
	f(&d)
	return d
}

func ended(status, reason string, attempts int) words.Delivery {
	return retrying(func(d *words.Delivery) {
		d.Delivery.Status, d.Delivery.View, d.Delivery.Reason, d.Delivery.Attempts, d.Delivery.SettledAt = status, nil, view.Nullable(reason), attempts, stamp(0)
	})
}

func TestDeliverySentences(t *testing.T) {
	t.Parallel()
	const ends = " It is given up when a retry would be due after 23 Nov 03:12."
	waiting := func(what string, lane *view.Lane) words.Delivery {
		return retrying(func(d *words.Delivery) {
			d.Delivery.WaitingFor, d.Delivery.DueAt, d.Lane = &what, stamp(-time.Second), lane
		})
	}
	const used = " 5 of 8 attempts are used." + ends
	paced := closedLane()
	paced.PacedBy, paced.RatePerSecond, paced.HoldUntil = new("recovery"), new(2.0), stamp(30*time.Second)
	opened := openLane()
	for want, d := range map[string]words.Delivery{
		"Attempt 6 is due at 03:30:00, in 17 m 20 s." + used + " Nothing to do.": retrying(func(*words.Delivery) {}),
		"Attempt 6 is due at 03:30:00, in 17 m 20 s. 1 attempt of this run is charged. Nothing to do.": retrying(func(d *words.Delivery) {
			d.MaxAttempts, d.Delivery.Charged, d.Delivery.ExpiresAt = 0, 1, view.Stamp{}
		}),
		"Attempt 6 is due at 03:30:00, in 17 m 20 s. 1 of 1 attempt is used. Nothing to do.": retrying(func(d *words.Delivery) {
			d.MaxAttempts, d.Delivery.Charged, d.Delivery.ExpiresAt = 1, 1, view.Stamp{}
		}),
		"Attempt 6 is due at 03:30:00, in 17 m 20 s. Its lane sends nothing now: if that stays so, it is held then, which costs no attempt." + used + " Nothing to do.": retrying(func(d *words.Delivery) {
			d.Delivery.View = new("held")
		}),
		"Attempt 6 is made now, or as soon as requests before it have ended." + used + " Nothing to do.": retrying(func(d *words.Delivery) { d.Delivery.DueAt = stamp(0) }),
		"It is sent now, or as soon as requests before it have ended." + ends + " Nothing to do.": retrying(func(d *words.Delivery) {
			d.Delivery.DueAt, d.Delivery.Attempts = stamp(0), 0
		}),
		"Its first attempt is due at 03:30:00, in 17 m 20 s." + ends + " Nothing to do.": retrying(func(d *words.Delivery) { d.Delivery.Attempts = 0 }),

		"It is due and waits: the breaker is open. It is held until a probe succeeds. The next probe is in 14 s." + used + " Nothing to do.":                       waiting("open", &opened),
		"It is due and waits: the breaker is open. It is held until a probe succeeds." + used + " Nothing to do.":                                                  waiting("open", nil),
		"It is due and waits: its endpoint is paused or disabled. It is held until the endpoint is resumed." + used + " Resume the endpoint to send it.":           waiting("paused", &opened),
		"It is due and waits: the endpoint asked for quiet. It waits as long as the endpoint asked for. That ends at 03:13:10." + used + " Nothing to do.":         waiting("hold", &paced),
		"It is due and waits: its lane is paced. Requests are kept apart; its turn comes. At most 2/s are sent: it has just come back." + used + " Nothing to do.": waiting("pace", &paced),
		"It is due and waits: moon." + used + " Nothing to do.":                                                                                                    waiting("moon", &paced),

		"Delivered at 03:12:40 with attempt 5, 35 m after it was accepted. Nothing to do.": ended("delivered", "", 5),
		"Delivered. Nothing to do.": {Delivery: view.Delivery{Status: "delivered"}},
		"Delivered at 03:12:40 with attempt 1, 168 ms after it was accepted. Nothing to do.": {Delivery: view.Delivery{
			Status: "delivered", Attempts: 1, FirstDeliveredAt: stamp(0), CreatedAt: stamp(-168 * time.Millisecond),
		}},
		"Given up at 03:12:40 after 8 attempts, the last with 500 server_error. All its attempts failed. It is kept. Redeliver when the receiver is fixed.":                               ended("dead", "exhausted", 8),
		"Given up at 03:12:40 after 1 attempt, the last with 500 server_error. The receiver refused the content. It is kept. Read the response, have the receiver fixed, then redeliver.": ended("dead", "permanent", 1),
		"Given up at 03:12:40 after 1 attempt, the last with 500 server_error. The endpoint said that it is gone. It is kept. Redeliver only if the endpoint takes events again.":         ended("dead", "gone", 1),
		"Given up at 03:12:40 after 1 attempt, the last with 500 server_error. Reason: moon. It is kept. Redeliver when the receiver is fixed.":                                           ended("dead", "moon", 1),
		"Given up at 03:12:40 after 1 attempt, the last with 500 server_error. It is kept. Redeliver when the cause is gone.":                                                             ended("dead", "", 1),
		"Given up after 1 attempt. Reason: moon. It is kept, and removed in 6 d 12 h. Redeliver when the receiver is fixed.": {
			Delivery: view.Delivery{Status: "dead", Reason: new("moon"), Attempts: 1, KeptUntil: stamp(156 * time.Hour)},
		},
		"Given up after 1 attempt. Reason: moon. It is kept, and removed soon. Redeliver when the receiver is fixed.": {
			Delivery: view.Delivery{Status: "dead", Reason: new("moon"), Attempts: 1, KeptUntil: stamp(-time.Minute)},
		},
		"Given up without an attempt. It was due while the breaker was open, and its policy does not hold deliveries then. It is kept. Redeliver when the endpoint delivers again.": {
			Delivery: view.Delivery{Status: "dead", Reason: new("breaker_open")},
		},
		"Cancelled at 03:12:40 after 2 attempts. Its endpoint was deleted. It will not be sent. Redeliver sends it once more.": ended("cancelled", "endpoint_deleted", 2),
		"Cancelled without an attempt. It will not be sent. Redeliver sends it once more.":                                     {Delivery: view.Delivery{Status: "cancelled"}},
		"Its status is moon.": {Delivery: view.Delivery{Status: "moon"}},
	} {
		got := words.DeliverySentence(&d, now).String()
		same(t, d.Delivery.Status, got, want)
		checkStyle(t, d.Delivery.Status, got)
	}
}

func attempt(f func(*view.Attempt)) view.Attempt {
	a := view.Attempt{
		Number: 5, Run: 1, Kind: "retry", Charged: true, Class: "retry", Reason: "server_error", StatusCode: new(500), StartedAt: stamp(-2 * time.Second),
		Wait:      &view.Wait{Retry: 5, CeilingMS: 2430000, U: 0.429, DelayMS: 1042470, Source: "backoff"},
		NextDueAt: stamp(17*time.Minute + 20*time.Second), Lane: view.AttemptLane{State: new("closed"), Limit: 14, InFlight: 13},
		PolicyHash: "ceef075467f52789", Node: new("node_1"),
	}
	f(&a)
	return a
}

// told is an explanation as one text.
func told(w *words.Why) string {
	var b strings.Builder
	b.WriteString(w.Title + "\n" + w.Lead.String())
	for _, f := range w.Facts {
		b.WriteString("\n" + f.Key + ": " + f.Text.String())
	}
	return b.String()
}

func TestWhyAttemptIsRetried(t *testing.T) {
	t.Parallel()
	a := attempt(func(*view.Attempt) {})
	before := []view.Attempt{{Number: 1, Reason: "unavailable", StatusCode: new(503)}, {Number: 3, Reason: "server_error", StatusCode: new(500)}, {Number: 4, Reason: "server_error", StatusCode: new(500)}, a}
	d := retrying(func(*words.Delivery) {})
	w := words.WhyAttempt(&d, &a, before, now)
	same(t, "why", told(&w), `Why attempt 5 is retried
The destination answered 500. This request failed while the destination answers. It is retried on its own schedule, while the lane goes on with everything else. The answer was the same in the 2 attempts before. It will probably not change by itself: read the response, have the receiver fixed, then redeliver.
Class, reason: retry, server_error
Charged: yes, 5 of 8
Wait: retry 5 has a ceiling of 40 m 30 s; drawn from 0 s to 40 m 30 s, any moment equally likely; 0.429 was drawn: 17 m 22 s; due at 03:30:00
Lane at that moment: closed, 13 of limit 14 in flight
Given up: when 8 attempts are charged, or when a retry would be due after 23 Nov 03:12
Policy, node: ceef075467f52789, node_1`)
}

func TestWhyTitles(t *testing.T) {
	t.Parallel()
	d := retrying(func(*words.Delivery) {})
	for want, f := range map[string]func(*view.Attempt){
		"Why attempt 5 is retried":         func(*view.Attempt) {},
		"Why attempt 4 was retried":        func(a *view.Attempt) { a.Number = 4 },
		"Why attempt 5 is not retried":     func(a *view.Attempt) { a.Wait, a.NextDueAt = nil, view.Stamp{} },
		"Why attempt 2 was not the last":   func(a *view.Attempt) { a.Number, a.Wait, a.NextDueAt = 2, nil, view.Stamp{} },
		"Why attempt 5 ended the delivery": func(a *view.Attempt) { a.Class, a.Wait = "success", nil },
	} {
		a := attempt(f)
		w := words.WhyAttempt(&d, &a, nil, now)
		same(t, "title", w.Title, want)
	}
}

// TestWhyEachWait has what an explanation says of one thing.
func TestWhyEachWait(t *testing.T) {
	t.Parallel()
	ladder := []view.Step{{Attempt: 5, Min: "1s", Max: "2s"}, {Attempt: 6, Min: "10m", Max: "30m"}}
	for name, tc := range map[string]struct {
		attempt func(*view.Attempt)
		ladder  []view.Step
		key     string
		want    string
	}{
		"from the ladder":     {func(*view.Attempt) {}, ladder, "Wait", "retry 5 has a ceiling of 40 m 30 s; drawn from 10 m to 30 m, any moment equally likely; 0.429 was drawn: 17 m 22 s; due at 03:30:00"},
		"of another policy":   {func(a *view.Attempt) { a.Wait.DelayMS, a.Wait.U = 2_000_000, 0.1 }, ladder, "Wait", "retry 5 has a ceiling of 40 m 30 s; 0.1 was drawn: 33 m 20 s; due at 03:30:00"},
		"of a broken ladder":  {func(a *view.Attempt) { a.Wait.U = 0 }, []view.Step{{Attempt: 6, Min: "x", Max: "y"}}, "Wait", "retry 5 has a ceiling of 40 m 30 s; 0 was drawn: 17 m 22 s; due at 03:30:00"},
		"Retry-After":         {func(a *view.Attempt) { a.Wait.Source, a.Wait.DelayMS = "retry_after", 33000 }, nil, "Wait", "the endpoint asked for it; with a little more, so that not all come back at once: 33 s; due at 03:30:00"},
		"throttle":            {func(a *view.Attempt) { a.Wait.Source, a.Wait.DelayMS = "throttle", 500 }, nil, "Wait", "the endpoint asked for less and did not say how long: 500 ms; due at 03:30:00"},
		"none":                {func(a *view.Attempt) { a.Wait.Source, a.NextDueAt = "none", view.Stamp{} }, nil, "Wait", "none: it is sent again as soon as its lane lets it"},
		"of the future":       {func(a *view.Attempt) { a.Wait.Source, a.Wait.DelayMS = "moon", 1e300 }, nil, "Wait", "moon: 106,751 d; due at 03:30:00"},
		"no wait":             {func(a *view.Attempt) { a.Wait = nil }, nil, "Wait", ""},
		"header":              {func(a *view.Attempt) { a.RetryAfter = new("30") }, nil, "Retry-After", "30, as the header came"},
		"charged":             {func(a *view.Attempt) { a.Number = 4 }, nil, "Charged", "yes"},
		"probe":               {func(a *view.Attempt) { a.Charged, a.Kind = false, "probe" }, nil, "Charged", "no: a probe never is"},
		"by hand":             {func(a *view.Attempt) { a.Charged, a.Kind = false, "manual" }, nil, "Charged", "no: what is sent by hand never is"},
		"told to wait":        {func(a *view.Attempt) { a.Charged, a.Class = false, "throttle" }, nil, "Charged", "no: being told to wait never is"},
		"our side":            {func(a *view.Attempt) { a.Charged, a.Class = false, "local" }, nil, "Charged", "no: it failed on our side"},
		"while open":          {func(a *view.Attempt) { a.Charged, a.Class, a.Lane.State = false, "down", new("open") }, nil, "Charged", "no: the breaker was open"},
		"not charged":         {func(a *view.Attempt) { a.Charged, a.Class = false, "down" }, nil, "Charged", "no"},
		"lane without limit":  {func(a *view.Attempt) { a.Lane.Limit = 0 }, nil, "Lane at that moment", "closed, 13 in flight"},
		"lane not known":      {func(a *view.Attempt) { a.Lane.State = nil }, nil, "Lane at that moment", ""},
		"lane's limit of 1.5": {func(a *view.Attempt) { a.Lane.Limit, a.Lane.InFlight = 1.5, 1 }, nil, "Lane at that moment", "closed, 1 of limit 1.5 in flight"},
	} {
		a := attempt(tc.attempt)
		d := retrying(func(d *words.Delivery) { d.Ladder = tc.ladder })
		w, got := words.WhyAttempt(&d, &a, nil, now), ""
		for _, f := range w.Facts {
			if f.Key == tc.key {
				got = f.Text.String()
			}
		}
		same(t, name, got, tc.want)
		checkStyle(t, name, told(&w))
	}
}

func TestWhyWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	d := retrying(func(*words.Delivery) {})
	for reason, want := range map[string]string{
		"connect_refused": "Nothing listens at the address. The destination is down. That says nothing about this event: the lane holds what follows and probes.",
		"moon":            "It ended with moon. The destination is down. That says nothing about this event: the lane holds what follows and probes.",
	} {
		a := attempt(func(a *view.Attempt) { a.StatusCode, a.Class, a.Reason = nil, "down", reason })
		w := words.WhyAttempt(&d, &a, nil, now)
		same(t, reason, w.Lead.String(), want)
	}
}
