package policy

import (
	"slices"
	"time"
)

// Step is one retry of the ladder as a preview shows it.
type Step struct {
	N        int // retry, counted from 1; the attempt is N+1
	Ceiling  time.Duration
	Earliest time.Duration
	Mean     time.Duration
	Latest   time.Duration
	// From the first attempt to this one, answers instant, nothing held.
	CumulativeEarliest time.Duration
	CumulativeMean     time.Duration
	CumulativeLatest   time.Duration
}

// Span is the time from the first to the last attempt when every one fails,
// retries alone: answers instant, nothing held.
type Span struct {
	Earliest time.Duration
	P5       time.Duration
	Mean     time.Duration
	P95      time.Duration
	Latest   time.Duration
}

// previewRuns is how many runs the preview draws: enough for the percentiles
// of a chart, cheap enough for a request.
const previewRuns = 4000

// Ladder returns every retry that the policy allows.
func (p *Policy) Ladder() []Step {
	steps := make([]Step, max(p.Retry.MaxAttempts-1, 0))
	means := p.means(len(steps))
	var sum Step
	for i := range steps {
		ceiling := p.Ceiling(i + 1)
		low, high := p.interval(ceiling)
		sum.CumulativeEarliest += low
		sum.CumulativeMean += means[i]
		sum.CumulativeLatest += high
		sum.N, sum.Ceiling, sum.Earliest, sum.Mean, sum.Latest = i+1, ceiling, low, means[i], high
		steps[i] = sum
	}
	return steps
}

// means returns the mean wait of each retry. That of decorrelated jitter has no
// closed form once the cap acts; it is averaged over drawn runs.
func (p *Policy) means(retries int) []time.Duration {
	means := make([]time.Duration, retries)
	if p.Retry.Jitter.Kind != JitterDecorrelated {
		for i := range means {
			low, high := p.interval(p.Ceiling(i + 1))
			means[i] = (low + (high-low)/2).Round(tick)
		}
		return means
	}
	for run := range previewRuns {
		p.drawRun(run, retries, func(i int, delay time.Duration) { means[i] += delay })
	}
	for i := range means {
		means[i] = (means[i] / previewRuns).Round(tick)
	}
	return means
}

// Span returns how long the whole ladder takes.
func (p *Policy) Span() Span {
	steps := p.Ladder()
	if len(steps) == 0 {
		return Span{}
	}
	last := steps[len(steps)-1]
	totals := make([]time.Duration, previewRuns)
	for run := range totals {
		p.drawRun(run, len(steps), func(_ int, delay time.Duration) { totals[run] += delay })
	}
	slices.Sort(totals)
	return Span{
		Earliest: last.CumulativeEarliest,
		P5:       totals[previewRuns*5/100],
		Mean:     last.CumulativeMean,
		P95:      totals[previewRuns*95/100],
		Latest:   last.CumulativeLatest,
	}
}

// latest returns the greatest span of the ladder.
func (p *Policy) latest() time.Duration {
	var sum time.Duration
	for n := 1; n < p.Retry.MaxAttempts; n++ {
		_, high := p.interval(p.Ceiling(n))
		sum += high
	}
	return sum
}

// drawRun draws one run of waits. Runs are numbered, and the same number gives
// the same waits: a preview does not flicker.
func (p *Policy) drawRun(run, retries int, each func(i int, delay time.Duration)) {
	var prev time.Duration
	for i := range retries {
		prev, _ = p.Delay(i+1, prev, scatter(uint64(run)<<8|uint64(i)))
		each(i, prev)
	}
}

// scatter turns a counter into a number in [0,1) that looks random (splitmix64).
func scatter(x uint64) float64 {
	x = (x + 1) * 0x9e3779b97f4a7c15
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return float64((x^(x>>31))>>11) / (1 << 53)
}
