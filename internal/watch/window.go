package watch

// Buckets is how many buckets of BucketWidth a window has. The one that is being
// filled comes on top and is not counted yet: judged at the boundary of two
// buckets, a window holds exactly the last 15 minutes.
const Buckets = 60

// Counts are the attempts of one endpoint in a window. Probes, replays and
// manual sends are not among them: they say nothing about retries that return
// by themselves.
type Counts struct {
	First   int64
	Retries int64
}

const (
	stormRetries = 100 // below this, nobody is hurt
	stormRatio   = 5   // retries for each first attempt
)

// Storm reports whether the counts are those of a retry storm. There is no
// division in it: with no first attempts at all a ratio would be undefined, and
// the alarm silent exactly when everything that is sent is a retry.
func (c Counts) Storm() bool {
	return c.Retries > stormRetries && c.Retries > stormRatio*c.First
}

// Window counts attempts by bucket. Its zero value is empty.
type Window struct {
	head int64 // the bucket that is being filled
	slot [Buckets + 1]bucket
}

type bucket struct{ first, retry uint32 }

// Add counts one attempt in bucket b. Buckets only go forward: an attempt of an
// earlier one counts in the newest.
func (w *Window) Add(b int64, retry bool) {
	w.advance(b)
	s := &w.slot[w.head%int64(len(w.slot))]
	if retry {
		s.retry++
	} else {
		s.first++
	}
}

// Counts returns the sums of the Buckets full buckets before b.
func (w *Window) Counts(b int64) (c Counts) {
	w.advance(b)
	for i, s := range w.slot {
		if int64(i) != w.head%int64(len(w.slot)) {
			c.First += int64(s.first)
			c.Retries += int64(s.retry)
		}
	}
	return c
}

// Empty reports whether nothing is left in the window, the bucket that is being
// filled included.
func (w *Window) Empty(b int64) bool {
	w.advance(b)
	return w.slot == [Buckets + 1]bucket{}
}

// advance begins bucket b and clears the slots of those that were skipped.
func (w *Window) advance(b int64) {
	n := int64(len(w.slot))
	if b-w.head >= n {
		w.slot = [Buckets + 1]bucket{}
		w.head = b
		return
	}
	for w.head < b {
		w.head++
		w.slot[w.head%n] = bucket{}
	}
}
