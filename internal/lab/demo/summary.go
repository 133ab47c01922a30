package demo

import "time"

// Summary is how it ended.
type Summary struct {
	Took     time.Duration `json:"-"`
	Seconds  float64       `json:"seconds"`
	Capacity float64       `json:"capacity"` // requests per second
	Plain    Ending        `json:"retry_loop"`
	Ours     Ending        `json:"breakwater"`
}

// Ending is how it ended for one side.
type Ending struct {
	Events     int64    `json:"events"`
	Delivered  int64    `json:"delivered"`
	Waiting    int64    `json:"waiting"`
	Twice      int64    `json:"delivered_twice"`
	Crashes    int64    `json:"crashes"`
	WhileDown  int64    `json:"requests_while_down"`
	Peak       int64    `json:"most_requests_in_a_second"`
	DrainedSec *float64 `json:"drained_after_seconds"` // null: not at all
}

func (d *Demo) sumUp() Summary {
	s := Summary{Took: d.passed(), Capacity: d.capacity(), Plain: d.plain.ending(d.plain.loop.given.Load()), Ours: d.ours.ending(d.server.accepted.Load())}
	s.Seconds = s.Took.Round(100 * time.Millisecond).Seconds()
	return s
}

func (e *side) ending(given int64) Ending {
	now := e.look(given)
	out := Ending{
		Events: given, Delivered: now.Delivered, Waiting: now.Waiting, Twice: now.Twice,
		Crashes: now.Crashes, WhileDown: now.WhileDown, Peak: now.Peak,
	}
	if e.seen.drained > 0 {
		s := e.seen.drained.Seconds()
		out.DrainedSec = &s
	}
	return out
}
