// Package check compares three accounts of the same events: what the publisher
// was promised, what the receiver saw, and what the API claims. It says what
// was lost, what was claimed falsely and what arrived more than once.
//
// It is pure and knows nothing of the product: it imports the standard library
// only, so that a mistake in the product's own code cannot hide itself here.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Submitted is one event that a publisher tried to hand over. An answer may
// never have come: then the event may exist or not.
type Submitted struct {
	Key       string   `json:"key"`       // idempotency key
	Body      string   `json:"body"`      // SHA-256 of the payload, in hex
	Endpoints []string `json:"endpoints"` // who has to get it
}

// Accepted is one answer 2xx to a publisher: from then on the event must not
// be lost.
type Accepted struct {
	Key        string `json:"key"`
	Event      string `json:"event"`      // the id in the answer
	Deliveries int    `json:"deliveries"` // the count in the answer
	Stamp      int64  `json:"stamp"`      // when it came, in the recorder's count
}

// Seen is one request that the receiver answered.
type Seen struct {
	Endpoint string `json:"endpoint"`
	Event    string `json:"event"`
	Body     string `json:"body"` // SHA-256 of what arrived, in hex
	Status   int    `json:"status"`
	Signed   bool   `json:"signed"` // the signature was right
	Source   string `json:"source"` // the process that sent it
	Stamp    int64  `json:"stamp"`  // before it was answered
}

// Claim is one delivery as the API shows it.
type Claim struct {
	Event    string `json:"event"`
	Endpoint string `json:"endpoint"`
	Status   string `json:"status"`
}

// History is everything that is known of one run.
type History struct {
	Submitted []Submitted
	Accepted  []Accepted
	Seen      []Seen
	Events    []string // ids of all events that the API lists
	Claims    []Claim
}

// pair is an event on its way to one endpoint.
type pair struct{ event, endpoint string }

// Verdict is what a history shows. Every list names the events concerned.
type Verdict struct {
	Accepted int // events
	Expected int // deliveries of these events
	Arrived  int // requests answered 2xx

	Lost        []string // accepted, and the endpoint never got it, and the API does not say that it still will
	Missing     []string // accepted, and the API does not know the event or one of its deliveries
	FalseClaims []string // called delivered, and the receiver never took it
	Waiting     []string // still pending at the end
	GivenUp     []string // ended as anything but delivered
	Phantoms    []string // arrived, and was never submitted to this endpoint
	Altered     []string // arrived with other bytes, or with a wrong signature
	SplitKeys   []string // one idempotency key was accepted as two events
	Miscounted  []string // the answer named another number of deliveries

	Again int // arrivals of what had been taken before
}

// Clean reports whether every promise was kept. Repeats are allowed: delivery
// is at least once.
func (v Verdict) Clean() bool { return len(v.Findings()) == 0 }

// Findings returns one line per kind of broken promise.
func (v Verdict) Findings() []string {
	var out []string
	for _, kind := range []struct {
		name   string
		events []string
	}{
		{"lost", v.Lost},
		{"missing", v.Missing},
		{"falsely claimed", v.FalseClaims},
		{"still waiting", v.Waiting},
		{"given up", v.GivenUp},
		{"phantom", v.Phantoms},
		{"altered", v.Altered},
		{"split key", v.SplitKeys},
		{"miscounted", v.Miscounted},
	} {
		if n := len(kind.events); n > 0 {
			out = append(out, fmt.Sprintf("%d %s: %s", n, kind.name, strings.Join(kind.events[:min(n, 5)], ", ")))
		}
	}
	return out
}

// Judge compares the accounts.
func Judge(h History) Verdict {
	j := &judge{
		submitted: make(map[string]Submitted, len(h.Submitted)), keyOf: make(map[string]string, len(h.Accepted)),
		eventOf: make(map[string]string, len(h.Accepted)), bodies: make(map[string][]Submitted, len(h.Submitted)),
		taken: make(map[pair]int, len(h.Seen)), claims: make(map[pair]string, len(h.Claims)),
		known: make(map[string]bool, len(h.Events)),
	}
	for _, s := range h.Submitted {
		j.submitted[s.Key] = s
		j.bodies[s.Body] = append(j.bodies[s.Body], s)
	}
	for _, event := range h.Events {
		j.known[event] = true
	}
	for _, c := range h.Claims {
		j.claims[pair{c.Event, c.Endpoint}] = c.Status
	}
	j.readAnswers(h.Accepted)
	j.readArrivals(h.Seen)
	j.compare()
	j.sort()
	return j.v
}

type judge struct {
	submitted map[string]Submitted   // by key
	bodies    map[string][]Submitted // by body
	keyOf     map[string]string      // key by event
	eventOf   map[string]string      // event by key
	taken     map[pair]int           // arrivals answered 2xx
	claims    map[pair]string        // status
	known     map[string]bool        // events
	v         Verdict
}

// readAnswers takes what the publisher was told. The same key may have been
// answered several times, but always with the same event.
func (j *judge) readAnswers(answers []Accepted) {
	for _, a := range answers {
		first, again := j.eventOf[a.Key]
		switch {
		case again && first != a.Event:
			j.v.SplitKeys = append(j.v.SplitKeys, first+"="+a.Event)
		case again:
			continue
		default:
			j.eventOf[a.Key] = a.Event
		}
		j.keyOf[a.Event] = a.Key
		if want := len(j.submitted[a.Key].Endpoints); a.Deliveries != want {
			j.v.Miscounted = append(j.v.Miscounted, a.Event)
		}
	}
}

// readArrivals takes what the receiver saw. An event whose answer never came
// is known by its bytes only.
func (j *judge) readArrivals(arrivals []Seen) {
	for _, s := range arrivals {
		p := pair{s.Event, s.Endpoint}
		if key, accepted := j.keyOf[s.Event]; accepted {
			sub := j.submitted[key]
			switch {
			case sub.Body != s.Body || !s.Signed:
				j.v.Altered = append(j.v.Altered, s.Event)
			case !slices.Contains(sub.Endpoints, s.Endpoint):
				j.v.Phantoms = append(j.v.Phantoms, s.Event)
			}
		} else if !slices.ContainsFunc(j.bodies[s.Body], func(sub Submitted) bool { return slices.Contains(sub.Endpoints, s.Endpoint) }) {
			j.v.Phantoms = append(j.v.Phantoms, s.Event)
		} else if !s.Signed {
			j.v.Altered = append(j.v.Altered, s.Event)
		}
		if s.Status/100 != 2 {
			continue
		}
		j.v.Arrived++
		j.taken[p]++
		if j.taken[p] > 1 {
			j.v.Again++
		}
	}
}

func (j *judge) compare() {
	for event, key := range j.keyOf {
		j.v.Accepted++
		if !j.known[event] {
			j.v.Missing = append(j.v.Missing, event)
		}
		for _, endpoint := range j.submitted[key].Endpoints {
			j.v.Expected++
			j.compareOne(pair{event, endpoint})
		}
	}
	for p, status := range j.claims {
		if status == "delivered" && j.taken[p] == 0 {
			j.v.FalseClaims = append(j.v.FalseClaims, p.event)
		}
		// What nobody was promised must be true as well: it may still be
		// pending, but not for ever.
		if _, accepted := j.keyOf[p.event]; !accepted {
			j.ended(p.event, status)
		}
	}
}

// compareOne looks at one delivery that was promised.
func (j *judge) compareOne(p pair) {
	status, claimed := j.claims[p]
	if !claimed && j.known[p.event] {
		j.v.Missing = append(j.v.Missing, p.event)
	}
	if j.taken[p] == 0 && status != "pending" {
		j.v.Lost = append(j.v.Lost, p.event)
	}
	if claimed {
		j.ended(p.event, status)
	}
}

// ended files what did not end well. The harness lets every delivery succeed
// in the end, so nothing may be given up.
func (j *judge) ended(event, status string) {
	switch status {
	case "delivered":
	case "pending":
		j.v.Waiting = append(j.v.Waiting, event)
	default:
		j.v.GivenUp = append(j.v.GivenUp, event)
	}
}

func (j *judge) sort() {
	for _, events := range []*[]string{
		&j.v.Lost, &j.v.Missing, &j.v.FalseClaims, &j.v.Waiting, &j.v.GivenUp, &j.v.Phantoms, &j.v.Altered, &j.v.SplitKeys, &j.v.Miscounted,
	} {
		slices.SortFunc(*events, cmp.Compare)
	}
}
