package stats

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Counts are the figures of some time, those that are not zero: an endpoint has
// about ten of the several hundred that there are.
type Counts struct {
	cells []cell // by counter
}

type cell struct {
	counter Counter
	n       uint64
}

// Add adds to a counter. A gauge is one more than its value here and wherever
// figures are packed, so that 0 can be told.
func (c *Counts) Add(counter Counter, n uint64) {
	if n == 0 {
		return
	}
	i, found := c.find(counter)
	if !found {
		c.cells = slices.Insert(c.cells, i, cell{counter: counter})
	}
	switch e := &c.cells[i]; {
	case counter >= least && found:
		e.n = min(e.n, n)
	case counter >= gauges:
		e.n = max(e.n, n)
	default:
		e.n += n
	}
}

// Tell tells the value of a gauge.
func (c *Counts) Tell(gauge Counter, v uint64) { c.Add(gauge, v+1) }

// Gauge returns the value of a gauge, and whether it was told.
func (c *Counts) Gauge(gauge Counter) (v uint64, told bool) {
	n := c.Get(gauge)
	return max(n, 1) - 1, n > 0
}

// withoutGauges returns what adds up; it shares its memory with c.
func (c *Counts) withoutGauges() Counts {
	i, _ := c.find(gauges)
	return Counts{c.cells[:i:i]}
}

// Merge adds other figures.
func (c *Counts) Merge(other Counts) {
	for _, o := range other.cells {
		c.Add(o.counter, o.n)
	}
}

// Get returns a figure, 0 when it was never counted.
func (c *Counts) Get(counter Counter) uint64 {
	if i, found := c.find(counter); found {
		return c.cells[i].n
	}
	return 0
}

// Empty reports whether nothing was counted.
func (c *Counts) Empty() bool { return len(c.cells) == 0 }

// Clone returns a copy that can be added to.
func (c *Counts) Clone() Counts { return Counts{slices.Clone(c.cells)} }

func (c *Counts) find(counter Counter) (int, bool) {
	return slices.BinarySearchFunc(c.cells, counter, func(e cell, want Counter) int { return int(e.counter) - int(want) })
}

// Sum adds up the counters from first to last.
func (c *Counts) Sum(first, last Counter) (sum uint64) {
	i, _ := c.find(first)
	for ; i < len(c.cells) && c.cells[i].counter <= last; i++ {
		sum += c.cells[i].n
	}
	return sum
}

// AllDelivered is how many deliveries were delivered.
func (c *Counts) AllDelivered() uint64 { return c.Sum(Delivered(1), Delivered(MostTries)) }

// AllDead is how many became dead letters.
func (c *Counts) AllDead() uint64 { return c.Sum(dead, failed-1) }

// AllFailed is how many attempts failed.
func (c *Counts) AllFailed() uint64 { return c.Sum(failed, attemptIn-1) }

// AllAttempts is how many attempts there were.
func (c *Counts) AllAttempts() uint64 { return c.Sum(attempts, delivered-1) }

// slow is how long a delivery may take before somebody should look.
const slow = time.Minute

// Trouble reports whether the figures tell of anything that a rule may be about:
// a failed attempt, a retry, a dead letter, or a delivery that was slow.
func (c *Counts) Trouble() bool {
	return c.AllFailed() > 0 || c.Get(Attempts(hook.Retry)) > 0 || c.AllDead() > 0 || c.Sum(DeliveryTook(slow)+1, deliverIn+buckets) > 0
}

// ByReason calls f for every reason of dead letters that was counted.
func (c *Counts) ByReason(f func(hook.EndReason, uint64)) {
	i, _ := c.find(dead)
	for ; i < len(c.cells) && c.cells[i].counter < failed; i++ {
		f(hook.EndReason(c.cells[i].counter-dead), c.cells[i].n)
	}
}

// ByFailure calls f for every reason of failed attempts that was counted.
func (c *Counts) ByFailure(f func(hook.Reason, uint64)) {
	i, _ := c.find(failed)
	for ; i < len(c.cells) && c.cells[i].counter < attemptIn; i++ {
		f(hook.Reason(c.cells[i].counter-failed), c.cells[i].n)
	}
}

// AttemptTimes is how long attempts took.
func (c *Counts) AttemptTimes() *Histogram { return c.histogram(attemptIn) }

// DeliveryTimes is how long deliveries took.
func (c *Counts) DeliveryTimes() *Histogram { return c.histogram(deliverIn) }

func (c *Counts) histogram(first Counter) *Histogram {
	h := &Histogram{}
	i, _ := c.find(first)
	for ; i < len(c.cells) && c.cells[i].counter < first+buckets; i++ {
		h.n[c.cells[i].counter-first] = c.cells[i].n
	}
	return h
}

// Append packs the figures behind b: pairs of how far the counter is from the one
// before and its figure, as unsigned varints.
func (c *Counts) Append(b []byte) []byte {
	var before Counter
	for _, e := range c.cells {
		b = binary.AppendUvarint(b, uint64(e.counter-before))
		b = binary.AppendUvarint(b, e.n)
		before = e.counter
	}
	return b
}

// errPacked means that stored figures are not what Append makes.
var errPacked = errors.New("figures are damaged")

// pairs counts what is packed: the last byte of each number is below 128.
func pairs(b []byte) int {
	n := 0
	for _, c := range b {
		n += int(^c >> 7)
	}
	return n / 2
}

// Unpack reads what Append has packed. Counters that this program does not know,
// of a newer one, are kept.
func Unpack(b []byte) (Counts, error) {
	c := Counts{make([]cell, 0, pairs(b))}
	var at uint64
	for len(b) > 0 {
		step, n := binary.Uvarint(b)
		if n <= 0 || step == 0 {
			return Counts{}, errPacked
		}
		b = b[n:]
		figure, n := binary.Uvarint(b)
		if n <= 0 || figure == 0 {
			return Counts{}, errPacked
		}
		b = b[n:]
		if at += step; at > maxCounter || step > maxCounter {
			return Counts{}, errPacked
		}
		c.cells = append(c.cells, cell{Counter(at), figure})
	}
	return c, nil
}
