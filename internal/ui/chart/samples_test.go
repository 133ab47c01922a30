package chart_test

import (
	"html/template"
	"math"
	"math/rand/v2"
	"time"

	"github.com/breakwaterhq/breakwater/internal/ui/chart"
)

var (
	now = time.Date(2026, 11, 16, 3, 12, 40, 0, time.UTC)
	nan = math.NaN()
)

// sample is a typical picture. Every text of it passed through the function that samples was given.
type sample struct {
	name string
	html template.HTML
	room int  // the bytes it may have
	wrap bool // needs the element of class swim around it
}

// curve makes one value per bucket of the last hour or so.
func curve(n int, f func(i int) float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

func buckets(from time.Time, n int, bucket time.Duration) []time.Time {
	out := make([]time.Time, n)
	for i := range out {
		out[i] = from.Add(time.Duration(i) * bucket)
	}
	return out
}

const (
	kilobyte    = 1 << 10
	plotRoom    = 14 * kilobyte
	pictureRoom = 6 * kilobyte
	smallRoom   = 2 * kilobyte
)

func samples(say func(string) string) []sample {
	var out []sample
	out = append(out, overview(say)...)
	out = append(out, endpoint(say)...)
	out = append(out, small(say)...)
	out = append(out, lanes(say)...)
	out = append(out, timelines(say)...)
	out = append(out, replays(say)...)
	return append(out, playground(say)...)
}

func overview(say func(string) string) []sample {
	const n = 120
	r := rand.New(rand.NewPCG(4, 4))
	w := chart.Last(now, time.Hour)
	at := func(i int) float64 { return float64(i) / n }
	first := curve(n, func(i int) float64 {
		down := 0.0
		if at(i) > .42 && at(i) < .79 {
			down = 30
		}
		return 412 + 18*math.Sin(float64(i)/13) + 7*r.NormFloat64() - down
	})
	retry := curve(n, func(i int) float64 { return 6 + 3*r.Float64() + 46*min(max((at(i)-.7)*8, 0), 1) })
	replay := curve(n, func(i int) float64 { return min(max((at(i)-.85)*160, 0), 17) })
	accepted := curve(n, func(int) float64 { return 412 + 8*r.NormFloat64() })
	marks := []chart.Mark{
		{At: now.Add(-2088 * time.Second), Letter: say("A")},
		{At: now.Add(-920 * time.Second), Letter: say("B")},
		{At: now.Add(-763 * time.Second), Letter: say("C")},
		{At: now.Add(-630 * time.Second), Letter: say("D")},
		{At: now.Add(-372 * time.Second), Letter: say("E")},
	}
	var probes []time.Time
	for i := range 12 {
		probes = append(probes, now.Add(-time.Duration(2080-i*110)*time.Second))
	}
	attempts := chart.Plot{
		Title: say("Attempts per second by kind, last hour"), Sentence: say("Retries rose from 8 to 52 per second after 02:57."),
		Window: w, Times: buckets(w.From, n, 30*time.Second), Bucket: 30 * time.Second, Half: true, Marks: marks, Probes: probes,
		Areas: []chart.Series{{Name: say("first"), Style: chart.First, Values: first}, {Name: say("retry"), Style: chart.Retry, Values: retry}, {Name: say("replay"), Style: chart.Replay, Values: replay}},
		Lines: []chart.Series{{Name: say("accepted/s"), Style: chart.Accepted, Values: accepted}},
	}
	pending := chart.Plot{
		Title: say("Pending deliveries, last hour"), Sentence: say("Held deliveries rose to 32,000 and drain since 02:59."),
		Window: w, Times: buckets(w.From, n, 30*time.Second), Bucket: 30 * time.Second, Half: true, Marks: marks, Y: chart.Axis{Whole: true},
		Areas: []chart.Series{
			{Name: say("ready"), Style: chart.Ready, Now: say("67"), Values: curve(n, func(int) float64 { return 60 + 40*r.Float64() })},
			{Name: say("retry"), Style: chart.Retry, Now: say("1,860"), Values: curve(n, func(i int) float64 { return 210 + 1650*min(max((at(i)-.68)*9, 0), 1) })},
			{Name: say("held"), Style: chart.Held, Now: say("15,419"), Values: curve(n, func(i int) float64 { return max(0, min((at(i)-.42)*88000, 32400-(at(i)-.79)*100000)) })},
		},
	}
	return []sample{
		{name: "legend", html: chart.Legend(append(attempts.Entries(), chart.Entry{Style: chart.Probes, Name: say("probe")})), room: smallRoom},
		{name: "attempts", html: attempts.HTML(), room: plotRoom},
		{name: "pending", html: pending.HTML(), room: plotRoom},
	}
}

// endpoint is an outage and the recovery from it.
func endpoint(say func(string) string) []sample {
	const n = 180
	r := rand.New(rand.NewPCG(11, 11))
	w := chart.Last(now, time.Hour)
	opened, closed := now.Add(-2088*time.Second), now.Add(-763*time.Second)
	times := buckets(w.From, n, 20*time.Second)
	down := func(i int) bool { return !times[i].Before(opened.Add(-20*time.Second)) && times[i].Before(closed) }
	after := func(i int) bool { return !times[i].Before(closed) }
	gone := func(f func(i int) float64) []float64 {
		return curve(n, func(i int) float64 {
			if down(i) {
				return nan
			}
			return f(i)
		})
	}
	base := chart.Plot{
		Window: w, Times: times, Bucket: 20 * time.Second, NoTimes: true, Cursor: closed.Add(75 * time.Second),
		Bands: []chart.Band{{From: opened, To: closed}},
	}
	requests := base
	requests.Title, requests.Sentence, requests.Height = say("Requests per second"), say("Steady at 24, only probes during the outage, 60 while draining."), 100
	requests.Areas = []chart.Series{
		{Name: say("first"), Style: chart.First, Now: say("56"), Values: curve(n, func(i int) float64 {
			if down(i) {
				return 0
			} else if after(i) {
				return 57 + 2*r.NormFloat64()
			}
			return 24 + r.NormFloat64()
		})},
		{Name: say("retry"), Style: chart.Retry, Now: say("3.4"), Values: curve(n, func(i int) float64 {
			if after(i) {
				return max(0, 4-float64(i-142)*.2)
			}
			return 0
		})},
	}
	requests.Lines = []chart.Series{{Name: say("accepted"), Style: chart.Accepted, Now: say("23"), Values: curve(n, func(i int) float64 {
		if i == 76 {
			return 52
		}
		return 24 + r.NormFloat64()
	})}}
	for t := opened; t.Before(closed); t = t.Add(15 * time.Second) {
		requests.Probes = append(requests.Probes, t)
	}
	limit := base
	limit.Title, limit.Sentence, limit.Height, limit.Y = say("Limit and requests in flight"), say("The limit starts at 1 after the breaker closes."), 76, chart.Axis{Whole: true}
	limit.Areas = []chart.Series{{Name: say("in flight"), Style: chart.First, Now: say("10.5"), Values: gone(func(int) float64 { return 4 + r.Float64() })}}
	limit.Lines = []chart.Series{{Name: say("limit"), Style: chart.Limit, Now: say("13.6"), Step: true, Values: gone(func(i int) float64 { return 11 + math.Round(2*math.Sin(float64(i)/20)) })}}
	waiting := base
	waiting.Title, waiting.Sentence, waiting.Height, waiting.Y = say("Waiting deliveries"), say("Held deliveries rose to 32,394 and drain."), 96, chart.Axis{Whole: true}
	held := func(i int) float64 { return max(0, min(float64(i-75)*493, 32394-float64(i-141)*700)) }
	waiting.Areas = []chart.Series{{Name: say("held"), Style: chart.Held, Now: say("29,601"), Values: curve(n, held)}}
	waiting.Notes = []chart.Note{{At: times[141], Value: held(141), Style: chart.Held, Text: say("32,394 held")}}
	latency := base
	latency.Title, latency.Sentence, latency.Height, latency.NoTimes = say("Latency, ms, log"), say("p50 141 ms before, 172 ms while draining; no answers between."), 76, false
	latency.Y = chart.Axis{Log: true, Unit: chart.Milliseconds}
	latency.Bands = []chart.Band{{From: opened, To: closed, Label: say("no answers")}}
	latency.Lines = []chart.Series{
		{Name: say("p99"), Style: chart.Tail, Now: say("456"), Values: gone(func(int) float64 { return 340 + 20*r.NormFloat64() })},
		{Name: say("p50"), Style: chart.Median, Now: say("190"), Values: gone(func(int) float64 { return 141 + 4*r.NormFloat64() })},
	}
	ribbon := chart.Ribbon{Title: say("State of the gate"), Sentence: say("Delivering, holding, delivering."), Window: w, Spans: []chart.GateSpan{
		{From: w.From, To: opened, State: chart.Delivering, Label: say("delivering")},
		{From: opened, To: closed, State: chart.Holding, Label: say("holding, 22 m 05 s")},
		{From: closed, To: now.Add(-500 * time.Second), State: chart.Delivering},
		{From: now.Add(-500 * time.Second), To: now.Add(-300 * time.Second), State: chart.ToldToWait, Label: say("wait")},
		{From: now.Add(-300 * time.Second), To: now.Add(-100 * time.Second), State: chart.Paused, Label: say("paused")},
		{From: now.Add(-100 * time.Second), To: now, State: chart.Delivering},
	}}
	return []sample{
		{name: "ribbon", html: ribbon.HTML(), room: pictureRoom},
		{name: "requests", html: requests.Picture(), room: plotRoom},
		{name: "side", html: chart.Side(say("Requests/s"), append(requests.Entries(), chart.Entry{Style: chart.Probes, Name: say("probe"), Now: say("–")})), room: smallRoom},
		{name: "limit", html: limit.Picture(), room: plotRoom},
		{name: "waiting", html: waiting.Picture(), room: plotRoom},
		{name: "latency", html: latency.HTML(), room: plotRoom},
	}
}

func small(say func(string) string) []sample {
	r := rand.New(rand.NewPCG(5, 5))
	strip := make([]chart.HealthCell, chart.HealthCells)
	for i := range strip {
		strip[i].Failed = 0
		switch {
		case i < 5:
			strip[i].Failed = nan
		case i > 30 && i < 36:
			strip[i] = chart.HealthCell{Failed: nan, Held: true}
		case i == 36:
			strip[i] = chart.HealthCell{Failed: .4, Held: true}
		case i > 36 && i < 42:
			strip[i].Failed = float64(42-i) * .05
		case i == 44:
			strip[i].Failed = .001
		}
	}
	gaps := curve(60, func(i int) float64 {
		if i > 20 && i < 30 {
			return nan
		}
		return 40 + 10*r.Float64()
	})
	w := chart.Last(now, 24*time.Hour)
	alerts := chart.AlertLanes{Title: say("Alerts in the last 24 hours"), Sentence: say("breaker_open_long fires since 01:38."), Window: w, Lanes: []chart.AlertLane{
		{Rule: say("breaker_open_long"), Severity: chart.SeverityPage, Firings: []chart.Firing{{From: now.Add(-94 * time.Minute)}}},
		{Rule: say("retry_storm"), Severity: chart.SeverityWarning, Firings: []chart.Firing{{From: now.Add(-11 * time.Hour), To: now.Add(-10 * time.Hour)}, {From: now.Add(-1000 * time.Second)}}},
		{Rule: say("breaker_open"), Severity: chart.SeverityWarning, Firings: []chart.Firing{{From: now.Add(-30 * time.Hour), To: now.Add(-20 * time.Hour)}, {From: now.Add(-372 * time.Second)}}},
		{Rule: say("replay_paused"), Severity: chart.SeverityInfo, Firings: []chart.Firing{{From: now.Add(-22 * time.Hour), To: now.Add(-22*time.Hour + 80*time.Second)}}},
	}}
	return []sample{
		{name: "spark", html: chart.Spark{Values: gaps}.HTML(), room: smallRoom},
		{name: "spark-bad", html: chart.Spark{Values: append(make([]float64, 26), curve(14, func(int) float64 { return 1 })...), Top: 1.3, Tone: chart.Bad}.HTML(), room: smallRoom},
		{name: "health", html: chart.Health(strip, say("Last 24 hours in 48 half hours: 98.9 % of answers were 2xx")), room: smallRoom},
		{name: "bar", html: chart.Bar(.4, chart.Held), room: smallRoom},
		{name: "bullet", html: chart.Bullet(9.4, 5, chart.Warn), room: smallRoom},
		{name: "wait-bar", html: chart.WaitBar(531, 810, 2430), room: smallRoom},
		{name: "progress", html: chart.Progress{Total: 38904, Delivered: 3891, Failed: 87, Underway: 34, Label: say("Delivered 10.0 percent")}.HTML(), room: smallRoom},
		{name: "alerts", html: alerts.HTML(), room: pictureRoom, wrap: true},
		{name: "badge", html: chart.Badge{State: chart.Holding, Text: say("Holding"), Title: say("open")}.HTML(), room: smallRoom},
		{name: "answer", html: chart.Answer(chart.Retryable, say("500 server_error")), room: smallRoom},
		{name: "icon", html: chart.Icon(chart.RetryStorm, 16), room: smallRoom},
	}
}

func lanes(say func(string) string) []sample {
	spark := chart.Spark{Values: curve(40, func(i int) float64 { return 24 + 3*math.Sin(float64(i)/3) }), Top: 40}
	queues := func(ready, retry, held, replay int64) []chart.Queue {
		return []chart.Queue{{say("ready"), chart.Ready, ready}, {say("retry"), chart.Retry, retry}, {say("held"), chart.Held, held}, {say("replay"), chart.Replay, replay}}
	}
	lane := func(state chart.State, badge string, q []chart.Queue, slots chart.Slots, gate ...chart.Line) chart.Lane {
		return chart.Lane{
			State: state, Badge: say(badge), BadgeTitle: say("api word"), Accepted: say("24.1"), AcceptedNote: say("1 h · order.*"), Spark: spark, Waiting: say("5,829"),
			Queues: q, Largest: 32394, Slots: slots, Gate: gate, Host: say("erp.fjordretail.example"), Answer: say("200"), AnswerClass: chart.Success, AnswerNote: say("in 168 ms"),
			Destination: []chart.Line{chart.Say(say("base latency 141 ms"))},
		}
	}
	return []sample{
		{name: "lane-draining", room: pictureRoom, html: lane(chart.Draining, "Draining", queues(43, 9, 5777, 0), chart.Slots{Limit: 14, New: 9, Backlog: 4}, chart.Line{{Text: say("13"), Bold: true}, {Text: say(" of limit 14 in flight")}}).HTML()},
		{name: "lane-holding", room: pictureRoom, html: lane(chart.Holding, "Holding", queues(0, 14, 8120, 0), chart.Slots{}, chart.Say(say("nothing leaves but probes")), chart.Line{{Text: say("next probe in ")}, {Text: say("14 s"), Bold: true}}).HTML()},
		{name: "lane-probing", room: pictureRoom, html: lane(chart.Probing, "Probing", queues(0, 14, 8431, 0), chart.Slots{Limit: 1, New: 1}).HTML()},
		{name: "lane-wide", room: pictureRoom, html: lane(chart.Delivering, "Delivering", queues(0, 0, 0, 0), chart.Slots{Limit: 100, New: 40, Backlog: 20}).HTML()},
		{name: "lane-wait", room: pictureRoom, html: lane(chart.ToldToWait, "Told to wait", queues(402, 0, 0, 0), chart.Slots{}).HTML()},
		{name: "lane-paused", room: pictureRoom, html: lane(chart.Paused, "Paused", queues(0, 0, 1204, 0), chart.Slots{}).HTML()},
	}
}

func timelines(say func(string) string) []sample {
	accepted := now.Add(-2090 * time.Second)
	at := func(s int) time.Time { return accepted.Add(time.Duration(s) * time.Second) }
	t := chart.Timeline{
		Accepted: accepted, AcceptedLabel: say("accepted 02:37:50"), Now: now, NowLabel: say("now 03:12:40"),
		Attempts: []chart.Attempt{
			{1, at(0), chart.Down, say("503"), false},
			{2, at(1334), chart.Retryable, say("500"), false},
			{3, at(1396), chart.Throttle, say("429"), false},
			{4, at(1557), chart.Limited, say("tls"), false},
			{5, at(2088), chart.Retryable, say("500"), true},
		},
		Holds: []chart.Pause{{at(21), at(1334), say("held 21 m 53 s"), say("breaker open, nothing charged")}},
		Waits: []chart.Pause{{at(1396), at(1557), say("2 m 41 s"), ""}, {at(1557), at(2088), say("waited 8 m 51 s"), ""}},
		Due: []chart.Due{
			{6, now.Add(1040 * time.Second), time.Time{}, say("03:30:00"), ""},
			{7, now.Add(1041 * time.Second), now.Add(8330 * time.Second), say("some time up to 05:31:30"), say("any moment in here, equally likely")},
		},
		Past: say("So far: 34 m 50 s, to scale"), PastSentence: say("503 at 02:37:50, held until 03:00:04, then 500."),
		Ahead: say("Ahead: 2 h 30 m, to scale"), AheadSentence: say("Attempt 6 at 03:30:00."),
	}
	crowd := chart.Timeline{Accepted: accepted, AcceptedLabel: say("accepted 02:37:50"), Now: now, Past: say("So far"), PastSentence: say("Delivered with attempt 30.")}
	for i := range 30 {
		crowd.Attempts = append(crowd.Attempts, chart.Attempt{Number: i + 1, At: at(i * i * 2), Class: chart.Class(i % 7), Code: say("503")})
	}
	return []sample{
		{name: "timeline", html: t.HTML(), room: pictureRoom},
		{name: "timeline-crowd", html: crowd.HTML(), room: 8 * kilobyte},
	}
}

func replays(say func(string) string) []sample {
	minute := func(m float64) time.Duration { return time.Duration(m * float64(time.Minute)) }
	pace := chart.ReplayPace{
		Title: say("Pace of the replay"), Sentence: say("100 per minute at first, doubled after every clean minute up to 1,000."),
		Steps: []chart.PaceStep{{0, 100, 100}, {minute(1), 200, 300}, {minute(2), 400, 700}, {minute(3), 800, 1500}, {minute(4), 1000, 2016}},
		End:   minute(4.52), Done: say("done after 4 m 31 s"), Condition: say("if every minute is clean"),
	}
	start := now.Add(-630 * time.Second)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	errors := curve(20, func(i int) float64 {
		switch {
		case i == 6:
			return 9
		case i == 7:
			return 14.2
		case i > 7 && i < 11:
			return nan
		}
		return 1.5
	})
	course := chart.Course{
		Window: chart.Window{From: start.Add(-50 * time.Second), To: now.Add(230 * time.Second)}, Now: now, NowLabel: say("now"), Next: 1000, NextLabel: say("stays at the maximum"),
		Times: []time.Time{at(0), at(60), at(120), at(180), at(240), at(250), at(330), at(390), at(450), at(510), at(570)}, PerMinute: []float64{100, 200, 400, 800, 1000, 0, 100, 200, 400, 800, 1000},
		Pauses:     []chart.Band{{From: at(250), To: at(330), Label: say("paused"), Detail: say("80 s")}},
		ErrorTimes: buckets(start, 20, 30*time.Second), ErrorBucket: 30 * time.Second, ErrorPercent: errors, LimitPercent: 10, LimitLabel: say("pauses above 10 %"),
		PaceSentence: say("From 100 to 1,000, paused once."), ErrorSentence: say("1 to 2 percent, 14 percent at 03:06."),
	}
	return []sample{
		{name: "pace", html: pace.HTML(), room: pictureRoom},
		{name: "course", html: course.HTML(), room: plotRoom},
	}
}

func playground(say func(string) string) []sample {
	ladder := chart.Ladder{Sentence: say("Before attempts 2 to 8.")}
	for _, s := range []int{30, 90, 270, 810, 2430, 7290, 21600} {
		d := time.Duration(s) * time.Second
		ladder.Rungs = append(ladder.Rungs, chart.Rung{Floor: time.Second, Mean: d / 2, Ceiling: d})
	}
	r := rand.New(rand.NewPCG(9, 9))
	arrivals := curve(300, func(i int) float64 {
		switch {
		case i < 40:
			return 25 + 4*r.NormFloat64()
		case i < 141:
			return math.Floor(r.Float64() * 1.3)
		case i < 260:
			return 52 + 2*r.NormFloat64()
		}
		return 26 + 3*r.NormFloat64()
	})
	delivered := curve(300, func(i int) float64 {
		if i >= 40 && i < 141 {
			return nan
		}
		return arrivals[i] * .9
	})
	rival := curve(300, func(i int) float64 {
		switch {
		case i < 40:
			return arrivals[i]
		case i > 141 && i%22 == 1:
			return 12772
		case i%19 == 1:
			return 1
		}
		return 0
	})
	sim := chart.Simulation{
		Title: say("This policy under the law"), Sentence: say("Arrivals stay near the capacity."), Bucket: 3 * time.Second, Arrivals: arrivals, Delivered: delivered, Capacity: 50, CapacityLabel: say("capacity 50/s"),
		DownFrom: 2 * time.Minute, DownTo: 7 * time.Minute, DownLabel: say("endpoint down"), Top: 12772, PeakAfter: 426 * time.Second, PeakValue: 67, PeakLabel: say("peak 67/s"), NoTimes: true,
	}
	other := sim
	other.Rival, other.NoTimes, other.Arrivals, other.Delivered, other.PeakValue, other.PeakLabel = true, false, rival, delivered[:40], 12772, say("12,772 in one second")
	other.PeakAfter = 466 * time.Second
	return []sample{
		{name: "ladder", html: ladder.HTML(), room: pictureRoom},
		{name: "simulation", html: sim.HTML(), room: plotRoom},
		{name: "simulation-rival", html: other.HTML(), room: plotRoom},
	}
}
