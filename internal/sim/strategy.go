package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/policy"
)

// Strategy is a way to send. Make one with ParseStrategy or Law.
type Strategy struct {
	Name   string
	About  string // in a few words
	Policy policy.Policy

	law     bool
	most    int // classic: in flight, 0: any number
	breaker breakerKind
}

// Law returns the strategy that the server follows: the lane's control law
// under a policy.
func Law(name string, p policy.Policy) Strategy {
	return Strategy{Name: name, About: "the law", Policy: p, law: true}
}

// sender makes what sends to one endpoint of a world.
func (st *Strategy) sender(w *world, d *destination, rng *rand.Rand) sender {
	if st.law {
		return newLaw(&st.Policy, w, d, rng)
	}
	return &classic{w: w, d: d, rng: rng, p: &st.Policy, most: st.most, breaker: st.breaker}
}

const (
	lawName     = "law"
	lawPrefix   = "law:" // before the name of a schedule
	retriesName = "retries"
)

// classicLimit is the fixed limit that strategies are compared with.
const classicLimit = 10

// Strategies returns every strategy that has a name without a number in it: the
// law under each schedule, and each schedule by itself with and without a limit
// and a breaker.
func Strategies() []Strategy {
	list := []Strategy{Law(lawName, policy.Default())}
	schedules := schedules()
	for _, s := range schedules {
		list = append(list, Law(lawPrefix+s.Name, s.Policy))
	}
	for _, s := range schedules {
		for _, most := range []int{0, classicLimit} {
			for _, breaker := range []breakerKind{noBreaker, burnBreaker, holdBreaker} {
				list = append(list, newClassic(s, most, breaker))
			}
		}
	}
	return list
}

// schedules are the presets and a few textbook schedules that no preset has,
// because nobody should want them.
func schedules() []policy.PresetInfo {
	textbook := func(name string, attempts int, b policy.Backoff, jitter policy.JitterKind) policy.PresetInfo {
		p := policy.Default()
		p.Preset = name
		p.Retry.MaxAttempts, p.Retry.Backoff, p.Retry.Jitter = attempts, b, policy.Jitter{Kind: jitter}
		return policy.PresetInfo{Name: name, Policy: p}
	}
	doubling := policy.Backoff{Kind: policy.Exponential, Base: 30 * time.Second, Multiplier: 2, Cap: time.Hour}
	every := policy.Backoff{Kind: policy.Schedule, Delays: []time.Duration{time.Minute}}
	return append(policy.Presets(),
		textbook("fixed-60s", 100, every, policy.JitterNone),
		textbook("exp-nojitter", 10, doubling, policy.JitterNone),
		textbook("full-10", 10, doubling, policy.JitterFull),
		textbook("equal-10", 10, doubling, policy.JitterEqual),
		textbook("decorrelated-10", 10, doubling, policy.JitterDecorrelated),
	)
}

func newClassic(s policy.PresetInfo, most int, breaker breakerKind) Strategy {
	name, about := s.Name, "retries alone"
	if most > 0 {
		name += "+cap" + strconv.Itoa(most)
		about = fmt.Sprintf("retries, at most %d in flight", most)
	}
	switch breaker {
	case burnBreaker:
		name += "+burn"
		about += ", open breaker fails attempts"
	case holdBreaker:
		name += "+hold"
		about += ", open breaker holds, then releases"
	case noBreaker:
	}
	return Strategy{Name: name, About: about, Policy: s.Policy, most: most, breaker: breaker}
}

// ParseStrategy reads the name of a strategy:
//
//	law               the law under the policy of the preset default
//	law:full-5        the law under another preset
//	law+max1000       the law with another ceiling of its limit
//	full-5            the schedule of that preset alone
//	full-5+cap10      the same with at most ten requests in flight
//	full-5+cap10+burn the same with a breaker that fails what comes while it is open
//	full-5+cap10+hold the same with a breaker that holds it, then releases everything
func ParseStrategy(name string) (Strategy, error) {
	parts := strings.Split(name, "+")
	schedule, isLaw := strings.CutPrefix(parts[0], lawPrefix)
	if parts[0] == lawName {
		schedule, isLaw = policy.DefaultPreset, true
	}
	all := schedules()
	i := slices.IndexFunc(all, func(s policy.PresetInfo) bool { return s.Name == schedule })
	if i < 0 {
		return Strategy{}, fmt.Errorf("unknown strategy %q: no preset or schedule is called %q", name, schedule)
	}
	if isLaw {
		return parseLaw(name, all[i].Policy, parts[1:])
	}
	return parseClassic(name, all[i], parts[1:])
}

// Send returns a way to send under a policy of the caller: law, or retries with the
// modifiers of ParseStrategy, such as retries+cap10+hold.
func Send(how string, p policy.Policy) (Strategy, error) {
	name, modifiers, modified := strings.Cut(how, "+")
	switch {
	case how == lawName:
		return Law(how, p), nil
	case name != retriesName:
		return Strategy{}, fmt.Errorf("must be %s, or %s with +cap10, +burn or +hold", lawName, retriesName)
	case !modified:
		return newClassic(policy.PresetInfo{Name: name, Policy: p}, 0, noBreaker), nil
	default:
		return parseClassic(how, policy.PresetInfo{Name: name, Policy: p}, strings.Split(modifiers, "+"))
	}
}

func parseLaw(name string, p policy.Policy, modifiers []string) (Strategy, error) {
	for _, m := range modifiers {
		most, ok := number(m, "max")
		if !ok {
			return Strategy{}, fmt.Errorf("unknown strategy %q: %q must be max and a number, such as max1000", name, m)
		}
		p.Concurrency = policy.Concurrency{Mode: policy.Adaptive, Initial: min(10, most), Max: most}
	}
	return Law(name, p), nil
}

func parseClassic(name string, s policy.PresetInfo, modifiers []string) (Strategy, error) {
	most, breaker := 0, noBreaker
	for _, m := range modifiers {
		n, isCap := number(m, "cap")
		switch {
		case isCap && most == 0:
			most = n
		case m == "burn" && breaker == noBreaker:
			breaker = burnBreaker
		case m == "hold" && breaker == noBreaker:
			breaker = holdBreaker
		default:
			return Strategy{}, fmt.Errorf("unknown strategy %q: %q must be cap and a number, burn or hold", name, m)
		}
	}
	return newClassic(s, most, breaker), nil
}

// mostInFlight bounds the numbers in names.
const mostInFlight = 100_000

// number reads a modifier such as cap10.
func number(modifier, word string) (int, bool) {
	digits, ok := strings.CutPrefix(modifier, word)
	n, err := strconv.ParseUint(digits, 10, 32)
	return int(n), ok && err == nil && n >= 1 && n <= mostInFlight
}
