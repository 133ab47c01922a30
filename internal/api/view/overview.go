package view

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// LaneHalfOpen is an open lane whose probe is due or on its way.
const LaneHalfOpen = "half_open"

// Overview is what happened to all endpoints of a tenant, or of all tenants, and how
// they are now.
type Overview struct {
	Stats
	Breakers       Breakers        `json:"breakers" doc:"Of endpoints that are not deleted, now."`
	Storms         int64           `json:"storms" doc:"Endpoints in a retry storm, now."`
	DeadLetters    DeadLetters     `json:"dead_letters"`
	WorstEndpoints []WorstEndpoint `json:"worst_endpoints" doc:"Ten at most that somebody should look at, the worst first: open, in a storm, disabled by an answer or by failures, with a retry queue that grows, with one at all, paused; then by what waits. Of more than 300 that are open, in a storm or halted, 300 of each are compared, and those with the greatest depth."`
}

// Breakers counts lanes by state.
type Breakers struct {
	Closed   int64 `json:"closed" doc:"Idle endpoints among them."`
	Open     int64 `json:"open" doc:"They hold their deliveries."`
	HalfOpen int64 `json:"half_open" doc:"They hold their deliveries, and a probe is due or on its way."`
}

// DeadLetters counts dead letters.
type DeadLetters struct {
	Total    int64  `json:"total" doc:"That are stored."`
	AtLeast  bool   `json:"at_least" doc:"Counting stopped at total; there may be more."`
	LastHour uint64 `json:"last_hour" doc:"Deliveries that were given up in the last 60 minutes."`
}

// WorstEndpoint is an endpoint that somebody should look at.
type WorstEndpoint struct {
	Endpoint    string   `json:"endpoint"`
	Tenant      string   `json:"tenant"`
	URL         string   `json:"url"`
	Status      string   `json:"status" enum:"active,paused,disabled" doc:"Of the endpoint."`
	State       string   `json:"state" enum:"closed,open,half_open" doc:"Of its breaker. half_open: a probe is due or on its way."`
	OpenedAt    Stamp    `json:"opened_at" doc:"null: it is closed."`
	NextProbeAt Stamp    `json:"next_probe_at" doc:"null: it is closed, or the endpoint is paused or disabled."`
	Storm       bool     `json:"storm" doc:"In a retry storm."`
	Growing     bool     `json:"growing" doc:"Its retry queue grows: the early warning of a storm."`
	RetryRatio  *float64 `json:"retry_ratio" doc:"retry / max(first, 1) of the last 15 minutes; null: no attempts."`
	Depth       *int64   `json:"depth" doc:"Deliveries that wait for another attempt or are held; null: not measured yet."`
	AtLeast     bool     `json:"at_least" doc:"Counting stopped at depth; there may be more."`
	OldestS     *uint64  `json:"oldest_s" doc:"How long the oldest has waited, in seconds; null: not measured."`
	LastError   *string  `json:"last_error" doc:"Reason of most of the latest failures within the hour; null: there were none."`
	LastErrorAt Stamp    `json:"last_error_at" doc:"Their minute."`
}

// gaugesLast is for how long after it was told a gauge tells how things are.
const gaugesLast = 5 * time.Minute

// OfWorst shows a lane with the figures of its last hour.
func OfWorst(g *store.LaneGlance, hour []stats.Point, now time.Time) WorstEndpoint {
	v := WorstEndpoint{
		Endpoint: hook.EndpointPrefix.Format(g.EndpointID), Tenant: hook.TenantPrefix.Format(g.TenantID), URL: g.URL,
		Status: g.State.String(), State: LaneClosed, Storm: g.Watch.Storm.Active(), Growing: g.Watch.Queue.Growing(),
	}
	if g.Open {
		v.State, v.OpenedAt = LaneOpen, Stamp(g.OpenedAt)
		if g.State == hook.Active {
			v.NextProbeAt = Stamp(g.NextProbeAt)
			if !g.NextProbeAt.After(now) {
				v.State = LaneHalfOpen
			}
		}
	}
	if g.Watched {
		v.Depth, v.AtLeast = &g.Watch.Queue.Depth, g.Watch.Queue.AtLeast
	}
	var quarter stats.Counts
	for i := range hour {
		p := &hour[i]
		if now.Sub(p.At) < 16*time.Minute {
			quarter.Merge(p.Counts)
		}
		v.queue(&p.Counts, now.Sub(p.At) < gaugesLast, g.Watched)
		v.failures(p)
	}
	if quarter.AllAttempts() > 0 {
		ratio := round(float64(quarter.Get(stats.Attempts(hook.Retry)))/float64(max(quarter.Get(stats.Attempts(hook.First)), 1)), 1e2)
		v.RetryRatio = &ratio
	}
	return v
}

// queue takes what was told of the queue, the latest in the end.
func (v *WorstEndpoint) queue(c *stats.Counts, fresh, watched bool) {
	retrying, told := c.Gauge(stats.Retrying)
	if !told || !fresh {
		return
	}
	held, _ := c.Gauge(stats.Held)
	oldest, _ := c.Gauge(stats.Oldest)
	v.OldestS = &oldest
	if depth := int64(retrying + held); !watched {
		v.Depth = &depth
	}
}

// failures takes the most frequent failure of a minute, the latest minute in the end.
func (v *WorstEndpoint) failures(p *stats.Point) {
	most := uint64(0)
	p.Counts.ByFailure(func(r hook.Reason, n uint64) {
		if n > most {
			most, v.LastError, v.LastErrorAt = n, Nullable(r.String()), Stamp(p.At)
		}
	})
}

// AddQueues fills in what waited on average, of a tenant or all. looked returns for
// how many seconds of a piece somebody looked.
func (v *Stats) AddQueues(series []stats.Point, looked func(i int) uint64) {
	for i := range series {
		seconds := looked(i)
		if seconds == 0 {
			continue
		}
		c, g := &series[i].Counts, &v.Series[i].Gauges
		mean := func(counter stats.Counter) *uint64 {
			n := (c.Get(counter) + seconds/2) / seconds
			return &n
		}
		g.Ready, g.Delayed = mean(stats.ReadySeconds), mean(stats.DelayedSeconds)
		g.Retrying, g.Held = mean(stats.RetryingSeconds), mean(stats.HeldSeconds)
	}
}

// Strips are what happened to endpoints in a day, by the half hour.
type Strips struct {
	From        Stamp   `json:"from" doc:"Beginning of the first cell."`
	To          Stamp   `json:"to" doc:"Now: the last cell is not over."`
	CellSeconds int64   `json:"cell_seconds"`
	Endpoints   []Strip `json:"endpoints" doc:"In the order asked for. One that does not exist is as one without traffic."`
}

// Strip is the day of one endpoint: 48 numbers each, oldest first.
type Strip struct {
	Endpoint  string   `json:"endpoint"`
	Delivered []uint64 `json:"delivered" doc:"Deliveries."`
	Failed    []uint64 `json:"failed" doc:"Attempts."`
	Held      []uint64 `json:"held" doc:"Deliveries that were due while nothing was sent, at most."`

	SuccessRate *float64 `json:"success_rate" doc:"Of the whole day: delivered / (delivered + dead); null: nothing ended."`
	RetryRatio  *float64 `json:"retry_ratio" doc:"Of the whole day: retry / max(first, 1); null: no attempts."`
	AttemptMS   Latency  `json:"attempt_ms" doc:"Of the whole day: how long attempts took."`
}

// StripCells is how many cells a strip has.
const StripCells = 48

// Cells are those of a strip, each at the rest of its number by StripCells.
type Cells struct {
	last                    int64
	delivered, failed, held [StripCells]uint64
	all                     [StripCells]stats.Counts // for what is said of the whole day
}

// From returns the cells of a day that begins with the cell first, with nothing in
// those from to on.
func (c Cells) From(first, to int64) (out Cells) {
	out.last = first + StripCells - 1
	for n := first; n < min(to, c.last+1); n++ {
		i := n % StripCells
		out.delivered[i], out.failed[i], out.held[i], out.all[i] = c.delivered[i], c.failed[i], c.held[i], c.all[i]
	}
	return out
}

// Add adds figures to a cell.
func (c *Cells) Add(n int64, figures *stats.Counts) {
	if n > c.last || n <= c.last-StripCells {
		return
	}
	i := n % StripCells
	held, _ := figures.Gauge(stats.Held)
	c.delivered[i], c.failed[i], c.held[i] = c.delivered[i]+figures.AllDelivered(), c.failed[i]+figures.AllFailed(), max(c.held[i], held)
	c.all[i].Merge(*figures)
}

// OfStrip shows the cells of an endpoint.
func OfStrip(endpoint hook.ID, c Cells) Strip {
	v := Strip{Endpoint: hook.EndpointPrefix.Format(endpoint)}
	for n := c.last + 1; n <= c.last+StripCells; n++ {
		i := n % StripCells
		v.Delivered, v.Failed, v.Held = append(v.Delivered, c.delivered[i]), append(v.Failed, c.failed[i]), append(v.Held, c.held[i])
	}
	var day stats.Counts
	for i := range c.all {
		day.Merge(c.all[i])
	}
	v.AttemptMS = ofTimes(day.AttemptTimes())
	if ended := day.AllDelivered() + day.AllDead(); ended > 0 {
		rate := round(float64(day.AllDelivered())/float64(ended), 1e4)
		v.SuccessRate = &rate
	}
	if day.AllAttempts() > 0 {
		ratio := round(float64(day.Get(stats.Attempts(hook.Retry)))/float64(max(day.Get(stats.Attempts(hook.First)), 1)), 1e2)
		v.RetryRatio = &ratio
	}
	return v
}
