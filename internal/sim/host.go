package sim

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
)

// hostOf gives a lane its seat at the host that all share, as the dispatcher
// does.
func (w *world) hostOf(l *law) *lane.Host {
	if w.host == nil {
		w.host, w.seats = &lane.Host{}, make(map[*lane.Seat]*law)
	}
	w.seats[&l.seat] = l
	return w.host
}

// leaveHost is the end of the lane's owner, and of all that it knew of the host.
func (l *law) leaveHost() {
	if l.host != nil {
		l.host.Left(&l.seat)
		l.w.host = nil
	}
}

// rejoinHost gives the lane a seat at the host as the new owner knows it.
func (l *law) rejoinHost(now time.Time) {
	if l.host != nil {
		l.host = l.w.hostOf(l)
		l.host.Joined(now, &l.seat, l.lane, true)
	}
}

// hostAllows reports whether the host lets the lane start what it wants to, else
// when to ask again.
func (l *law) hostAllows(now time.Time) (bool, time.Time) {
	switch {
	case l.host == nil || !l.lane.Wants(now):
		return true, now
	case !l.host.Knows(now):
		l.lane.Unheed(now)
		return true, now
	case l.lane.State() != lane.Closed:
		return l.host.MayProbe(now, &l.seat)
	default:
		l.lane.Heed(now, l.host)
		return l.host.Ask(now, &l.seat)
	}
}

// hostOffered tells the host what has arrived at the lane.
func (l *law) hostOffered(r lane.Ref) {
	if l.host != nil && l.host.Knows(l.w.clock()) {
		l.host.Arrived(r)
	}
}

func (l *law) hostStarted(now time.Time) float64 {
	if l.host == nil || !l.host.Knows(now) {
		return 0
	}
	return l.host.Started(now, &l.seat)
}

// hostSilent reports whether the host lets the requests of all its lanes wait in vain.
func (l *law) hostSilent(now time.Time, r *request, class hook.Class) bool {
	return r.hostLoad > 0 && l.host.Silent(now, &l.seat, epoch.Add(seconds(r.started)), class)
}

// hostHeard tells the host what became of a request.
func (l *law) hostHeard(now time.Time, r *request, class hook.Class, c lane.Change) {
	if l.host == nil || !c.Opened && r.hostLoad == 0 && !l.host.Knows(now) {
		return
	}
	l.host.Result(now, &l.seat, epoch.Add(seconds(r.started)), r.hostLoad, class)
	switch {
	case c.Opened:
		if pardoned := l.host.Opened(now, &l.seat, l.lane); len(pardoned) > 0 {
			for _, s := range pardoned {
				l.w.seats[s].lane.Pardon()
			}
			l.lane.Note(now, l.host)
		}
	case c.Closed:
		for _, s := range l.host.Closed(now, &l.seat) {
			other := l.w.seats[s]
			other.lane.ProbeNow(now)
			l.w.after(tick, other.pumped)
		}
	case r.tag.Probe:
		l.host.ProbeFailed(l.lane.Wake(now))
	}
}
