package sink

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Behaviour is how a sink treats requests. The zero value answers 200 at once.
type Behaviour struct {
	Fail     int           // status to fail with; 0 means 503 where FailRate or Flap ask for failures
	FailRate float64       // share of requests that fail; 0 with Fail set means all
	FailFor  time.Duration // how long failing lasts, 0 means until told otherwise
	After    time.Duration // how long from now failing begins

	Latency    time.Duration // wait before every answer
	RateLimit  float64       // accepted requests per second, beyond it 429; 0 means no limit
	RateBurst  int           // of RateLimit at once; 0 means those of one second
	RetryAfter int           // seconds; sent with 429 (1 when 0) and with failures (none when 0)
	Flap       Flap          // alternate between working and failing
	Gone       bool          // answer 410
	SlowBody   bool          // answer 200, then let the body drip

	// CrashOver is the arrivals of one second that crash the sink. A crashed
	// sink resets all connections, those in flight too, for CrashFor.
	CrashOver float64
	CrashFor  time.Duration // 0 means 10 s

	// Capacity, in requests per second, makes a model of a real server: each
	// request keeps one of Workers busy for Workers/Capacity seconds, up to
	// Queue requests wait, and one more crashes the sink. 0 means no model.
	Capacity float64
	Workers  int // 0 means 10
	Queue    int // 0 means three seconds of work, at least 20
}

// Flap is a cycle of working and failing. The zero value does not flap.
type Flap struct{ Up, Down time.Duration }

// ParseFlap reads "30s/10s".
func ParseFlap(s string) (Flap, error) {
	if s == "" {
		return Flap{}, nil
	}
	up, down, _ := strings.Cut(s, "/")
	u, errUp := time.ParseDuration(up)
	d, errDown := time.ParseDuration(down)
	if errUp != nil || errDown != nil || u <= 0 || d <= 0 {
		return Flap{}, errors.New("must be two durations such as 30s/10s: working, then failing")
	}
	return Flap{u, d}, nil
}

// ParseRate reads "20/s" or "20": requests per second.
func ParseRate(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSuffix(s, "/s"), 64)
	if err != nil || !(n >= 0 && n <= 1e9) {
		return 0, errors.New("must be requests per second, such as 20/s")
	}
	return n, nil
}

const (
	defaultCrashFor = 10 * time.Second
	defaultWorkers  = 10
	minQueue        = 20
	queueSeconds    = 3
)

// withDefaults checks b and fills in what zero stands for.
func (b Behaviour) withDefaults() (Behaviour, error) {
	switch {
	case b.Fail != 0 && (b.Fail < 200 || b.Fail > 599):
		return b, fmt.Errorf("fail: %d is not a status between 200 and 599", b.Fail)
	case !(b.FailRate >= 0 && b.FailRate <= 1):
		return b, errors.New("fail_rate: must be between 0 and 1")
	case b.FailFor < 0 || b.After < 0 || b.Latency < 0 || b.CrashFor < 0:
		return b, errors.New("durations must not be negative")
	case b.RateLimit < 0 || b.RateBurst < 0 || b.CrashOver < 0 || b.Capacity < 0 || b.Workers < 0 || b.Queue < 0 || b.RetryAfter < 0:
		return b, errors.New("limits must not be negative")
	}
	if b.CrashFor == 0 {
		b.CrashFor = defaultCrashFor
	}
	if b.Workers == 0 {
		b.Workers = defaultWorkers
	}
	if b.Queue == 0 {
		b.Queue = max(minQueue, int(queueSeconds*b.Capacity))
	}
	return b, nil
}

// burst is how many requests RateLimit lets through at once.
func (b *Behaviour) burst() float64 {
	if b.RateBurst > 0 {
		return float64(b.RateBurst)
	}
	return max(1, b.RateLimit)
}

// failing returns the status to fail with at now, or 0. from is when the
// behaviour took effect, draw a uniform number in [0,1).
func (b *Behaviour) failing(from, now time.Time, draw float64) int {
	if b.Fail == 0 && b.FailRate == 0 && b.Flap == (Flap{}) {
		return 0
	}
	age := now.Sub(from) - b.After
	if age < 0 || b.FailFor > 0 && age >= b.FailFor {
		return 0
	}
	if cycle := b.Flap.Up + b.Flap.Down; cycle > 0 && age%cycle < b.Flap.Up {
		return 0
	}
	if b.FailRate > 0 && draw >= b.FailRate {
		return 0
	}
	if b.Fail == 0 {
		return http.StatusServiceUnavailable
	}
	return b.Fail
}
