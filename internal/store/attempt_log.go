package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// AttemptFilter selects attempts over all deliveries. Empty fields do not filter;
// values of one field are alternatives, fields must all match.
type AttemptFilter struct {
	Tenant    hook.ID
	Endpoints []hook.ID
	Types     []string // patterns over the event's type
	Kinds     []hook.AttemptKind
	Classes   []hook.Class
	Reasons   []hook.Reason
	Since     time.Time // over places
	Until     time.Time
	EndedFrom hook.ID // attempts with this id or a greater one
}

// TakesFirst reports whether the filter lets plain first successes through, which
// are kept with their delivery.
func (f *AttemptFilter) TakesFirst() bool {
	return takes(f.Kinds, hook.First) && takes(f.Classes, hook.Success) && takes(f.Reasons, hook.OK)
}

func takes[E comparable](list []E, member E) bool {
	return len(list) == 0 || slices.Contains(list, member)
}

// AttemptRow is an attempt in a list, without request, answer and phases.
type AttemptRow struct {
	hook.Attempt
	Type string // of the event
	// Place is where the attempt stands in the list. It is the attempt's id, which is
	// drawn when it has ended, or the id of its delivery where the store keeps the
	// attempt in the row of a delivery that succeeded within moments.
	Place hook.ID
}

// AttemptLog reads attempts over all deliveries.
type AttemptLog interface {
	// ListAttempts looks at p.ScanLimit attempts of each table at most. It returns what
	// it found in the order of places and the After of the next page, 0 at the end, as
	// ListDeliveries does.
	ListAttempts(ctx context.Context, f AttemptFilter, p Page) (rows []AttemptRow, next hook.ID, err error)
}

// AttemptPart is what was found in one of the tables that hold attempts.
type AttemptPart struct {
	Rows []AttemptRow // in the order of the page
	// End is the place up to which the table was read; 0: it has no more.
	End hook.ID
}

// MergeAttempts makes one page of what was found in several tables: only up to where
// all of them were read is it known what comes next.
func MergeAttempts(p Page, parts ...AttemptPart) (rows []AttemptRow, next hook.ID) {
	order := func(a, b hook.ID) int {
		if p.Asc {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(b, a)
	}
	for _, part := range parts {
		rows = append(rows, part.Rows...)
		if part.End != 0 && (next == 0 || order(part.End, next) < 0) {
			next = part.End
		}
	}
	slices.SortFunc(rows, func(a, b AttemptRow) int { return order(a.Place, b.Place) })
	if next != 0 {
		rows = slices.DeleteFunc(rows, func(r AttemptRow) bool { return order(r.Place, next) > 0 })
	}
	if len(rows) > p.Limit {
		rows = rows[:p.Limit]
		next = rows[p.Limit-1].Place
	}
	return rows, next
}
