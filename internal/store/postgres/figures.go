package postgres

import (
	"sync"

	"github.com/breakwaterhq/breakwater/internal/stats"
)

// figures is what a statement counts. It says it twice, because the statement stores
// it before anybody knows what is written: added up, which is what is stored if all
// is written and ends as its owner thinks, and one by one.
type figures struct {
	all  stats.Tally
	each stats.Log
}

// usedFigures keeps the memory of figures for the next run.
var usedFigures = sync.Pool{New: func() any { return new(figures) }}

func (f *figures) reset() {
	f.all.Reset()
	f.each.Reset()
}

// addFigures adds them to the statement, with the time that they are of.
func (r *run) addFigures() {
	r.ID(r.batch.Now.Unix())
	r.Bytes(r.figures.all.Packed())
	r.Bytes(r.figures.each.Packed())
}
