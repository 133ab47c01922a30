package sim

import "math"

// shelf keeps events that wait on disk, first in, first out. Of each only its
// time is kept: after hours of outage there are millions. They lie in pieces, so
// that what has been taken is given back at once.
type shelf struct {
	pieces [][]float64
	head   int // of the first piece
	n      int
}

const shelfPiece = 8192

func (s *shelf) len() int { return s.n }

// push puts an event at the end; the sign of its time tells of poison.
func (s *shelf) push(created float64, poison bool) {
	last := len(s.pieces) - 1
	if last < 0 || len(s.pieces[last]) == shelfPiece {
		s.pieces = append(s.pieces, make([]float64, 0, shelfPiece))
		last++
	}
	if poison {
		created = math.Copysign(created, -1)
	}
	s.pieces[last] = append(s.pieces[last], created)
	s.n++
}

// pop takes the first event.
func (s *shelf) pop() (created float64, poison bool) {
	v := s.pieces[0][s.head]
	s.head++
	s.n--
	if s.head == len(s.pieces[0]) {
		s.pieces[0] = nil
		s.pieces, s.head = s.pieces[1:], 0
	}
	return math.Abs(v), math.Signbit(v)
}

// each shows every event on the shelf.
func (s *shelf) each(show func(created float64, poison bool)) {
	head := s.head
	for _, piece := range s.pieces {
		for _, v := range piece[head:] {
			show(math.Abs(v), math.Signbit(v))
		}
		head = 0
	}
}
