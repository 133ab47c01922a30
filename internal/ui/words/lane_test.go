package words_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

func stamp(d time.Duration) view.Stamp { return view.Stamp(now.Add(d)) }

// everything is a lane of which all badges hold.
func everything() view.Lane {
	l := view.Lane{Status: "disabled", State: "open", HoldUntil: stamp(time.Minute), SlowStart: true}
	l.Storm.Active, l.RetryQueue.Growing = true, true
	l.Learnt.Recovery = &view.Recovery{Rate: 36, Held: "10m"}
	return l
}

// TestOneBadgePerLane takes one reason away after the other: what is left shows
// the next badge of the order.
func TestOneBadgePerLane(t *testing.T) {
	t.Parallel()
	l := everything()
	steps := []struct {
		want  words.State
		leave func()
	}{
		{words.Disabled, func() { l.Status = "paused" }},
		{words.Paused, func() { l.Status = "active" }},
		{words.Holding, func() { l.State = "half_open" }},
		{words.Probing, func() { l.State = "closed" }},
		{words.ToldToWait, func() { l.HoldUntil = stamp(0) }},
		{words.RetryStorm, func() { l.Storm.Active = false }},
		{words.SlowStart, func() { l.SlowStart = false }},
		{words.QueueGrowing, func() { l.RetryQueue.Growing = false }},
		{words.Draining, func() { l.Learnt.Recovery = nil }},
		{words.Delivering, func() {}},
	}
	order := words.States()
	for i, s := range steps {
		if got := words.StateOf(&l, nil, now); got != s.want || order[i] != s.want {
			t.Errorf("step %d: %v and %v, want %v", i, got, order[i], s.want)
		}
		s.leave()
	}
	if len(order) != len(steps) {
		t.Errorf("%d states, want %d", len(order), len(steps))
	}
}

func TestBadges(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, s := range words.States() {
		b := s.Badge()
		if b.Word == "" || b.API == "" || b.Icon == "" || b.Meaning == "" || seen[b.Word] || seen[b.Icon] || b.Word != s.String() {
			t.Errorf("%d: %+v", s, b)
		}
		seen[b.Word], seen[b.Icon] = true, true
	}
	if b := words.State(99).Badge(); b.Word != words.None {
		t.Errorf("an unknown state has %+v", b)
	}
	calm := []words.State{words.Delivering, words.Draining, words.SlowStart}
	for _, s := range words.States() {
		if s.Healthy() != slices.Contains(calm, s) {
			t.Errorf("%v: healthy is %v", s, s.Healthy())
		}
	}
	for status, want := range map[string]words.State{"active": words.Holding, "paused": words.Paused, "disabled": words.Disabled} {
		if got := words.StateOfEndpoint(&view.Endpoint{Status: status, Health: view.Health{State: "open"}}); got != want {
			t.Errorf("%s: %v, want %v", status, got, want)
		}
	}
	if got := words.StateOfEndpoint(&view.Endpoint{Status: "active", Health: view.Health{State: "closed"}}); got != words.Delivering {
		t.Errorf("closed: %v", got)
	}
}

// TestDrainingNeedsABacklog: a recovery that has sent everything is over for people.
func TestDrainingNeedsABacklog(t *testing.T) {
	t.Parallel()
	l := view.Lane{State: "closed", Status: "active", Learnt: view.Learnt{Recovery: &view.Recovery{Rate: 1}}}
	for ready, want := range map[uint64]words.State{0: words.Delivering, 1: words.Draining} {
		if got := words.StateOf(&l, &view.Gauges{Ready: &ready}, now); got != want {
			t.Errorf("%d ready: %v, want %v", ready, got, want)
		}
	}
}

func closedLane() view.Lane {
	return view.Lane{State: "closed", Status: "active", Limit: 14, LimitMode: "adaptive", ClosedAt: stamp(-12*time.Minute - 43*time.Second)}
}

func openLane() view.Lane {
	return view.Lane{
		State: "open", Status: "active", OpenedAt: stamp(-6*time.Minute - 12*time.Second), OpenReason: new("consecutive"), NextProbeAt: stamp(14 * time.Second),
		RetryQueue: view.RetryQueue{Depth: new(int64(8120))},
	}
}

// laneCase is a lane, changed from closed or open, and what is said of it.
type laneCase struct {
	lane words.Lane
	say  string
	do   string
}

func edit(l view.Lane, f func(*view.Lane)) view.Lane {
	f(&l)
	return l
}

var refused = &view.Last{Class: "down", Reason: "connect_refused"}

var laneCases = map[string]laneCase{
	"delivering": {words.Lane{Lane: closedLane()}, "Delivering since 02:59:57.", "Nothing to do."},
	"never opened": {
		words.Lane{Lane: view.Lane{State: "closed", Status: "active"}},
		"Delivering. The breaker has never opened.", "Nothing to do.",
	},
	"paced": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) { l.PacedBy, l.RatePerSecond = new("throttle"), new(19.43) })},
		"Delivering since 02:59:57. At most 19.4/s are sent: the endpoint refused more.", "Nothing to do.",
	},
	"paced by the future": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) { l.PacedBy, l.RatePerSecond = new("moon"), new(1.0) })},
		"Delivering since 02:59:57. At most 1/s are sent: moon.", "Nothing to do.",
	},

	"holding": {
		words.Lane{Lane: openLane(), Waiting: view.Gauges{Held: new(uint64(8120))}, Last: refused, FirstExpires: now.Add(71*time.Hour + 53*time.Minute)},
		"Open for 6 m 12 s after failures in a row, the last with connect_refused; next probe in 14 s. 8,120 deliveries are held; holding costs no attempt, and the first expires in 71 h 53 m.",
		"Nothing is lost. Tell its owner that it refuses connections. If you know that it is back, probe now; it is asked again by itself.",
	},
	"holding one": {
		words.Lane{Lane: edit(openLane(), func(l *view.Lane) { l.RetryQueue.Depth, l.OpenReason = new(int64(1)), new("ratio") })},
		"Open for 6 m 12 s because too many of the latest first attempts failed; next probe in 14 s. 1 delivery is held or waits for another attempt; holding costs no attempt.",
		"Nothing is lost. If you know that it is back, probe now; it is asked again by itself.",
	},
	"holding nothing": {
		words.Lane{Lane: edit(openLane(), func(l *view.Lane) { l.RetryQueue.Depth, l.NextProbeAt = new(int64(0)), stamp(-time.Second) })},
		"Open for 6 m 12 s after failures in a row; a probe is due now. Nothing is held.",
		"Nothing is lost. If you know that it is back, probe now; it is asked again by itself.",
	},
	"holding very many, expiring": {
		words.Lane{Lane: edit(openLane(), func(l *view.Lane) { l.RetryQueue = view.RetryQueue{Depth: new(int64(1_000_000)), AtLeast: true} }), FirstExpires: now},
		"Open for 6 m 12 s after failures in a row; next probe in 14 s. At least 1,000,000 deliveries are held or wait for another attempt; holding costs no attempt, and the first expire now.",
		"What expires becomes a dead letter and can be replayed. If you know that it is back, probe now; it is asked again by itself.",
	},
	"holding, little known": {
		words.Lane{Lane: view.Lane{State: "open", Status: "active"}},
		"Open. Deliveries are held; holding costs no attempt.",
		"Nothing is lost. If you know that it is back, probe now; it is asked again by itself.",
	},
	"holding one, counted by figures": {
		words.Lane{Lane: openLane(), Waiting: view.Gauges{Held: new(uint64(1))}},
		"Open for 6 m 12 s after failures in a row; next probe in 14 s. 1 delivery is held; holding costs no attempt.",
		"Nothing is lost. If you know that it is back, probe now; it is asked again by itself.",
	},
	"holding, figures too old": {
		words.Lane{Lane: openLane(), Waiting: view.Gauges{Held: new(uint64(0))}},
		"Open for 6 m 12 s after failures in a row; next probe in 14 s. 8,120 deliveries are held or wait for another attempt; holding costs no attempt.",
		"Nothing is lost. If you know that it is back, probe now; it is asked again by itself.",
	},
	"holding, counted by figures": {
		words.Lane{Lane: edit(openLane(), func(l *view.Lane) { l.RetryQueue.Depth, l.OpenReason = nil, new("moon") }), Waiting: view.Gauges{Held: new(uint64(7))}},
		"Open for 6 m 12 s after moon; next probe in 14 s. 7 deliveries are held; holding costs no attempt.",
		"Nothing is lost. If you know that it is back, probe now; it is asked again by itself.",
	},

	"probing": {
		words.Lane{Lane: edit(openLane(), func(l *view.Lane) { l.State = "half_open" })},
		"One probe is on its way. If it succeeds, the lane sends again, slowly at first. 8,120 deliveries are held or wait for another attempt; holding costs no attempt.",
		"Nothing is lost. Nothing to do.",
	},

	"told to wait": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) {
			l.HoldUntil, l.RatePerSecond = stamp(30*time.Second), new(18.0)
			l.Learnt.Throttle = &view.Throttle{RetryAfter: "30s"}
		}), Last: &view.Last{Class: "throttle", Reason: "throttled", StatusCode: new(429)}},
		"The endpoint works and asked for 30 s of quiet (429). The lane waits until 03:13:10, in 30 s, and then sends 18 per second.",
		"Nothing is lost, and being told to wait costs no attempt. Nothing to do.",
	},
	"told to wait, little known": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) { l.HoldUntil = stamp(time.Hour) })},
		"The endpoint works and asked for quiet. The lane waits until 04:12:40, in 1 h.",
		"Nothing is lost, and being told to wait costs no attempt. Nothing to do.",
	},

	"storm": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) {
			l.Storm = view.Storm{Active: true, Since: stamp(-15*time.Minute - 20*time.Second), Retries: 1128, First: new(int64(120)), Ratio: 9.4}
			l.RetryQueue = view.RetryQueue{Depth: new(int64(1842)), EmptyAt: stamp(time.Hour)}
		}), Last: &view.Last{Class: "retry", Reason: "server_error", StatusCode: new(500)}},
		"A retry storm for 15 m 20 s: 1,128 retries against 120 first attempts in 15 minutes (ratio 9.40). 1,842 deliveries wait for another attempt; at this pace there is none left at about 04:13.",
		"Nothing is lost yet: retries use up attempts. Tell its owner that it answers with a server error, and with which body. Pause it if the receiver asks for quiet.",
	},
	"storm without first attempts": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) {
			l.Storm = view.Storm{Active: true, Retries: 1, First: new(int64(0)), Ratio: 1, NoFirst: true}
			l.RetryQueue = view.RetryQueue{Depth: new(int64(1))}
		})},
		"A retry storm: 1 retry against no first attempt in 15 minutes (ratio 1.00). 1 delivery waits for another attempt.",
		"Nothing is lost yet: retries use up attempts. Pause it if the receiver asks for quiet.",
	},
	"storm, little known": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) { l.Storm = view.Storm{Active: true, Retries: 2, Ratio: 2} })},
		"A retry storm: 2 retries against an unknown number of first attempts in 15 minutes (ratio 2.00).",
		"Nothing is lost yet: retries use up attempts. Pause it if the receiver asks for quiet.",
	},

	"slow start": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) { l.SlowStart, l.Limit = true, 4 })},
		"Delivering since 02:59:57. The limit is 4 and grows in rounds while answers stay fast; new events go first.", "Nothing to do.",
	},

	"growing": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) {
			l.RetryQueue = view.RetryQueue{Growing: true, Since: stamp(-7*time.Minute - 25*time.Second), Depth: new(int64(266))}
		}), Last: &view.Last{Class: "retry", Reason: "server_error", StatusCode: new(500)}},
		"The retry queue grows since 03:05:15. 266 deliveries wait for another attempt. The last answer was 500 server_error.",
		"Nothing is lost yet. A storm may follow: look at its latest attempts.",
	},
	"growing beyond counting": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) {
			l.RetryQueue = view.RetryQueue{Growing: true, Depth: new(int64(10000)), AtLeast: true}
		})},
		"The retry queue grows. At least 10,000 deliveries wait for another attempt.",
		"Nothing is lost yet. A storm may follow: look at its latest attempts.",
	},

	"draining": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) {
			l.Learnt.Recovery, l.Learnt.Usual = &view.Recovery{Rate: 60}, new(24.0)
		}), Waiting: view.Gauges{Ready: new(uint64(5777))}},
		"Delivering since 02:59:57. New events go first; 5,777 waiting deliveries drain while the lane sends 60 per second, and more as the endpoint bears it; at this pace they are done at about 03:15.",
		"Nothing to do.",
	},
	"draining one": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) {
			l.Learnt.Recovery, l.Learnt.Usual = &view.Recovery{Rate: 2}, new(24.0)
		}), Waiting: view.Gauges{Ready: new(uint64(1))}},
		"Delivering since 02:59:57. New events go first; 1 waiting delivery drains while the lane sends 2 per second, and more as the endpoint bears it.",
		"Nothing to do.",
	},
	"draining for ages": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) { l.Learnt.Recovery = &view.Recovery{Rate: 1e-9} }), Waiting: view.Gauges{Ready: new(^uint64(0))}},
		"Delivering since 02:59:57. New events go first; 18,446,744,073,709,551,615 waiting deliveries drain while the lane sends < 0.01 per second, and more as the endpoint bears it.",
		"Nothing to do.",
	},
	"draining, little known": {
		words.Lane{Lane: edit(closedLane(), func(l *view.Lane) { l.Learnt.Recovery = &view.Recovery{} })},
		"Delivering since 02:59:57. New events go first; what was held drains.", "Nothing to do.",
	},

	"paused": {
		words.Lane{
			Waiting: view.Gauges{Held: new(uint64(1204))},
			Lane:    view.Lane{Status: "paused", Paused: true, RetryQueue: view.RetryQueue{Depth: new(int64(1204))}},
			By:      "key “on-call”", Note: "maintenance until 06:00", ChangedAt: now.Add(-3*time.Hour - 10*time.Minute), FirstExpires: now.Add(68*time.Hour + 50*time.Minute),
		},
		"Paused for 3 h 10 m by key “on-call”: “maintenance until 06:00”. 1,204 deliveries are held; holding costs no attempt, and the first expires in 68 h 50 m.",
		"Resume sends them, slowly at first.",
	},
	"paused by hand": {
		words.Lane{Lane: view.Lane{Status: "paused"}, Endpoint: view.Endpoint{StatusReason: new("manual")}},
		"Paused by hand. Deliveries are held; holding costs no attempt.", "Resume sends them, slowly at first.",
	},
	"disabled, gone": {
		words.Lane{Lane: view.Lane{Status: "disabled", RetryQueue: view.RetryQueue{Depth: new(int64(0))}}, Endpoint: view.Endpoint{StatusReason: new("gone")}},
		"Disabled, because the endpoint answered 410: it is gone. Nothing is held.",
		"Delete it, or resume it if it still takes events. Resume sends what is held, slowly at first.",
	},
	"disabled, failing": {
		words.Lane{Lane: view.Lane{Status: "disabled"}, Endpoint: view.Endpoint{StatusReason: new("failing")}},
		"Disabled, because it did nothing but fail for long. Deliveries are held; holding costs no attempt.", "Resume sends them, slowly at first.",
	},
	"disabled by the future": {
		words.Lane{Lane: view.Lane{Status: "disabled"}, Endpoint: view.Endpoint{StatusReason: new("moon")}},
		"Disabled, because moon. Deliveries are held; holding costs no attempt.", "Resume sends them, slowly at first.",
	},
}

func TestLaneSentences(t *testing.T) {
	t.Parallel()
	for name, tc := range laneCases {
		s := words.LaneSentence(&tc.lane, now)
		same(t, name, s.Say.String(), tc.say)
		same(t, name, s.Do.String(), tc.do)
		same(t, name, s.String(), tc.say+" "+tc.do)
		checkStyle(t, name, s.String())
	}
}

// TestTextsHaveParts: a page can set what counts down and what is important.
func TestTextsHaveParts(t *testing.T) {
	t.Parallel()
	tc := laneCases["holding"]
	styles := map[words.Style]string{}
	for _, p := range words.LaneSentence(&tc.lane, now).Say {
		if p.Text == "" {
			t.Error("an empty part")
		}
		if (p.Style == words.Counts || p.Style == words.Grows) && p.At.IsZero() {
			t.Errorf("%q tells no moment", p.Text)
		}
		if styles[p.Style] == "" {
			styles[p.Style] = p.Text
		}
	}
	for style, want := range map[words.Style]string{
		words.Plain: "Open for ", words.Grows: "6 m 12 s", words.Counts: "in 14 s", words.Strong: "8,120 deliveries are held", words.Code: "connect_refused",
	} {
		same(t, "style "+string(style), styles[style], want)
	}
}

// TestOperationalEvents has an event of every type with its details.
func TestOperationalEvents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ typ, detail, want string }{
		{"storm.started", `{"retries":104,"first":12,"ratio":8.67}`, "ep: 104 retries, 12 first attempts"},
		{"storm.started", `{"retries":1,"first":1}`, "ep: 1 retry, 1 first attempt"},
		{"storm.ended", `{"retries":1,"seconds":2300.4}`, "ep: retry storm ended after 38 m 20 s"},
		{"retry_queue.growing", `{"depth":188}`, "ep: 188 deliveries wait for another attempt, and the number grows"},
		{"retry_queue.growing", `{"depth":10000,"at_least":true}`, "ep: at least 10,000 deliveries wait for another attempt, and the number grows"},
		{"retry_queue.settled", `{}`, "ep: the queue grows no more"},
		{"breaker.opened", `{}`, "ep: Breaker opened"},
		{"breaker.opened", `{"suppressed":1}`, "ep: Breaker opened, and 1 time before that was not told"},
		{"breaker.closed", `{"seconds":1325}`, "ep: breaker closed after 22 m 05 s"},
		{"endpoint.failing", `{"percent_of_disable_after":50}`, "ep: it does nothing but fail; 50 % of the time after which it is disabled are over"},
		{"endpoint.disabled", `{"reason":"gone"}`, "ep: disabled, because the endpoint answered 410: it is gone"},
		{"endpoint.disabled", `{"reason":"moon"}`, "ep: disabled, because moon"},
		{"system.breakers.many", `{"opened":5,"lanes":50}`, "ep: 5 of 50 lanes opened within 5 minutes"},
		{"store.log.growing", `{"log_bytes":2000000000,"limit_bytes":1000000000}`, "ep: the log of the store has 2 GB, limit 1 GB"},
		{"store.damaged", `{"doing":"settle"}`, "ep: the store is damaged (settle)"},
		{"breaker.probe_failed", `{"count":1,"reason":"connect_refused"}`, "ep: a probe failed: connection refused"},
		{"lane.throttled", `{"count":1,"retry_after_seconds":30}`, "ep: it asked for 30 s of quiet"},
		{"lane.slow_start_done", `{"count":1}`, "ep: Slow start done"},
		{"delivery.dead_lettered", `{"count":2,"reason":"exhausted"}`, "ep: 2 deliveries given up, the last one: attempts used up"},
		{"dead_letters.growing", `{"alert":"alr_1","value":120,"threshold":100}`, "ep: 120 dead letters came within a short time"},
		{"dead_letters.expiring", `{"alert":"alr_1","value":1,"threshold":0}`, "ep: 1 dead letter is removed soon"},
		{"endpoint.updated", `{"changed":["types","url"]}`, "ep: changed: types and url"},
		{"endpoint.deleted", `{"cancelled":12}`, "ep: deleted, and 12 deliveries with it"},
		{"endpoint.paused", `{"from":"active"}`, "ep: Endpoint paused"},
		{"endpoint.secret_rotated", `{"scheme":"v1"}`, "ep: secret rotated (v1)"},
		{"replay.started", `{"replay":"rpl_1","total":41210}`, "ep: replay of 41,210 deliveries began"},
		{"replay.paused", `{"replay":"rpl_1","reason":"breaker"}`, "ep: replay paused: breaker open"},
		{"replay.finished", `{"replay":"rpl_1","total":3,"delivered":2,"failed":1,"skipped":0}`, "ep: replay done: 2 delivered, 1 failed, 0 skipped"},
		{"key.created", `{"key":"key_1","scope":"tenant:read"}`, "ep: key key_1 made, tenant:read"},
		{"node.joined", `{"node":"nod_1","name":"bw-1"}`, "ep: node bw-1 joined"},
		{"node.lease_lost", `{"node":"nod_1","name":"bw-1","shards":4}`, "ep: node bw-1 lost 4 shards"},
		{"breaker.opened", `nonsense`, "ep: Breaker opened"},
		{"moon.rose", `{"depth":"x"}`, "ep: moon.rose"},
	} {
		e := view.OperationalEvent{Type: tc.typ, Detail: json.RawMessage(tc.detail)}
		same(t, tc.typ, words.EventSentence(&e, "ep"), tc.want)
	}
	e := view.OperationalEvent{Type: "system.retry_queue.settled", Detail: json.RawMessage(`{"seconds":60}`)}
	same(t, "no endpoint", words.EventSentence(&e, ""), "The queue grows no more after 1 m")
}
