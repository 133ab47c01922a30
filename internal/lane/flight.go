package lane

import (
	"cmp"
	"slices"
	"time"
)

// A request that waits while later ones are answered waits for nothing that fewer requests
// would hasten: a dead server behind a gateway has swallowed it, or its event takes long by
// itself. It is stuck. A limit that counted it would fill up with its like until nothing is
// sent any more, and their timeouts would look like an outage.

// stuckLeast is how long a request is in flight at least to be stuck, and stuckTimes how
// many times as long as others take.
const (
	stuckLeast = 2 * time.Second
	stuckTimes = 16
)

// flightSlot is how exactly starts are told apart.
const flightSlot = 250 * time.Millisecond

// flight counts requests in flight by when they started.
type flight struct {
	n        int
	young    int         // of them, those that are not stuck
	starts   []departure // theirs, oldest first
	answered int64       // the latest slot of which a request was answered
	zero     time.Time   // slots are counted from here: a clock that is set back changes none
}

type departure struct {
	slot int64
	n    int
}

func (f *flight) slotOf(t time.Time) int64 { return int64(t.Sub(f.zero) / flightSlot) }

func (f *flight) start(now time.Time) {
	if f.zero.IsZero() {
		f.zero = now
	}
	i, found := f.find(now)
	if !found {
		f.starts = slices.Insert(f.starts, i, departure{slot: f.slotOf(now)})
	}
	f.starts[i].n++
	f.n++
	f.young++
}

// find returns where the requests are that started at a time.
func (f *flight) find(began time.Time) (int, bool) {
	return slices.BinarySearchFunc(f.starts, f.slotOf(began), func(d departure, slot int64) int { return cmp.Compare(d.slot, slot) })
}

// end notes the end of a request; ok: it was answered.
func (f *flight) end(began time.Time, ok bool) {
	f.n--
	if ok {
		f.answered = max(f.answered, f.slotOf(began))
	}
	i, young := f.find(began)
	if !young {
		return
	}
	f.young--
	f.starts[i].n--
	if f.starts[i].n == 0 {
		f.starts = slices.Delete(f.starts, i, i+1)
	}
}

// leave takes out so many of which nothing will be heard again, those that are stuck first.
func (f *flight) leave(n int) {
	stuck := min(n, f.n-f.young)
	f.n -= n
	for n -= stuck; n > 0 && len(f.starts) > 0; {
		gone := min(n, f.starts[0].n)
		n, f.young = n-gone, f.young-gone
		f.starts[0].n -= gone
		if f.starts[0].n == 0 {
			f.starts = slices.Delete(f.starts, 0, 1)
		}
	}
}

// age tells which requests are stuck, where others take so many seconds.
func (f *flight) age(now time.Time, usual float64) {
	before := min(f.answered, f.slotOf(now.Add(-patienceWith(usual))))
	stuck := 0
	for stuck < len(f.starts) && f.starts[stuck].slot < before {
		f.young -= f.starts[stuck].n
		stuck++
	}
	f.starts = slices.Delete(f.starts, 0, stuck)
}

// stuckAt is when the next of them will be stuck if it is not answered; zero: none has been
// overtaken.
func (f *flight) stuckAt(usual float64) time.Time {
	if len(f.starts) == 0 || f.starts[0].slot >= f.answered {
		return time.Time{}
	}
	return f.zero.Add(time.Duration(f.starts[0].slot+1)*flightSlot + patienceWith(usual))
}

func patienceWith(usual float64) time.Duration { return max(stuckLeast, seconds(stuckTimes*usual)) }
