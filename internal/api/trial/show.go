package trial

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/sim"
)

// show is the result in the form of the API.
func show(r *sim.Result, in *Outage, until time.Duration) *view.Simulation {
	t := r.Trace
	down := t.Outages[0]
	v := &view.Simulation{
		Seed: r.Seed, Destination: cmp.Or(in.Destination, "queue"), Strategy: cmp.Or(in.Strategy, "law"), Capacity: t.Capacity,
		DownFrom: time.Duration(down.At).Seconds(), DownTo: time.Duration(down.At + down.For).Seconds(), Seconds: len(t.Arrivals),
		Arrivals: []int{}, Delivered: []float64{},
	}
	v.RunFigures, v.PeakAt = figures(r)
	length := len(t.Arrivals)
	if until > 0 {
		length = int(until.Seconds())
	}
	columns, step := t.Columns(maxPoints, length)
	v.StepSeconds = step
	for _, c := range columns {
		v.Arrivals = append(v.Arrivals, c.Arrivals)
		v.Delivered = append(v.Delivered, round(c.Delivered))
	}
	return v
}

// peakSeconds is how long after the recovery the peak is looked for.
const peakSeconds = 300

// round leaves four digits: more say nothing about a model.
func round(f float64) float64 { return math.Round(f*1e4) / 1e4 }

// known is nil for what never happened or could not be measured.
func known(m sim.Measure) *float64 {
	if !m.Known() {
		return nil
	}
	return new(round(float64(m)))
}

// figures are what came out of a run, and the second with the most arrivals.
func figures(r *sim.Result) (f view.RunFigures, peakAt int) {
	f = view.RunFigures{
		Events: r.Events, Backlog: r.Backlog, Recrashes: r.Crashes, Dead: int(math.Round(r.Dead * float64(r.Events))), Waste: round(r.Waste),
		DrainSeconds: known(r.DrainSeconds), DrainOverOptimum: known(r.Drain), LiveP99Seconds: known(r.LiveP99), DetectSeconds: known(r.Detect),
		MaxInFlight: r.InFlight,
	}
	t := r.Trace
	back := int(time.Duration(t.Outages[0].At + t.Outages[0].For).Seconds())
	peak := 0
	for second := back; second < min(back+peakSeconds, len(t.Arrivals)); second++ {
		if t.Arrivals[second] > peak {
			peak, peakAt = t.Arrivals[second], second
		}
	}
	f.PeakOverCapacity = round(float64(peak) / t.Capacity)
	return f, peakAt
}

// summarize adds what all runs have in common.
func summarize(v *view.Simulation, all []view.RunFigures) {
	for i := range all {
		if all[i].Recrashes > 0 {
			v.CrashedRuns++
		}
	}
	if v.Runs = len(all); v.Runs < 2 {
		return
	}
	v.Median = &view.RunFigures{
		Events:           median(all, func(f *view.RunFigures) int { return f.Events }),
		Backlog:          median(all, func(f *view.RunFigures) int { return f.Backlog }),
		PeakOverCapacity: median(all, func(f *view.RunFigures) float64 { return f.PeakOverCapacity }),
		Recrashes:        median(all, func(f *view.RunFigures) int { return f.Recrashes }),
		DrainSeconds:     medianOf(all, func(f *view.RunFigures) *float64 { return f.DrainSeconds }),
		DrainOverOptimum: medianOf(all, func(f *view.RunFigures) *float64 { return f.DrainOverOptimum }),
		Dead:             median(all, func(f *view.RunFigures) int { return f.Dead }),
		Waste:            median(all, func(f *view.RunFigures) float64 { return f.Waste }),
		LiveP99Seconds:   medianOf(all, func(f *view.RunFigures) *float64 { return f.LiveP99Seconds }),
		DetectSeconds:    medianOf(all, func(f *view.RunFigures) *float64 { return f.DetectSeconds }),
		MaxInFlight:      median(all, func(f *view.RunFigures) int { return f.MaxInFlight }),
	}
}

// median is the middle of a figure, of two the higher: most of them are better when
// they are low.
func median[T cmp.Ordered](all []view.RunFigures, of func(*view.RunFigures) T) T {
	values := make([]T, len(all))
	for i := range all {
		values[i] = of(&all[i])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// medianOf is that of a figure that may not be known, which is more than all else.
func medianOf(all []view.RunFigures, of func(*view.RunFigures) *float64) *float64 {
	m := median(all, func(f *view.RunFigures) float64 {
		if v := of(f); v != nil {
			return *v
		}
		return math.Inf(1)
	})
	if math.IsInf(m, 1) {
		return nil
	}
	return &m
}
