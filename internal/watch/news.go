package watch

import (
	"math"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// newsEvery is how often an endpoint is told of with one type of news: traffic makes
// them, and a thousand that say the same are no more use than one with a number.
const newsEvery = time.Minute

// News is something that happened on a lane, beside its breaker.
type News struct {
	Type   hook.OperationalType
	Reason string        // why; empty: nothing to say
	Wait   time.Duration // that the destination asks for; 0: none
}

// laneNews is the news of one type of an endpoint.
type laneNews struct {
	toldAt  time.Time
	waiting int64  // that happened since
	reason  string // of the last of them
}

// lateNews are deliveries that became dead letters after the last time that was told.
type lateNews struct {
	tenant, endpoint hook.ID
	count            int64
	reason           string
}

// LaneNews tells of something that happened on a lane. Of a type, one is recorded per
// endpoint and minute; it says how many it stands for.
func (w *Watcher) LaneNews(tenant, endpoint hook.ID, n News) {
	now := time.Now()
	if count, tell := w.tracks.happened(now, tenant, endpoint, n); tell {
		w.events.record(now, tenant, endpoint, n.Type, newsDetail(n, count))
	}
}

// tellLate tells of dead letters that came too soon after others.
func (w *Watcher) tellLate(late []lateNews) {
	for _, n := range late {
		news := News{Type: hook.DeliveryDeadLettered, Reason: n.reason}
		w.events.record(time.Now(), n.tenant, n.endpoint, news.Type, newsDetail(news, n.count))
	}
}

func newsDetail(n News, count int64) any {
	return struct {
		Count      int64  `json:"count"`
		Reason     string `json:"reason,omitempty"`
		RetryAfter int64  `json:"retry_after_seconds,omitempty"`
	}{count, n.Reason, int64(math.Ceil(n.Wait.Seconds()))}
}

// happened counts news. It reports whether they are to be told, and how many.
func (t *tracks) happened(now time.Time, tenant, endpoint hook.ID, n News) (count int64, tell bool) {
	p := t.piece(endpoint)
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lane(tenant, endpoint)
	if l.news == nil {
		l.news = make(map[hook.OperationalType]*laneNews)
	}
	of := l.news[n.Type]
	if of == nil {
		of = &laneNews{}
		l.news[n.Type] = of
	}
	of.waiting++
	of.reason = n.Reason
	if !of.toldAt.IsZero() && now.Sub(of.toldAt) < newsEvery {
		return 0, false
	}
	count, of.waiting, of.toldAt = of.waiting, 0, now
	return count, true
}

// lateNews forgets news of more than a minute ago, but adds the dead letters among them
// to late: each of them is told of. all: also those of this minute. The caller has the
// piece's mutex.
func (l *track) lateNews(late []lateNews, endpoint hook.ID, now time.Time, all bool) []lateNews {
	for t, n := range l.news {
		if !all && now.Sub(n.toldAt) < newsEvery {
			continue
		}
		if t == hook.DeliveryDeadLettered && n.waiting > 0 {
			late = append(late, lateNews{l.tenant, endpoint, n.waiting, n.reason})
			n.toldAt, n.waiting = now, 0
			continue
		}
		delete(l.news, t)
	}
	if len(l.news) == 0 {
		l.news = nil
	}
	return late
}

// lastNews are the dead letters that wait to be told of when the node stops.
func (t *tracks) lastNews() (late []lateNews) {
	now := time.Now()
	for i := range t.pieces {
		p := &t.pieces[i]
		p.mu.Lock()
		for id, l := range p.lanes {
			late = l.lateNews(late, id, now, true)
		}
		p.mu.Unlock()
	}
	return late
}
