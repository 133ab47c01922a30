package sim

// step is what happens to a request at a time.
type step uint8

const (
	call     step = iota // no request: the task's own function
	reach                // it comes to the endpoint
	served               // the endpoint is done with it
	answered             // its answer comes to the sender
	expire               // its sender waits no longer
)

// task is something that happens at a time; seq keeps the order of equals, so
// that a seed always gives the same run.
type task struct {
	at   float64
	seq  uint32
	step step
	r    *request
	do   func()
}

func (t *task) before(o *task) bool {
	return t.at < o.at || t.at == o.at && t.seq < o.seq
}

// agenda holds what is to happen. Most tasks come a fixed time after they are
// made, and a queue keeps those in order at no cost; a heap holds the rest.
type agenda struct {
	seq     uint32
	heap    []task
	soon    queue[task] // half a network round trip ahead
	expires queue[task] // one request timeout ahead
	steady  queue[task] // one latency ahead, where it is always the same
}

// stamp numbers a task.
func (a *agenda) stamp(t task) task {
	a.seq++
	t.seq = a.seq
	return t
}

// next takes the earliest task; false when there is none.
func (a *agenda) next() (task, bool) {
	for a.expires.len() > 0 && a.expires.first().r.ended {
		a.expires.pop()
	}
	var from *queue[task]
	var best *task
	for _, l := range [...]*queue[task]{&a.soon, &a.steady, &a.expires} {
		if l.len() > 0 && (best == nil || l.first().before(best)) {
			from, best = l, l.first()
		}
	}
	switch {
	case len(a.heap) > 0 && (best == nil || a.heap[0].before(best)):
		return a.popHeap(), true
	case best == nil:
		return task{}, false
	default:
		return from.pop(), true
	}
}

// forget takes the requests out that an endpoint was serving.
func (a *agenda) forget(d *destination) {
	for i := range a.steady.items[a.steady.head:] {
		if t := &a.steady.items[a.steady.head+i]; t.r != nil && t.r.to == d {
			t.r = nil
		}
	}
}

// push and popHeap keep a heap of four children per node: it is flatter than a
// binary one, and tasks are cheap to compare.
func (a *agenda) push(t task) {
	t = a.stamp(t)
	a.heap = append(a.heap, t)
	i := len(a.heap) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if !t.before(&a.heap[parent]) {
			break
		}
		a.heap[i] = a.heap[parent]
		i = parent
	}
	a.heap[i] = t
}

func (a *agenda) popHeap() task {
	top := a.heap[0]
	n := len(a.heap) - 1
	moved := a.heap[n]
	a.heap[n] = task{}
	a.heap = a.heap[:n]
	if n == 0 {
		return top
	}
	i := 0
	for {
		child := a.firstChild(i)
		if child < 0 || !a.heap[child].before(&moved) {
			break
		}
		a.heap[i] = a.heap[child]
		i = child
	}
	a.heap[i] = moved
	return top
}

// firstChild is the child of i that comes first, -1 without children.
func (a *agenda) firstChild(i int) int {
	from := 4*i + 1
	if from >= len(a.heap) {
		return -1
	}
	best := from
	for c := from + 1; c < min(from+4, len(a.heap)); c++ {
		if a.heap[c].before(&a.heap[best]) {
			best = c
		}
	}
	return best
}
