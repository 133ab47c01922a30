package words_test

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

func stormLane() view.Lane {
	l := closedLane()
	l.Storm = view.Storm{Active: true, Since: stamp(-15 * time.Minute), Retries: 500, Ratio: 9}
	return l
}

func page(rule string, since time.Duration) view.Alert {
	return view.Alert{Rule: rule, Severity: "page", Status: "firing", Since: stamp(since), Summary: "It is so."}
}

func TestOverviewBanner(t *testing.T) {
	t.Parallel()
	held := func(n int64) *int64 { return &n }
	other := openLane()
	other.OpenedAt, other.NextProbeAt = stamp(-2*time.Hour), stamp(41*time.Second)
	for name, tc := range map[string]struct {
		fleet words.Fleet
		show  int
		want  string
	}{
		"two breakers and a storm": {words.Fleet{
			Lanes:        []words.Trouble{{"harborpay-orders", openLane(), held(8120), false}, {"oldmill-intake", other, held(318), false}, {"lumen-orders", stormLane(), nil, false}},
			FirstExpires: now.Add(68*time.Hour + 50*time.Minute),
		}, 3, "2 breakers are open and 1 endpoint is in a retry storm, the first since 01:12:40. 8,438 deliveries are held. Nothing is lost, and holding costs no attempt; " +
			"the first would expire in 68 h 50 m. Retries of a storm use up attempts. Lanes are separate: no other endpoint is slowed by this. " +
			"Tell the owner of lumen-orders which answers it gives. Nothing to do unless you know that harborpay-orders is back: then probe it. It is asked again by itself in 14 s."},
		"one breaker": {
			words.Fleet{Lanes: []words.Trouble{{"harborpay-orders", openLane(), held(1), false}}},
			1,
			"1 breaker is open: harborpay-orders, since 03:06:28. 1 delivery is held. Nothing is lost, and holding costs no attempt. " +
				"Lanes are separate: no other endpoint is slowed by this. Nothing to do unless you know that harborpay-orders is back: then probe it. It is asked again by itself in 14 s.",
		},
		"little known": {
			words.Fleet{Lanes: []words.Trouble{{"a", view.Lane{State: "open", Status: "active"}, nil, false}}, MoreLanes: true},
			1,
			"At least 1 breaker is open. Its deliveries are held. Nothing is lost, and holding costs no attempt. " +
				"Lanes are separate: no other endpoint is slowed by this. Nothing to do unless you know that a is back: then probe it. It is asked again by itself.",
		},
		"some not counted": {
			words.Fleet{Lanes: []words.Trouble{{"a", openLane(), nil, false}, {"b", openLane(), held(1_000_000), true}}},
			2,
			"2 breakers are open, the first since 03:06:28. At least 1,000,000 deliveries are held. Nothing is lost, and holding costs no attempt. " +
				"Lanes are separate: no other endpoint is slowed by this. Nothing to do unless you know that a is back: then probe it. It is asked again by itself in 14 s.",
		},
		"expiring": {
			words.Fleet{Lanes: []words.Trouble{{"a", openLane(), held(2), false}}, FirstExpires: now},
			1,
			"1 breaker is open: a, since 03:06:28. 2 deliveries are held. Holding costs no attempt, but the first expire now: they become dead letters and can be replayed. " +
				"Lanes are separate: no other endpoint is slowed by this. Nothing to do unless you know that a is back: then probe it. It is asked again by itself in 14 s.",
		},
		"storms": {
			words.Fleet{Lanes: []words.Trouble{{"a", stormLane(), nil, false}, {"b", stormLane(), nil, false}, {"c", stormLane(), nil, false}, {"d", stormLane(), nil, false}}},
			4,
			"4 endpoints are in a retry storm, the first since 02:57:40. Retries of a storm use up attempts. " +
				"Lanes are separate: no other endpoint is slowed by this. Tell the owners of a, b, c and 1 more which answers they give.",
		},
		"an alert": {
			words.Fleet{Alerts: []view.Alert{page("store_slow", -time.Hour)}},
			0,
			"1 alert wants a person now: store_slow, since 02:12:40. Slow store. Look at the disk or the database: load, locks, a slow fsync.",
		},
		"alerts": {
			words.Fleet{Alerts: []view.Alert{page("store_slow", -time.Hour), page("moon", -time.Minute), page("disk_low", 0)}},
			0,
			"3 alerts want a person now, the first since 02:12:40. Slow store. Look at the disk or the database: load, locks, a slow fsync. moon: It is so. The others are under Alerts.",
		},
	} {
		b := words.OverviewBanner(&tc.fleet, now)
		if b == nil {
			t.Errorf("%s: no banner", name)
			continue
		}
		same(t, name, b.String(), tc.want)
		checkStyle(t, name, b.String())
		if b.Show != tc.show || b.Class == "" || b.Icon == "" {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

// TestNoBannerWithoutTrouble: what a lane in the list has become since, what is
// no page, and what lanes say already.
func TestNoBannerWithoutTrouble(t *testing.T) {
	t.Parallel()
	mild := page("retry_rate", 0)
	mild.Severity = "warning"
	over := page("store_slow", 0)
	over.Status = "resolved"
	f := words.Fleet{
		Lanes:  []words.Trouble{{Name: "a", Lane: closedLane()}, {Name: "b", Lane: view.Lane{Status: "paused", State: "open"}}},
		Alerts: []view.Alert{mild, over, page("breaker_open_long", 0), page("retry_storm", 0)},
	}
	if b := words.OverviewBanner(&f, now); b != nil {
		t.Errorf("it says %s", b)
	}
	if b := words.OverviewBanner(&words.Fleet{}, now); b != nil {
		t.Errorf("it says %s", b)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	certificate := &view.Last{Class: "limited", Reason: "tls_certificate"}
	for want, g := range map[string]words.DeadGroup{
		"All 8 attempts failed. Replay when the receiver is fixed.":                                                                     {Reason: "exhausted", Attempts: 8},
		"Its only attempt failed. Replay when the receiver is fixed.":                                                                   {Reason: "exhausted", Attempts: 1},
		"All its attempts failed. Replay when the receiver is fixed.":                                                                   {Reason: "exhausted"},
		"All 8 attempts failed. In a retry storm: a replay now would add to it.":                                                        {Reason: "exhausted", Attempts: 8, State: words.RetryStorm},
		"All 8 attempts failed. Replay when the endpoint is back.":                                                                      {Reason: "exhausted", Attempts: 8, State: words.Holding},
		"All 8 attempts failed. The endpoint is paused: resume it first.":                                                               {Reason: "exhausted", Attempts: 8, State: words.Paused},
		"All 8 attempts failed. The endpoint is disabled: resume it first.":                                                             {Reason: "exhausted", Attempts: 8, State: words.Disabled},
		"All 8 attempts failed. Being replayed.":                                                                                        {Reason: "exhausted", Attempts: 8, Replayed: true},
		"The receiver refused the content. Replay only after a fix.":                                                                    {Reason: "permanent"},
		"The endpoint said that it is gone. Replay only if it takes events again.":                                                      {Reason: "gone", State: words.Disabled},
		"It was held, or would have waited for its next retry, longer than its policy allows. Replay now: the endpoint delivers again.": {Reason: "expired"},
		"It was due while the breaker was open, and its policy does not hold deliveries then. Replay now: the endpoint delivers again.": {Reason: "breaker_open"},
		"The certificate has expired, is for another name, or comes from an unknown authority. Replay when that is mended.":             {Reason: "limited", Last: certificate},
		"It failed as often as its policy allows for this error, which seldom mends itself. Replay when that is mended.":                {Reason: "limited"},
		"Reason: moon. Replay when the receiver is fixed.":                                                                              {Reason: "moon"},
	} {
		same(t, g.Reason, words.DeadMeaning(&g), want)
		checkStyle(t, g.Reason, want)
	}
	for want, got := range map[string]words.Text{
		"Nothing has been given up on.": words.DeadLetters(0, false, time.Time{}, now),
		"1 delivery has been given up on. It stays with its whole log, and is removed in 18 d.":                   words.DeadLetters(1, false, now.Add(432*time.Hour), now),
		"37,310 deliveries have been given up on. They stay with their whole log; the first are removed in 18 d.": words.DeadLetters(37310, false, now.Add(432*time.Hour), now),
		"2 deliveries have been given up on. They stay with their whole log; the first are removed soon.":         words.DeadLetters(2, false, now, now),
		"At least 100,000 deliveries have been given up on.":                                                      words.DeadLetters(100000, true, time.Time{}, now),
	} {
		same(t, "dead letters", got.String(), want)
	}
}

func running(f func(*view.Replay)) view.Replay {
	r := view.Replay{
		Status: "running", PerMinute: 100, CurrentPerMinute: 400, MaxMultiple: 10, PauseErrorPercent: 10, StartedAt: stamp(-10 * time.Minute),
		Progress: view.Progress{Total: new(int64(38904)), Fed: 4012, Delivered: 3891, Failed: 87, Percent: new(10.2), ETA: stamp(35 * time.Minute)},
	}
	f(&r)
	return r
}

func TestReplaySentences(t *testing.T) {
	t.Parallel()
	const way = "4,012 of 38,904 are on their way or delivered; 10.2 % have ended."
	for want, r := range map[string]view.Replay{
		way + " The pace is 400 per minute, and grows after each clean minute. If every minute is clean, all are fed at about 03:48. New events go first, always. Nothing to do.": running(func(*view.Replay) {}),
		way + " The pace is 1,000 per minute, its maximum. New events go first, always. Nothing to do.": running(func(r *view.Replay) {
			r.CurrentPerMinute, r.Progress.ETA = 1000, view.Stamp{}
		}),
		"1 is on its way or delivered; there were too many to count beforehand. New events go first, always. Nothing to do.": running(func(r *view.Replay) {
			r.CurrentPerMinute, r.Progress = 0, view.Progress{Fed: 1}
		}),
		"It paused itself: more than 10 % of the answers in a minute were errors. " + way + " It goes on by itself when the endpoint is well again. Nothing to do.": running(func(r *view.Replay) {
			r.Status, r.PauseReason = "paused", new("error_rate")
		}),
		"Paused. The breaker of its endpoint is open. It goes on by itself when that closes. " + way + " It goes on by itself when the endpoint is well again. Nothing to do.": running(func(r *view.Replay) {
			r.Status, r.PauseReason = "paused", new("breaker")
		}),
		"Paused. Somebody paused it. It goes on when it is resumed. " + way + " Resume it to go on.": running(func(r *view.Replay) { r.Status, r.PauseReason = "paused", new("user") }),
		"Paused. It paused itself again and again, or is refused for good, and delivered nothing in between. It waits for a person. " + way +
			" Look at what failed. Resume it when the receiver is fixed, or cancel it.": running(func(r *view.Replay) { r.Status, r.PauseReason = "paused", new("stuck") }),
		"Paused: moon. " + way + " It goes on by itself when the endpoint is well again. Nothing to do.": running(func(r *view.Replay) { r.Status, r.PauseReason = "paused", new("moon") }),
		"Paused. " + way + " Resume it to go on.":                                                        running(func(r *view.Replay) { r.Status = "paused" }),
		"Done at 03:12:40 after 10 m. 3,891 delivered, 87 failed again, 0 skipped of 38,904. What failed again is a dead letter again. Look at it by reason.": running(func(r *view.Replay) {
			r.Status, r.FinishedAt = "done", stamp(0)
		}),
		"Done. 1 delivered, 0 failed again, 0 skipped. Nothing to do.": running(func(r *view.Replay) { r.Status, r.Progress = "done", view.Progress{Delivered: 1} }),
		"Cancelled. 3,891 delivered, 87 failed again, 0 skipped of 38,904. 34,892 were not fed and stay as they were.": running(func(r *view.Replay) {
			r.Status = "cancelled"
		}),
		"Cancelled. 1 delivered, 0 failed again, 0 skipped of 2. 1 was not fed and stays as it was.": running(func(r *view.Replay) {
			r.Status, r.Progress = "cancelled", view.Progress{Total: new(int64(2)), Fed: 1, Delivered: 1}
		}),
		"Cancelled. 0 delivered, 0 failed again, 0 skipped.":                                                                   running(func(r *view.Replay) { r.Status, r.Progress = "cancelled", view.Progress{} }),
		"38,904 deliveries wait for this replay to start. It starts when no other one feeds the same endpoint. Nothing to do.": running(func(r *view.Replay) { r.Status = "queued" }),
		"1 delivery waits for this replay to start. It starts when no other one feeds the same endpoint. Nothing to do.": running(func(r *view.Replay) {
			r.Status, r.Progress.Total = "queued", new(int64(1))
		}),
		"Deliveries that were too many to count wait for this replay to start. It starts when no other one feeds the same endpoint. Nothing to do.": running(func(r *view.Replay) {
			r.Status, r.Progress.Total = "queued", nil
		}),
		"Its status is moon. 3,891 delivered, 87 failed again, 0 skipped of 38,904.": running(func(r *view.Replay) { r.Status = "moon" }),
	} {
		same(t, r.Status, words.ReplaySentence(&r, now).String(), want)
		checkStyle(t, r.Status, want)
	}
}

func TestReplayPreviews(t *testing.T) {
	t.Parallel()
	two := make([]view.ReplayEndpointCount, 2)
	for want, p := range map[string]view.ReplayPreview{
		"Nothing matches this filter.": {Exact: true},
		"1 delivery matches this filter; done after 1 s if every minute is clean. What dies later stays out.":                          {Count: 1, Exact: true, EstimatedSeconds: 1},
		"2,016 deliveries match this filter, of 2 endpoints; done after 4 m 31 s if every minute is clean. What dies later stays out.": {Count: 2016, Exact: true, EstimatedSeconds: 271, PerEndpoint: two},
		"At least 100,000 deliveries match this filter. What dies later stays out.":                                                    {Count: 100000},
		"2 deliveries match this filter; done after 36,500 d if every minute is clean. What dies later stays out.":                     {Count: 2, Exact: true, EstimatedSeconds: 1 << 62},
	} {
		same(t, "preview", words.PreviewSentence(&p).String(), want)
	}
	for state, want := range map[string]string{
		"closed": "Starts at once.", "open": "Its breaker is open: the replay waits until that closes.",
		"paused": "It is paused: the replay waits until it is resumed.", "disabled": "It is disabled: these are skipped.",
		"deleted": "It was deleted: these are skipped.", "moon": "Its state is moon.",
	} {
		same(t, state, words.PreviewEndpoint(&view.ReplayEndpointCount{State: state}), want)
	}
}

func TestAlertSentences(t *testing.T) {
	t.Parallel()
	firing := func(f func(*view.Alert)) view.Alert {
		a := page("breaker_open_long", -2*time.Hour-4*time.Minute)
		a.Summary = "ep_1 has been down for 34 m."
		f(&a)
		return a
	}
	const says = "ep_1 has been down for 34 m. It fires since 01:08:40, for 2 h 04 m."
	const do = " Ask whoever runs it; held deliveries expire in the end."
	for want, a := range map[string]view.Alert{
		says: firing(func(*view.Alert) {}),
		says + " Acknowledged by key_1 at 03:12:40; it is repeated no more.": firing(func(a *view.Alert) { a.AckedBy, a.AckedAt = new("key_1"), stamp(0) }),
		says + " Acknowledged by key_1: “on it”; it is not repeated before 04:12:40.": firing(func(a *view.Alert) {
			a.AckedBy, a.AckNote, a.SnoozedUntil = new("key_1"), new("on it"), stamp(time.Hour)
		}),
		says + " Acknowledged by key_1; it is repeated again.":             firing(func(a *view.Alert) { a.AckedBy, a.SnoozedUntil = new("key_1"), stamp(-time.Second) }),
		says + " It began 5 times; from now on only its end is told.":      firing(func(a *view.Alert) { a.Flapping, a.Count = true, 5 }),
		"ep_1 has been down for 34 m. It lasted 1 h 04 m, until 02:12:40.": firing(func(a *view.Alert) { a.Status, a.ResolvedAt = "resolved", stamp(-time.Hour) }),
		"ep_1 has been down for 34 m. It is over.":                         firing(func(a *view.Alert) { a.Status = "resolved" }),
		"Breaker open for long." + do:                                      {Rule: "breaker_open_long", Status: "firing"},
		"moon.":                                                            {Rule: "moon", Status: "firing"},
	} {
		same(t, a.Status, words.AlertSentence(&a, now).String(), want)
	}
	for rule, want := range map[string][3]any{
		"retry_storm": {9.4, 5.0, "9.4, limit 5"}, "breaker_open": {1.0, 1.0, "–, "}, "breaker_open_long": {7440.0, 1800.0, "2 h 04 m, limit 30 m"},
		"success_rate": {98.0, 99.0, "98.0 %, at least 99.0 %"}, "disk_low": {1e9, 2e9, "1 GB, at least 2 GB"}, "store_slow": {1.8, 1.0, "1.8 s, limit 1 s"},
		"dead_letters_growing": {1112.0, 1000.0, "1,112, limit 1,000"}, "moon": {1.25, 1.0, "1.25, limit 1"},
	} {
		v, l := words.AlertValue(&view.Alert{Rule: rule, Value: want[0].(float64), Threshold: want[1].(float64)})
		same(t, rule, v+", "+l, want[2].(string))
	}
	if v, _ := words.AlertValue(&view.Alert{Rule: "disk_low", Value: 1e300}); v != words.None {
		t.Errorf("a disk without end has %s", v)
	}
	same(t, "none", words.AlertCounts(nil).String(), "Nothing fires.")
	same(t, "one", words.AlertCounts([]view.Alert{{Severity: "page"}}).String(), "1 firing: 1 page.")
	same(t, "many", words.AlertCounts([]view.Alert{{Severity: "warning"}, {Severity: "page"}, {Severity: "warning"}, {Severity: "info"}, {Severity: "moon"}}).String(),
		"5 firing: 1 page, 2 warnings, 1 info and 1 of other severities.")
}
