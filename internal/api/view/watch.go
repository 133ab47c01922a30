package view

import "github.com/breakwaterhq/breakwater/internal/hook"

// Storm compares the retries of the last 15 minutes with the first
// attempts, as the lane's owner last saved them.
type Storm struct {
	Active  bool    `json:"active"`
	Since   Stamp   `json:"since"`
	Retries int64   `json:"retries" doc:"In the last 15 minutes."`
	First   *int64  `json:"first" doc:"First attempts in the last 15 minutes; null: not known, because there were no retries."`
	Ratio   float64 `json:"ratio" doc:"retries / max(first, 1)"`
	NoFirst bool    `json:"no_first" doc:"There were retries and no first attempts at all."`
	AsOf    Stamp   `json:"as_of" doc:"When this was saved; null: there was nothing to save."`
}

// RetryQueue is what waits for another attempt: pending deliveries that have
// had one, and those that are held.
type RetryQueue struct {
	Depth          *int64   `json:"depth" doc:"null: not measured; get the lane itself."`
	AtLeast        bool     `json:"at_least" doc:"Counting stopped at depth; there may be more."`
	Growing        bool     `json:"growing" doc:"The early warning of a storm."`
	Since          Stamp    `json:"since" doc:"Of the warning."`
	DrainPerMinute *float64 `json:"drain_per_minute" doc:"Over the last minute; 0 or less: not draining; null: not known."`
	EmptyAt        Stamp    `json:"empty_at" doc:"If it goes on draining like this; null: it does not."`
}

// OfStorm shows what the owner of a lane has seen of a storm.
func OfStorm(w *hook.LaneWatch) Storm {
	v := Storm{
		Active: w.Storm.Active(), Since: Stamp(w.Storm.Since), Retries: w.Storm.Retries,
		Ratio: Rounded(w.Storm.Ratio()), NoFirst: w.Storm.Retries > 0 && w.Storm.First == 0, AsOf: Stamp(w.UpdatedAt),
	}
	if w.Storm.Retries > 0 || w.Storm.First > 0 {
		v.First = &w.Storm.First
	}
	return v
}

// OfRetryQueue shows what the owner of a lane has seen of its queue.
func OfRetryQueue(w *hook.LaneWatch) RetryQueue {
	q := &w.Queue
	v := RetryQueue{
		Depth: &q.Depth, AtLeast: q.AtLeast, Growing: q.Growing(), Since: Stamp(q.Since), DrainPerMinute: new(Rounded(q.DrainPerMinute)),
	}
	if d, ok := q.EmptyIn(); ok {
		v.EmptyAt = Stamp(w.UpdatedAt.Add(d))
	}
	return v
}
