package sim

// queue is first in, first out.
type queue[T any] struct {
	items []T
	head  int
}

func (q *queue[T]) len() int { return len(q.items) - q.head }

func (q *queue[T]) first() *T { return &q.items[q.head] }

func (q *queue[T]) push(item T) { q.items = append(q.items, item) }

// pop takes the first item. What has been taken is cut off now and then, so
// that a queue that never empties does not grow.
func (q *queue[T]) pop() T {
	item := q.items[q.head]
	var none T
	q.items[q.head] = none
	q.head++
	switch {
	case q.head == len(q.items):
		q.items, q.head = q.items[:0], 0
	case q.head > 1024 && 2*q.head > len(q.items):
		q.items = append(q.items[:0], q.items[q.head:]...)
		q.head = 0
	}
	return item
}
