package sink

import (
	"cmp"
	"errors"
	"time"
)

// Behaviour is how a destination treats requests. The zero value answers 200 at
// once. Package function Fields lists every setting with its bounds.
type Behaviour struct {
	Next     []int         // statuses of the next requests, in order
	Fail     int           // status to fail with; 0 means 503 where FailRate asks for failures
	FailRate float64       // share of requests that fail; 0 with Fail set means all
	FailFor  time.Duration // how long failing lasts, 0 means until told otherwise
	DownFor  time.Duration // an outage of this length
	After    time.Duration // how long from now failing and the outage begin

	// Down for FlapFor at the end of every FlapEvery, for no reason.
	FlapEvery, FlapFor time.Duration

	// More than CrashOver arrivals within a second crash the destination for
	// CrashFor, with all that is in flight.
	CrashOver float64
	CrashFor  time.Duration // 0 means 10 s

	// DownStatus answers whoever comes while the destination is down, after a
	// crash too. 0 means that connections are reset.
	DownStatus int
	DownHangs  bool // they get no answer at all, and wait until they give up

	RefuseOver    float64 // requests served within a second; one more gets a plain 503 at once
	ThrottleOver  float64 // accepted requests per second, beyond it 429; 0 means no limit
	ThrottleBurst int     // of ThrottleOver at once; 0 means those of one second

	Swallow     float64       // share of requests that get no answer
	Stray429    float64       // share of answers that are 429 whatever the rate
	One429Every time.Duration // a single 429 so often
	RetryAfter  int           // seconds; sent with 429 (1 when 0) and with failures (none when 0)

	Latency time.Duration // wait before every answer but a refusal

	// Capacity, in requests per second, makes a model of a real server: each
	// request keeps one of Workers busy for Workers/Capacity seconds, up to
	// Queue requests wait, and one more crashes it. 0 means no model.
	Capacity float64
	Workers  int // 0 means 10
	Queue    int // 0 means three seconds of work, at least 20

	Gone     bool // answer 410
	SlowBody bool // answer 200, then let the body drip
}

const (
	defaultCrashFor = 10 * time.Second
	defaultWorkers  = 10
	minQueue        = 20
	queueSeconds    = 3
)

var errAfter = errors.New("goes with fail, fail_rate or down_for")

// check returns every rule that b breaks.
func (b *Behaviour) check() error {
	var errs []error
	for _, f := range fields {
		if err := f.check(b); err != nil {
			errs = append(errs, &FieldError{f.Name, err})
		}
	}
	if (b.FlapEvery > 0 || b.FlapFor > 0) && (b.FlapFor <= 0 || b.FlapFor >= b.FlapEvery) {
		errs = append(errs, &FieldError{"flap_for", errors.New("must be more than 0s and less than flap_every; the two go together")})
	}
	if b.FailFor > 0 && b.Fail == 0 && b.FailRate == 0 {
		errs = append(errs, &FieldError{"fail_for", errors.New("goes with fail or fail_rate")})
	}
	if b.After > 0 && b.Fail == 0 && b.FailRate == 0 && b.DownFor == 0 {
		errs = append(errs, &FieldError{"after", errAfter})
	}
	if b.DownHangs && b.DownStatus != 0 {
		errs = append(errs, &FieldError{"down_hangs", errors.New("does not go with down_status")})
	}
	if b.ThrottleBurst > 0 && b.ThrottleOver == 0 {
		errs = append(errs, &FieldError{"throttle_burst", errors.New("goes with throttle_over")})
	}
	return errors.Join(errs...)
}

func (b *Behaviour) crashFor() time.Duration { return cmp.Or(b.CrashFor, defaultCrashFor) }
func (b *Behaviour) workers() int            { return cmp.Or(b.Workers, defaultWorkers) }

func (b *Behaviour) queue() int {
	return cmp.Or(b.Queue, max(minQueue, int(queueSeconds*b.Capacity)))
}

// burst is how many requests ThrottleOver lets through at once.
func (b *Behaviour) burst() float64 {
	if b.ThrottleBurst > 0 {
		return float64(b.ThrottleBurst)
	}
	return max(1, b.ThrottleOver)
}
