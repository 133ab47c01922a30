package lane

// queue is a double-ended queue of refs on a ring, so that taking the head and
// putting a ref back in front cost the same whatever its length.
type queue struct {
	ring []Ref
	head int
	n    int
}

func (q *queue) len() int { return q.n }

func (q *queue) at(i int) *Ref { return &q.ring[(q.head+i)%len(q.ring)] }

func (q *queue) grow() {
	if q.n < len(q.ring) {
		return
	}
	bigger := make([]Ref, max(8, 2*len(q.ring)))
	for i := range q.n {
		bigger[i] = *q.at(i)
	}
	q.ring, q.head = bigger, 0
}

func (q *queue) pushBack(r Ref) {
	q.grow()
	q.n++
	*q.at(q.n - 1) = r
}

func (q *queue) pushFront(r Ref) {
	q.grow()
	q.head = (q.head + len(q.ring) - 1) % len(q.ring)
	q.n++
	*q.at(0) = r
}

func (q *queue) popFront() Ref {
	r := *q.at(0)
	q.head = (q.head + 1) % len(q.ring)
	q.n--
	if q.n == 0 && len(q.ring) > 64 {
		*q = queue{} // a drained backlog gives its memory back
	}
	return r
}

// remove takes out the i-th ref. It is linear and meant for rare events:
// probes and manual sends.
func (q *queue) remove(i int) Ref {
	r := *q.at(i)
	for ; i < q.n-1; i++ {
		*q.at(i) = *q.at(i + 1)
	}
	q.n--
	return r
}

// list copies the refs in order.
func (q *queue) list() []Ref {
	out := make([]Ref, q.n)
	for i := range out {
		out[i] = *q.at(i)
	}
	return out
}

// drain empties the queue and returns what was in it.
func (q *queue) drain() []Ref {
	all := q.list()
	*q = queue{}
	return all
}
