package sink

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Field is one setting of a Behaviour. The control surface knows it by its
// name, the command line by its name with dashes.
type Field struct {
	Name   string
	Type   string // one word for the kind of value
	Switch bool   // may stand without a value
	Help   string

	set   func(b *Behaviour, text string) error
	check func(b *Behaviour) error
}

// Set reads text into b. The error is the rule that text breaks.
func (f Field) Set(b *Behaviour, text string) error { return f.set(b, text) }

// FieldError is a rule that a setting breaks.
type FieldError struct {
	Field string
	Rule  error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Rule.Error() }
func (e *FieldError) Unwrap() error { return e.Rule }

// Fields returns all settings, in the order in which to show them.
func Fields() []Field { return append([]Field(nil), fields...) }

// The bounds of settings.
const (
	maxDuration   = 24 * time.Hour
	maxLatency    = 10 * time.Minute
	maxRate       = 1e6
	maxScript     = 1000
	maxWorkers    = 10_000
	maxQueue      = 1_000_000
	maxRetryAfter = 86_400 // a day of seconds
)

var fields = []Field{
	field("next", scriptKind, func(b *Behaviour) *[]int { return &b.Next }, "answer the next requests with these, such as 429 or 503,503,200"),
	field("fail", statusKind(200), func(b *Behaviour) *int { return &b.Fail }, "status to fail with (default 503 with --fail-rate)"),
	field("fail_rate", shareKind, func(b *Behaviour) *float64 { return &b.FailRate }, "share of requests that fail, such as 30% (default all when only --fail is given)"),
	field("fail_for", durationKind(maxDuration), func(b *Behaviour) *time.Duration { return &b.FailFor }, "how long failing lasts (default until told otherwise)"),
	field("down_for", durationKind(maxDuration), func(b *Behaviour) *time.Duration { return &b.DownFor }, "an outage that lasts so long"),
	field("after", durationKind(maxDuration), func(b *Behaviour) *time.Duration { return &b.After }, "when failing and the outage begin (default at once)"),
	field("flap_every", durationKind(maxDuration), func(b *Behaviour) *time.Duration { return &b.FlapEvery }, "be down for --flap-for at the end of every such period"),
	field("flap_for", durationKind(maxDuration), func(b *Behaviour) *time.Duration { return &b.FlapFor }, "how long it is down in each --flap-every"),
	field("crash_over", rateKind(1), func(b *Behaviour) *float64 { return &b.CrashOver }, "more requests than these within a second crash it"),
	field("crash_for", durationKind(maxDuration), func(b *Behaviour) *time.Duration { return &b.CrashFor }, "how long a crash lasts (default 10s)"),
	field("down_status", statusKind(400), func(b *Behaviour) *int { return &b.DownStatus }, "answer of one that is down or has crashed (default none: connections are reset)"),
	field("down_hangs", switchKind, func(b *Behaviour) *bool { return &b.DownHangs }, "one that is down or has crashed answers nothing, and keeps whoever asks waiting"),
	field("refuse_over", rateKind(1), func(b *Behaviour) *float64 { return &b.RefuseOver }, "serve as many within a second, answer the others 503 at once"),
	field("throttle_over", rateKind(0.01), func(b *Behaviour) *float64 { return &b.ThrottleOver }, "accept as many per second, answer the others 429 with --retry-after"),
	field("throttle_burst", countKind(maxQueue), func(b *Behaviour) *int { return &b.ThrottleBurst }, "requests that --throttle-over lets through at once (default those of one second)"),
	field("swallow", shareKind, func(b *Behaviour) *float64 { return &b.Swallow }, "share of requests that are never answered, such as 3%"),
	field("stray_429", shareKind, func(b *Behaviour) *float64 { return &b.Stray429 }, "share of requests that get 429 whatever the rate, such as 1%"),
	field("one_429_every", durationKind(maxDuration), func(b *Behaviour) *time.Duration { return &b.One429Every }, "a single 429 so often"),
	field("retry_after", secondsKind, func(b *Behaviour) *int { return &b.RetryAfter }, "seconds to ask for with 429 (default 1) and with failures (default none)"),
	field("latency", durationKind(maxLatency), func(b *Behaviour) *time.Duration { return &b.Latency }, "wait before every answer"),
	field("capacity", rateKind(0.01), func(b *Behaviour) *float64 { return &b.Capacity }, "requests per second that --workers can serve; a full queue crashes it"),
	field("workers", countKind(maxWorkers), func(b *Behaviour) *int { return &b.Workers }, "parallel handlers of --capacity (default 10)"),
	field("queue", countKind(maxQueue), func(b *Behaviour) *int { return &b.Queue }, "requests that may wait for a worker of --capacity (default 3 s of work, at least 20)"),
	field("gone", switchKind, func(b *Behaviour) *bool { return &b.Gone }, "answer 410"),
	field("slow_body", switchKind, func(b *Behaviour) *bool { return &b.SlowBody }, "answer 200, then let the body drip"),
}

// kind is a type of values with its bounds. One sentence tells both.
type kind[T any] struct {
	name  string
	read  func(string) (T, error)
	valid func(T) bool
	rule  string
}

func field[T any](name string, k kind[T], at func(*Behaviour) *T, help string) Field {
	rule := errors.New(k.rule)
	_, isSwitch := any(k).(kind[bool])
	return Field{
		Name: name, Type: k.name, Switch: isSwitch, Help: help,
		set: func(b *Behaviour, text string) error {
			v, err := k.read(text)
			if err != nil || !k.valid(v) {
				return rule
			}
			*at(b) = v
			return nil
		},
		check: func(b *Behaviour) error {
			if !k.valid(*at(b)) {
				return rule
			}
			return nil
		},
	}
}

func durationKind(most time.Duration) kind[time.Duration] {
	return kind[time.Duration]{
		name: "duration", read: quantity.ParseDuration,
		valid: func(d time.Duration) bool { return d >= 0 && d <= most },
		rule:  "must be a duration " + quantity.Between(0, most) + ", such as 5s",
	}
}

// ParseRate reads "20/s" or "20": requests per second.
func ParseRate(s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := readRate(s)
	if err != nil || !(n >= 0 && n <= 1e9) {
		return 0, errors.New("must be requests per second, such as 20/s")
	}
	return n, nil
}

func readRate(s string) (float64, error) { return strconv.ParseFloat(strings.TrimSuffix(s, "/s"), 64) }

func rateKind(least float64) kind[float64] {
	return kind[float64]{
		name: "rate", read: readRate,
		valid: func(n float64) bool { return n == 0 || n >= least && n <= maxRate },
		rule:  fmt.Sprintf("must be requests per second between %g and %.0f, such as 20/s; 0 is off", least, maxRate),
	}
}

var shareKind = kind[float64]{
	name: "share",
	read: func(s string) (float64, error) {
		number, percent := strings.CutSuffix(s, "%")
		n, err := strconv.ParseFloat(number, 64)
		if percent {
			n /= 100
		}
		return n, err
	},
	valid: func(n float64) bool { return n >= 0 && n <= 1 },
	rule:  "must be a share between 0% and 100%, such as 1% or 0.01",
}

func statusKind(least int) kind[int] {
	return kind[int]{
		name: "status", read: strconv.Atoi,
		valid: func(n int) bool { return n == 0 || n >= least && n <= 599 },
		rule:  fmt.Sprintf("must be a status between %d and 599; 0 is none", least),
	}
}

func countKind(most int) kind[int] {
	return kind[int]{
		name: "number", read: strconv.Atoi,
		valid: func(n int) bool { return n >= 0 && n <= most },
		rule:  fmt.Sprintf("must be a number between 1 and %d; 0 is the default", most),
	}
}

var secondsKind = kind[int]{
	name:  "seconds",
	read:  func(s string) (int, error) { return strconv.Atoi(strings.TrimSuffix(s, "s")) },
	valid: func(n int) bool { return n >= 0 && n <= maxRetryAfter },
	rule:  fmt.Sprintf("must be whole seconds between 0 and %d", maxRetryAfter),
}

var switchKind = kind[bool]{
	name: "bool", read: strconv.ParseBool, valid: func(bool) bool { return true }, rule: "must be true or false",
}

var scriptKind = kind[[]int]{
	name: "statuses",
	read: func(s string) ([]int, error) {
		var out []int
		for part := range strings.SplitSeq(s, ",") {
			if strings.TrimSpace(s) == "" {
				break
			}
			n, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil {
				return nil, err
			}
			out = append(out, n)
		}
		return out, nil
	},
	valid: func(script []int) bool {
		for _, n := range script {
			if n < 200 || n > 599 {
				return false
			}
		}
		return len(script) <= maxScript
	},
	rule: fmt.Sprintf("must be up to %d statuses between 200 and 599, such as 429 or 503,503", maxScript),
}
