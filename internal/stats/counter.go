package stats

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Counter is one of the figures that are kept. Its numbers are stored: they are
// never reused and never renumbered.
type Counter uint16

const (
	// Events counts accepted events.
	Events Counter = 1
	// Accepted counts the deliveries that they made.
	Accepted Counter = 2
	// Cancelled counts deliveries that a person or a deleted endpoint ended.
	Cancelled Counter = 3
	// FailedFirst counts first attempts that failed.
	FailedFirst Counter = 4
	// SecondTries counts attempts that were the second of their delivery.
	SecondTries Counter = 5
	// TriesOfDelivered adds up how many attempts it took to deliver what was
	// delivered, since it was accepted, replayed or sent by hand.
	TriesOfDelivered Counter = 6
	// Reopened counts deliveries that had ended and became pending again, by a
	// replay or by hand, and those that a replay created long after their event was
	// accepted: without it what ended would not add up with what came.
	Reopened Counter = 7
	// Restored counts those of them that were sent by hand in vain: they are again
	// what they were, which was counted before.
	Restored Counter = 8

	// ReadySeconds adds up, for a tenant or all, for how long deliveries were ready:
	// divided by the time that was looked at it is how many were on average. Other
	// than a gauge it can be added up over nodes. So can the next three.
	ReadySeconds Counter = 9
	// DelayedSeconds is the same of those that are not due.
	DelayedSeconds Counter = 10
	// RetryingSeconds is the same of those that were tried before.
	RetryingSeconds Counter = 11
	// HeldSeconds is the same of those that are due while nothing is sent.
	HeldSeconds Counter = 12
	// LookedSeconds is for how long somebody looked at the queues, of all alone.
	LookedSeconds Counter = 13

	attempts  Counter = 16  // + kind
	delivered Counter = 32  // + 1, 2, 3 attempts or more
	dead      Counter = 48  // + reason
	failed    Counter = 64  // + reason
	attemptIn Counter = 256 // + bucket
	deliverIn Counter = 512 // + bucket

	gauges     Counter = 1024 // from here on the greatest stays
	least      Counter = 2048 // from here on the least
	maxCounter         = 1<<16 - 1
)

// MostTries is the attempt number from which on deliveries are counted together.
const MostTries = 3

// Attempts counts attempts of a kind.
func Attempts(k hook.AttemptKind) Counter { return attempts + Counter(k) }

// Delivered counts deliveries that took so many attempts; MostTries and more are
// one.
func Delivered(tries int) Counter { return delivered + Counter(min(max(tries, 1), MostTries)) }

// Dead counts dead letters by reason.
func Dead(r hook.EndReason) Counter { return dead + Counter(r) }

// Failed counts failed attempts by reason.
func Failed(r hook.Reason) Counter { return failed + Counter(r) }

// AttemptTook counts attempts by how long they took.
func AttemptTook(d time.Duration) Counter { return attemptIn + bucketOf(d) }

// DeliveryTook counts deliveries by how long it took from when they were due to
// the answer that ended them well.
func DeliveryTook(d time.Duration) Counter { return deliverIn + bucketOf(d) }

// Gauges tell how much there was of something: of several values in a minute the
// greatest stays.
const (
	// Limit and InFlight are those of an endpoint's lane, seen when it sends.
	Limit    = gauges + 1
	InFlight = gauges + 2
	// Breaker is 0 while the lane is closed and 1 while it is open, probes included.
	Breaker = gauges + 3
	// Pending is how many deliveries of a tenant, or of all, have not ended.
	Pending = gauges + 4
	// Ready, Delayed, Retrying and Held are how many wait for an endpoint: due and
	// never tried, not due, tried before, due while nothing is sent. They are
	// counted while the endpoint is retried or held.
	Ready    = gauges + 5
	Delayed  = gauges + 6
	Retrying = gauges + 7
	Held     = gauges + 8
	// Oldest is how long the oldest of them has waited, in seconds.
	Oldest = gauges + 9
	// LimitLow is the least limit.
	LimitLow = least + 1
)
