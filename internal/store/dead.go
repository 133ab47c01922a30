package store

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// DeadLetters looks at dead letters together and ends many of them.
type DeadLetters interface {
	// GroupDead adds up the dead letters that a filter matches. Of more than
	// p.ScanLimit it adds up the newest, so that the answer does not take longer
	// the more there are. It returns p.Limit groups at most, the largest first.
	GroupDead(ctx context.Context, f DeliveryFilter, p Page) (DeadGroups, error)
	// DiscardDead cancels dead letters, oldest first, in one transaction. One that
	// is not dead any more, or died again after d.Now, stays as it is.
	DiscardDead(ctx context.Context, d Discard) (Discarded, error)
}

// DeadGroup are dead letters of one endpoint that died for the same reason with
// the same answer.
type DeadGroup struct {
	Tenant, Endpoint hook.ID
	Reason           hook.EndReason
	Status           int // of the last attempt, 0: there was no answer
	Count            int
	Oldest, Newest   time.Time // when they died
	First            hook.ID   // the oldest event
	Sample           hook.ID   // the youngest delivery
}

// DeadGroups is what GroupDead found.
type DeadGroups struct {
	Groups []DeadGroup
	Count  int  // deliveries in all groups, also those that are left out
	Exact  bool // false: there are at least as many, in these groups and perhaps in others
	Cut    bool // there are groups that are left out
}

// Discard is one step of ending dead letters.
type Discard struct {
	Filter DeliveryFilter // of one tenant; States is dead alone
	After  hook.ID        // the Next of the step before
	Limit  int            // deliveries of one transaction
	Now    time.Time      // of the request
	Audit  *hook.Audit    // nil: the first step has written it; not written when nothing is found
}

// Discarded is what a step did.
type Discarded struct {
	N    int
	Next hook.ID // the After of the next step, 0: it was the last
}
