package words

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// State is what a lane does, as its badge says it. The zero State is Delivering.
type State int

// The states of lanes, calmest first. A lane shows the highest that holds.
const (
	Delivering State = iota
	Draining
	QueueGrowing
	SlowStart
	RetryStorm
	ToldToWait
	Probing
	Holding
	Paused
	Disabled
)

// States lists every state in the order in which a lane is tested for it.
func States() []State {
	return []State{Disabled, Paused, Holding, Probing, ToldToWait, RetryStorm, SlowStart, QueueGrowing, Draining, Delivering}
}

// Badge is the word, icon and class of a state, and how filters spell it.
func (s State) Badge() Word {
	if s < 0 || int(s) >= len(badges) {
		return Word{Word: None}
	}
	return badges[s]
}

// String is the word of the badge.
func (s State) String() string { return s.Badge().Word }

// Healthy reports whether a lane in this state needs nobody's attention.
func (s State) Healthy() bool { return s <= Draining || s == SlowStart }

var badges = [...]Word{
	Delivering:   {API: "closed", Word: "Delivering", Class: ok, Icon: "delivering", Meaning: "Deliveries are sent as they come."},
	Draining:     {API: "closed, backlog", Word: "Draining", Class: sea, Icon: "draining", Meaning: "What was held is sent beside what is new."},
	QueueGrowing: {API: "retry_queue.growing", Word: "Queue growing", Class: warn, Icon: "growing", Meaning: "More and more deliveries wait for another attempt."},
	SlowStart:    {API: "closed, slow_start", Word: "Slow start", Class: sea, Icon: "slow", Meaning: "The limit grows in rounds while answers stay fast."},
	RetryStorm:   {API: "storm.active", Word: "Retry storm", Class: bad, Icon: "storm", Meaning: "The endpoint gets far more retries than first attempts."},
	ToldToWait:   {API: "hold_until", Word: "Told to wait", Class: warn, Icon: "wait", Meaning: "The endpoint works and asked for quiet."},
	Probing:      {API: "half_open", Word: "Probing", Class: warn, Icon: "probing", Meaning: "One probe is on its way."},
	Holding:      {API: "open", Word: "Holding", Class: bad, Icon: "holding", Meaning: "The breaker is open: nothing leaves but probes."},
	Paused:       {API: "paused", Word: "Paused", Class: grey, Icon: "paused", Meaning: "Deliveries are accepted and held."},
	Disabled:     {API: "disabled", Word: "Disabled", Class: grey, Icon: "disabled", Meaning: "Deliveries are accepted and held until they expire."},
}

// StateOf finds what a lane does at now, from what the API says of it. waiting are
// the latest gauges of its endpoint, zero if they are not known.
func StateOf(l *view.Lane, waiting *view.Gauges, now time.Time) State {
	switch {
	case l.Status == "disabled":
		return Disabled
	case l.Status == "paused" || l.Paused:
		return Paused
	case l.State == view.LaneOpen:
		return Holding
	case l.State == "half_open":
		return Probing
	case timeOf(l.HoldUntil).After(now):
		return ToldToWait
	case l.Storm.Active:
		return RetryStorm
	case l.SlowStart:
		return SlowStart
	case l.RetryQueue.Growing:
		return QueueGrowing
	case drains(l, waiting):
		return Draining
	default:
		return Delivering
	}
}

// StateOfEndpoint finds it from the short form that lists of endpoints have.
func StateOfEndpoint(e *view.Endpoint) State {
	return StateOf(&view.Lane{Status: e.Status, State: e.Health.State}, nil, time.Time{})
}

// drains reports whether a lane that came back still has some of what it held.
func drains(l *view.Lane, waiting *view.Gauges) bool {
	if l.Learnt.Recovery == nil {
		return false
	}
	n, known := backlog(waiting)
	return !known || n > 0
}

// backlog is what is due and waits in a lane that is closed.
func backlog(g *view.Gauges) (n uint64, known bool) {
	if g == nil || g.Ready == nil {
		return 0, false
	}
	return *g.Ready, true
}
