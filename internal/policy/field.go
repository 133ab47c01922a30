package policy

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// field is one leaf of the policy object: where it stands in the document, what
// it may hold, and where it lives in a Policy.
type field struct {
	path string
	rule rule
	at   func(*Policy) any // pointer to the value
	// kind is set on fields that exist only with that kind (or mode) of their
	// object.
	kind string
}

// The leaves whose value decides which other fields their object has.
const (
	backoffKind     = "retry.backoff.kind"
	backoffDelays   = "retry.backoff.delays"
	jitterKind      = "retry.jitter.kind"
	concurrencyMode = "concurrency.mode"
	maxAttempts     = "retry.max_attempts"
)

var selectors = []string{backoffKind, jitterKind, concurrencyMode}

// fields is the policy object. Everything that reads, checks, merges or writes
// a policy goes by this table.
var fields = []field{
	{path: maxAttempts, rule: whole(1, 50), at: func(p *Policy) any { return &p.Retry.MaxAttempts }},
	{path: "retry.max_elapsed", rule: span(time.Minute, 720*time.Hour), at: func(p *Policy) any { return &p.Retry.MaxElapsed }},
	{path: "retry.initial_delay", rule: span(0, 24*time.Hour), at: func(p *Policy) any { return &p.Retry.InitialDelay }},
	{path: "retry.min_delay", rule: span(10*time.Millisecond, time.Hour), at: func(p *Policy) any { return &p.Retry.MinDelay }},

	{path: backoffKind, rule: oneOf(string(Exponential), string(Schedule)), at: func(p *Policy) any { return &p.Retry.Backoff.Kind }},
	{path: "retry.backoff.base", rule: span(10*time.Millisecond, 24*time.Hour), at: func(p *Policy) any { return &p.Retry.Backoff.Base }, kind: string(Exponential)},
	{path: "retry.backoff.multiplier", rule: number(1, 10), at: func(p *Policy) any { return &p.Retry.Backoff.Multiplier }, kind: string(Exponential)},
	{path: "retry.backoff.cap", rule: span(10*time.Millisecond, 168*time.Hour), at: func(p *Policy) any { return &p.Retry.Backoff.Cap }, kind: string(Exponential)},
	{path: backoffDelays, rule: delays{item: span(10*time.Millisecond, 168*time.Hour), most: 49}, at: func(p *Policy) any { return &p.Retry.Backoff.Delays }, kind: string(Schedule)},

	{path: jitterKind, rule: oneOf(string(JitterFull), string(JitterEqual), string(JitterDecorrelated), string(JitterPercent), string(JitterRange), string(JitterNone)), at: func(p *Policy) any { return &p.Retry.Jitter.Kind }},
	{path: "retry.jitter.percent", rule: aboveZero(100), at: func(p *Policy) any { return &p.Retry.Jitter.Percent }, kind: string(JitterPercent)},
	{path: "retry.jitter.low", rule: factor, at: func(p *Policy) any { return &p.Retry.Jitter.Low }, kind: string(JitterRange)},
	{path: "retry.jitter.high", rule: factor, at: func(p *Policy) any { return &p.Retry.Jitter.High }, kind: string(JitterRange)},

	{path: "retry_after.honor", rule: flag{}, at: func(p *Policy) any { return &p.RetryAfter.Honor }},
	{path: "retry_after.max", rule: span(time.Second, 168*time.Hour), at: func(p *Policy) any { return &p.RetryAfter.Max }},
	{path: "retry_after.late_percent", rule: number(0, 100), at: func(p *Policy) any { return &p.RetryAfter.LatePercent }},
	{path: "retry_after.late_min", rule: span(0, time.Minute), at: func(p *Policy) any { return &p.RetryAfter.LateMin }},
	{path: "retry_after.throttle_multiplier", rule: number(1, 10), at: func(p *Policy) any { return &p.RetryAfter.ThrottleMultiplier }},
	{path: "retry_after.patience", rule: whole(1, 1000), at: func(p *Policy) any { return &p.RetryAfter.Patience }},

	{path: "classify.redirects.mode", rule: oneOf(string(RedirectFail), string(RedirectFollow)), at: func(p *Policy) any { return &p.Classify.Redirects.Mode }},
	{path: "classify.redirects.max_hops", rule: whole(1, 5), at: func(p *Policy) any { return &p.Classify.Redirects.MaxHops }},
	{path: "classify.on_gone", rule: oneOf(string(GoneDisable), string(GoneDeadLetter)), at: func(p *Policy) any { return &p.Classify.OnGone }},

	{path: "timeout.connect", rule: span(100*time.Millisecond, 30*time.Second), at: func(p *Policy) any { return &p.Timeout.Connect }},
	{path: "timeout.total", rule: span(time.Second, 120*time.Second), at: func(p *Policy) any { return &p.Timeout.Total }},

	{path: concurrencyMode, rule: oneOf(string(Fixed), string(Adaptive)), at: func(p *Policy) any { return &p.Concurrency.Mode }},
	{path: "concurrency.limit", rule: whole(1, 1000), at: func(p *Policy) any { return &p.Concurrency.Limit }, kind: string(Fixed)},
	{path: "concurrency.initial", rule: whole(1, 1000), at: func(p *Policy) any { return &p.Concurrency.Initial }, kind: string(Adaptive)},
	{path: "concurrency.max", rule: whole(1, 1000), at: func(p *Policy) any { return &p.Concurrency.Max }, kind: string(Adaptive)},

	{path: "rate_limit.per_second", rule: number(0, 100000), at: func(p *Policy) any { return &p.RateLimit.PerSecond }},
	{path: "rate_limit.burst", rule: whole(0, 100000), at: func(p *Policy) any { return &p.RateLimit.Burst }},

	{path: "breaker.enabled", rule: flag{}, at: func(p *Policy) any { return &p.Breaker.Enabled }},
	{path: "breaker.consecutive", rule: whole(2, 100), at: func(p *Policy) any { return &p.Breaker.Consecutive }},
	{path: "breaker.window.failed", rule: whole(1, 200), at: func(p *Policy) any { return &p.Breaker.Window.Failed }},
	{path: "breaker.window.of", rule: whole(5, 200), at: func(p *Policy) any { return &p.Breaker.Window.Of }},
	{path: "breaker.on_open", rule: oneOf(string(OpenHold), string(OpenDeadLetter)), at: func(p *Policy) any { return &p.Breaker.OnOpen }},
	{path: "breaker.max_hold", rule: span(time.Minute, 720*time.Hour), at: func(p *Policy) any { return &p.Breaker.MaxHold }},
	{path: "breaker.probe.fraction", rule: number(0.01, 1), at: func(p *Policy) any { return &p.Breaker.Probe.Fraction }},
	{path: "breaker.probe.min", rule: span(100*time.Millisecond, 10*time.Minute), at: func(p *Policy) any { return &p.Breaker.Probe.Min }},
	{path: "breaker.probe.max", rule: span(100*time.Millisecond, time.Hour), at: func(p *Policy) any { return &p.Breaker.Probe.Max }},
	{path: "breaker.probe.jitter", rule: number(0, 0.5), at: func(p *Policy) any { return &p.Breaker.Probe.Jitter }},

	{path: "replay.per_minute", rule: whole(1, 100000), at: func(p *Policy) any { return &p.Replay.PerMinute }},
	{path: "replay.ramp", rule: number(1, 10), at: func(p *Policy) any { return &p.Replay.Ramp }},
	{path: "replay.max_multiple", rule: whole(1, 1000), at: func(p *Policy) any { return &p.Replay.MaxMultiple }},
	{path: "replay.pause_error_percent", rule: number(1, 100), at: func(p *Policy) any { return &p.Replay.PauseErrorPercent }},

	{path: "disable_after", rule: zeroOr(time.Hour, 720*time.Hour), at: func(p *Policy) any { return &p.DisableAfter }},
}

// kindDefaults are the values of fields that appear when a level changes the
// kind of an object and says no more. A schedule has none: its delays must be
// given.
var kindDefaults = settings{
	"retry.backoff.base":       30 * time.Second,
	"retry.backoff.multiplier": 3.0,
	"retry.backoff.cap":        6 * time.Hour,
	"retry.jitter.percent":     20.0,
	"retry.jitter.low":         0.5,
	"retry.jitter.high":        1.5,
	"concurrency.limit":        10,
	"concurrency.initial":      10,
	"concurrency.max":          100,
}

var fieldByPath = func() map[string]*field {
	m := make(map[string]*field, len(fields))
	for i := range fields {
		m[fields[i].path] = &fields[i]
	}
	return m
}()

// selector returns the path of the kind (or mode) that the field depends on.
func (f *field) selector() string {
	if f.kind == "" {
		return ""
	}
	object := parent(f.path)
	if object == "concurrency" {
		return concurrencyMode
	}
	return object + ".kind"
}

func parent(path string) string {
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}

func lastName(path string) string {
	return path[strings.LastIndexByte(path, '.')+1:]
}

// settings is a policy, or a part of one, as a flat map from path to value: an
// int, float64, time.Duration, bool, string or []time.Duration. Merging levels
// is then merging maps. Entries of the classify maps are leaves too. A nil
// value asks for the preset's.
type settings map[string]any

// flatten returns the settings of p that its kinds use.
func flatten(p Policy) settings {
	s := settings{}
	for i := range fields {
		f := &fields[i]
		switch value := reflect.ValueOf(f.at(&p)).Elem(); value.Kind() {
		case reflect.String:
			s[f.path] = value.String() // the words lose their types here
		case reflect.Slice:
			s[f.path] = slices.Clone(value.Interface().([]time.Duration))
		default:
			s[f.path] = value.Interface()
		}
	}
	for i := range fields {
		if f := &fields[i]; f.kind != "" && s[f.selector()] != f.kind {
			delete(s, f.path)
		}
	}
	for status, action := range p.Classify.Statuses {
		s[statusEntries+"."+status] = string(action)
	}
	for reason, action := range p.Classify.Errors {
		s[errorEntries+"."+reason.String()] = string(action)
	}
	for reason, limit := range p.Classify.Limits {
		s[limitEntries+"."+reason.String()] = limit
	}
	return s
}

// assemble is the reverse of flatten. The preset is not a setting.
func (s settings) assemble() Policy {
	p := Policy{Classify: Classify{
		Statuses: map[string]Action{},
		Errors:   map[hook.Reason]Action{},
		Limits:   map[hook.Reason]int{},
	}}
	for path, v := range s {
		if f, ok := fieldByPath[path]; ok {
			target := reflect.ValueOf(f.at(&p)).Elem()
			target.Set(reflect.ValueOf(v).Convert(target.Type()))
		} else {
			p.Classify.set(path, v)
		}
	}
	return p
}

// set puts one entry into its map. Paths and values have been checked.
func (c *Classify) set(path string, v any) {
	name := lastName(path)
	reason, _ := hook.ParseReason(name)
	switch parent(path) {
	case statusEntries:
		c.Statuses[name] = Action(v.(string))
	case errorEntries:
		c.Errors[reason] = Action(v.(string))
	case limitEntries:
		c.Limits[reason] = v.(int)
	}
}

// below returns the paths of s at path and under it.
func (s settings) below(path string) []string {
	var found []string
	for p := range s {
		if p == path || strings.HasPrefix(p, path+".") {
			found = append(found, p)
		}
	}
	return found
}

// The objects whose keys are free within a rule of their own.
const (
	statusEntries = "classify.statuses"
	errorEntries  = "classify.errors"
	limitEntries  = "classify.limits"
)

var entryObjects = []string{statusEntries, errorEntries, limitEntries}

// entryRule returns the rule for one key of such an object, or what is wrong
// with the key.
func entryRule(object, key string) (rule, string) {
	switch object {
	case statusEntries:
		if !isStatusKey(key) {
			return nil, "not a status or class"
		}
		return statusAction{key: key}, ""
	case errorEntries:
		if !isErrorReason(key) {
			return nil, "unknown error reason " + strconv.Quote(key)
		}
		return action{allowed: []Action{ActionRetry, ActionDown, ActionPermanent}}, ""
	default:
		if !isLimitable(key) {
			return nil, "unknown error reason " + strconv.Quote(key)
		}
		return whole(1, 50), ""
	}
}

// isStatusKey accepts "100".."599" and the classes "3xx", "4xx", "5xx".
func isStatusKey(key string) bool {
	switch key {
	case "3xx", "4xx", "5xx":
		return true
	}
	return len(key) == 3 && isDigits(key) && key[0] >= '1' && key[0] <= '5'
}

// isErrorReason accepts the reasons of attempts without a status that are the
// destination's doing. What fails on our side is never its fault, whatever a
// policy says.
func isErrorReason(name string) bool {
	reason, err := hook.ParseReason(name)
	if err != nil {
		return false
	}
	class, _ := errorClass(reason)
	return class != hook.Local
}

// isLimitable accepts every reason that can end in another attempt.
func isLimitable(name string) bool {
	reason, err := hook.ParseReason(name)
	return err == nil && reason != hook.OK && reason != hook.Interrupted && reason != hook.LocalError
}
