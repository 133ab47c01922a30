package chart

import (
	"math"
	"strconv"
	"strings"
)

// Unit is what the labels of an axis and the values of a table say after the number.
type Unit uint8

// The units. Milliseconds turn into seconds from 1,000 on.
const (
	Plain Unit = iota
	Percent
	Milliseconds
)

// Axis is the vertical axis of a plot. The zero value is linear from 0 to a round number above the highest value.
type Axis struct {
	Log   bool
	Whole bool    // counts: no ticks between whole numbers
	Least float64 // the top is at least this: two charts with one scale, or a limit that must be seen
	Low   float64 // where a logarithmic axis begins; 0: at the round number below the lowest value
	Unit  Unit
}

// What can be labelled: higher values are drawn at the top, finer ones on the ground.
const most, finest = 1e15, 1e-3

type scale struct {
	log    bool
	lo, hi float64
	ticks  []float64
	unit   Unit
}

// pos is the height of v as a share, 0 to 1.
func (s scale) pos(v float64) float64 {
	if s.log {
		return share(math.Log(max(v, s.lo))-math.Log(s.lo), math.Log(s.hi)-math.Log(s.lo))
	}
	return share(v-s.lo, s.hi-s.lo)
}

func share(part, whole float64) float64 {
	if !(whole > 0) || math.IsNaN(part) {
		return 0
	}
	return min(max(part/whole, 0), 1)
}

// newScale fits an axis to values between low and high on a plot of that height.
func newScale(a Axis, low, high, height float64) scale {
	if a.Log {
		return logScale(a, low, high)
	}
	gaps := 4.0
	if height < 90 {
		gaps = 3
	}
	least := positive(a.Least)
	top := min(max(high, least), most)
	if !(top > 0) {
		top = 1
	}
	top = max(top, finest)
	want := 1.1 * top
	if least >= high && least == top {
		want = top // room above a given top would only be lost
	}
	step := stepFor(want, gaps)
	if a.Whole {
		step = max(step, 1)
	}
	s := scale{hi: step * max(math.Ceil(want/step-1e-9), 2), unit: a.Unit}
	for i := 0.0; i*step <= s.hi*(1+1e-9); i++ {
		s.ticks = append(s.ticks, i*step)
	}
	return s
}

// stepFor is the smallest of 1, 2, 5 times a power of ten that covers top in so many steps.
func stepFor(top, gaps float64) float64 {
	for exponent := math.Floor(math.Log10(top / gaps)); ; exponent++ {
		for _, m := range []float64{1, 2, 5} {
			if step := round125(m, exponent); math.Ceil(top/step-1e-9) <= gaps {
				return step
			}
		}
	}
}

// round125 avoids the dust of multiplying by negative powers of ten: 0.2, not 0.2000…1.
func round125(m, exponent float64) float64 {
	if exponent < 0 {
		return m / math.Pow10(int(-exponent))
	}
	return m * math.Pow10(int(exponent))
}

func logScale(a Axis, low, high float64) scale {
	high = min(max(high, positive(a.Least)), most)
	if !(high > 0) {
		high = 1
	}
	high = max(high, finest)
	s := scale{log: true, lo: positive(a.Low), unit: a.Unit}
	if s.lo = min(s.lo, most); s.lo < finest {
		if !(low > 0) {
			low = high
		}
		s.lo = roundBelow(min(max(low, finest), high))
	}
	s.hi = max(roundAbove(1.1*high), roundAbove(s.lo*5))
	for _, multiples := range [][]float64{{1, 2, 5}, {1}} {
		s.ticks = s.ticks[:0]
		for e := math.Floor(math.Log10(s.lo)); e <= math.Ceil(math.Log10(s.hi)); e++ {
			for _, m := range multiples {
				if v := round125(m, e); v >= s.lo*(1-1e-9) && v <= s.hi*(1+1e-9) {
					s.ticks = append(s.ticks, v)
				}
			}
		}
		if len(s.ticks) <= 5 {
			return s
		}
	}
	// Many decades: every second, third … of them.
	every := (len(s.ticks) + 4) / 5
	kept := s.ticks[:0]
	for i := 0; i < len(s.ticks); i += every {
		kept = append(kept, s.ticks[i])
	}
	s.ticks = kept
	return s
}

func roundAbove(v float64) float64 {
	e := math.Floor(math.Log10(v))
	for _, m := range []float64{1, 2, 5} {
		if t := round125(m, e); t >= v*(1-1e-9) {
			return t
		}
	}
	return round125(1, e+1)
}

func roundBelow(v float64) float64 {
	e := math.Floor(math.Log10(v))
	for _, m := range []float64{5, 2, 1} {
		if t := round125(m, e); t <= v*(1+1e-9) {
			return t
		}
	}
	return round125(5, e-1)
}

func (s scale) label(v float64) string {
	switch s.unit {
	case Percent:
		return short(v) + " %"
	case Milliseconds:
		if v >= 1000 {
			return short(v/1000) + " s"
		}
	case Plain:
	}
	return short(v)
}

// short is the number of a tick: 0.5, 250, 1k, 1.5k, 2M.
func short(v float64) string {
	for _, u := range []struct {
		from float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.from {
			return strconv.FormatFloat(math.Round(v/u.from*10)/10, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// figure is the number of a table or a legend: 4,012 or 3.4, and a dash where there is none.
func figure(v float64) string {
	switch v = number(v); {
	case math.IsNaN(v):
		return "–"
	case v != 0 && math.Abs(v) < 10:
		return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	}
	return thousands(strconv.FormatFloat(math.Round(min(max(v, -most), most)), 'f', 0, 64))
}

func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// number makes everything that is no number one thing.
func number(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// positive is v, or 0 if v is no number above it.
func positive(v float64) float64 {
	if v = number(v); v > 0 {
		return v
	}
	return 0
}
