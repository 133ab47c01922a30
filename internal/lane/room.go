package lane

import "time"

const (
	// roomLeast and roomGain: how many requests may be in flight, beyond and as a
	// multiple of what the latest answers would have needed without load.
	roomLeast = 2.0
	roomGain  = 2.0
	roomPeak  = 0.75 // of the answers of a single second, which vary
	// How much slower a host is than its lanes have known it is the mean of so many
	// requests, or of about roomLater answers later on if that is less.
	roomSample = 30
	roomLater  = 400
	// roomAgain is when it is measured again, with roomLeast in flight: the host may
	// have got slower, but a queue of ours must not be taken for that.
	roomAgain = 10 * time.Minute
)

// room bounds the requests in flight at a host. A queue that many lanes make
// together is too short at each of them to be seen there; but it shows in the sum,
// which by Little's law is what the answers of a second take in all.
type room struct {
	flight flight
	base   float64 // seconds that answers take without load, as their lanes have known it
	slower float64 // how many times that they take now, without load
	ratio  float64 // the same of the latest answers, with whatever load

	// The sample: whatever started first counts, and not what was answered first.
	began          time.Time
	till           time.Time // the latest start
	started, ended int
	answers        float64
	narrow         bool // nothing else is in flight
}

// begin takes a new sample.
func (r *room) begin(now time.Time, narrow bool) {
	r.began, r.started, r.ended, r.answers, r.ratio, r.narrow = now, 0, 0, 0, 0, narrow
	if !narrow {
		r.slower = 1
	}
}

// start notes a request.
func (r *room) start(now time.Time) {
	r.flight.start(now)
	if r.started < roomSample {
		r.started++
		r.till = now
	}
}

// gone notes that nothing more will be heard of so many requests.
func (r *room) gone(n int) {
	r.flight.leave(n)
	if n > 0 && r.ended < r.started {
		r.ended = min(r.ended+n, r.started)
		r.sampled()
	}
}

// end notes the end of a request that took so long at a lane that has known it to
// take base, 0: it failed.
func (r *room) end(started time.Time, took, base float64) {
	r.flight.end(started, base > 0)
	if r.ended < r.started && !started.Before(r.began) && !started.After(r.till) {
		r.ended++
		if base > 0 {
			r.answers++
			r.ratio += (took/base - r.ratio) / r.answers
			r.base += (base - r.base) / r.answers
		}
		r.sampled()
	} else if base > 0 && r.ended == roomSample {
		r.ratio += (took/base - r.ratio) / roomLater
		r.base += (base - r.base) / roomLater
		r.slower = min(r.slower, r.ratio)
	}
}

// sampled ends a sample that is complete.
func (r *room) sampled() {
	if r.ended < roomSample {
		return
	}
	r.narrow = false
	if r.answers > 0 {
		r.slower = r.ratio
	}
}

// moving is how many requests are in flight that are not stuck: a queue that all its lanes
// make together answers them in turn.
func (r *room) moving(now time.Time) int {
	usual := r.base * max(1, r.ratio)
	r.flight.age(now, usual)
	if r.ended < r.started && r.started == roomSample && now.Sub(r.till) > patienceWith(usual) {
		r.ended = roomSample // what is stuck says nothing of the others
		r.sampled()
	}
	return r.flight.young
}

// width is how many requests may be in flight when so many are answered per second.
func (r *room) width(now time.Time, perSecond float64) float64 {
	if now.Sub(r.began) > roomAgain {
		r.begin(now, true)
	}
	need := perSecond * max(r.slower*r.base, baseLeast.Seconds())
	switch {
	case r.narrow:
		return roomLeast
	case r.ended < roomSample: // so that nothing in it waits for something else
		return roomLeast + need
	default:
		return roomLeast + roomGain*need
	}
}
