package chart

import (
	"html/template"
	"math"
	"strconv"
	"time"
)

// PaceStep is a stretch of a replay at one pace.
type PaceStep struct {
	After     time.Duration // from the start
	PerMinute float64
	Sent      float64 // by the end of the step
}

// ReplayPace is the expected course of a replay that has not begun.
type ReplayPace struct {
	Title, Sentence string
	Steps           []PaceStep
	End             time.Duration // when the last is sent
	Done, Condition string        // what stands beside the end: "done after 4 m 31 s", "if every minute is clean"
	Height          int           // 262 if 0
}

const maxSteps = 60

// HTML is the plot with its table.
func (p ReplayPace) HTML() template.HTML {
	steps := p.Steps[:min(len(p.Steps), maxSteps)]
	if p.Height <= 0 {
		p.Height = 262
	}
	start := time.Unix(0, 0).UTC()
	w := Window{From: start, To: start.Add(max(p.End+p.End/2, time.Minute)), Elapsed: true}
	f := newFrame(w, float64(p.Height), 60, false)
	f.room = form
	high, pace := 0.0, make([]float64, len(steps)+1)
	times := make([]time.Time, 0, len(pace))
	for i, s := range steps {
		pace[i] = positive(s.PerMinute)
		high = max(high, pace[i])
		times = append(times, start.Add(s.After))
	}
	f.y = newScale(Axis{Whole: true}, 0, high, f.h)
	f.above = 6
	f.yAxis()
	f.xAxis(true)
	if len(steps) > 0 {
		pace[len(steps)] = pace[len(steps)-1]
		times = append(times, start.Add(max(p.End, steps[len(steps)-1].After+time.Millisecond)))
		grid := cells(w, times, 0, maxPoints)
		f.areas([]Series{{Style: Plan, Step: true}}, grid, [][]float64{pick(grid, pace)})
		f.paceLabels(steps, p.End)
		f.end(w.at(times[len(times)-1]), pace[len(steps)], p.Done, p.Condition)
	}
	rows := make([][]string, 0, len(steps))
	for _, s := range steps {
		rows = append(rows, []string{strconv.FormatFloat(math.Round(s.After.Minutes()*10)/10, 'f', -1, 64), figure(s.PerMinute), figure(s.Sent)})
	}
	return f.html(p.Title, p.Sentence) + Table([]string{"minute", "per minute", "sent by its end"}, rows)
}

func pick(grid []cell, values []float64) []float64 {
	out := make([]float64, len(grid))
	for i, c := range grid {
		out[i] = c.mean(Series{Values: values})
	}
	return out
}

// paceLabels writes the rate above each step and the sum below it.
func (f *frame) paceLabels(steps []PaceStep, end time.Duration) {
	last := [3]float64{-1, 0, -100} // middle, width and height of the label before
	for i, s := range steps {
		until := end
		if i+1 < len(steps) {
			until = steps[i+1].After
		}
		from, to := f.w.at(f.w.From.Add(s.After)), f.w.at(f.w.From.Add(until))
		at, y := (from+to)/2, max(f.ypx(positive(s.PerMinute))-7, 9)
		pace := figure(s.PerMinute) + "/min"
		width := textWidth(pace) + 4
		if math.Abs(y-last[2]) >= 13 || (at-last[0])*f.room.phone >= (width+last[1])/2 {
			f.front.label("note mid strong halo", at, y, pace)
			last = [3]float64{at, width, y}
		}
		sent := figure(s.Sent) + " sent"
		if extra, ok := f.room.fit(textWidth(sent), to-from); ok && f.h-f.ypx(positive(s.PerMinute)) > 14 {
			f.front.label("note mid"+extra, at, f.h-5, sent)
		}
	}
}

// end is the vertical line where the last delivery is sent.
func (f *frame) end(at, level float64, done, condition string) {
	pen := path{m: &f.inner, class: "ln l-first thick"}
	pen.line([]point{{tenth(at * 1000), f.level(level)}, {tenth(at * 1000), tenth(f.h)}})
	pen.end()
	for i, s := range []string{done, condition} {
		class := literal("note strong")
		if i == 1 {
			class = "note"
		}
		if extra, ok := f.room.fit(textWidth(s)+8, 1-at); ok && s != "" {
			f.front.place("", at, f.h*.57+float64(i)*15)
			f.front.lit("<text")
			f.front.class(class + extra)
			f.front.lit(` x="8" y="0">`)
			f.front.text(s)
			f.front.lit("</text></svg>")
		}
	}
}

// Course is a running or ended replay: its pace, and below it the share of errors with the limit that pauses it.
type Course struct {
	Window                      Window // from before its start to after now
	Now                         time.Time
	Times                       []time.Time // when the pace changed
	PerMinute                   []float64
	Next                        float64 // the pace after now; NaN: none
	NextLabel                   string
	Pauses                      []Band
	ErrorTimes                  []time.Time
	ErrorBucket                 time.Duration
	ErrorPercent                []float64
	LimitPercent                float64
	LimitLabel, NowLabel        string
	PaceSentence, ErrorSentence string
}

// HTML is both plots and the table.
func (c Course) HTML() template.HTML {
	n := min(len(c.Times), len(c.PerMinute))
	times := append([]time.Time{}, c.Times[:n]...)
	pace := append([]float64{}, c.PerMinute[:n]...)
	if n > 0 && times[n-1].Before(c.Now) {
		times, pace = append(times, c.Now), append(pace, pace[n-1])
	}
	p := Plot{
		Title: "Pace, per minute", Sentence: c.PaceSentence, Window: c.Window, Height: 150, Y: Axis{Whole: true, Least: positive(c.Next)},
		Times: times, Areas: []Series{{Name: "per minute", Style: Pace, Values: pace, Step: true}}, Bands: c.Pauses, NoTimes: true,
	}
	e := Plot{
		Title: "Errors, percent of answers", Sentence: c.ErrorSentence, Window: c.Window, Height: 54, Y: Axis{Unit: Percent, Least: positive(c.LimitPercent)},
		Times: c.ErrorTimes, Bucket: c.ErrorBucket, Areas: []Series{{Name: "errors, %", Style: Errors, Values: c.ErrorPercent}}, Now: c.Now,
		Limits: []Threshold{{Value: c.LimitPercent, Style: Ceiling, Label: c.LimitLabel}},
	}
	for _, b := range c.Pauses {
		e.Bands = append(e.Bands, Band{From: b.From, To: b.To})
	}
	return c.pace(p) + e.Picture() + p.Data()
}

// pace draws the pace with what comes next.
func (c Course) pace(p Plot) template.HTML {
	p = p.bounded()
	f := newFrame(p.Window, float64(p.Height), 16, false)
	f.above = 6
	grid := cells(p.Window, p.Times, 0, maxPoints-1)
	sums := p.stack(grid)
	low, high := p.extent(grid, sums)
	f.y = newScale(p.Y, low, high, f.h)
	f.yAxis()
	f.xAxis(false)
	f.bands(p.Bands)
	f.areas(p.Areas, grid, sums)
	if !c.Window.holds(c.Now) {
		return f.html(p.Title, p.Sentence)
	}
	at := c.Window.at(c.Now)
	f.front.vertical("nowline", at, 0, f.h)
	if !math.IsNaN(number(c.Next)) && at < 1 {
		pen := path{m: &f.inner, class: "ln l-replay dash"}
		pen.line([]point{{tenth(at * 1000), f.level(positive(c.Next))}, {10000, f.level(positive(c.Next))}})
		pen.end()
	}
	for i, s := range []string{c.NowLabel, c.NextLabel} {
		class := literal("note strong")
		if i == 1 {
			class = "note"
		}
		if extra, ok := f.room.fit(textWidth(s)+8, 1-at); ok && s != "" {
			f.front.place("", at, 14+float64(i)*18)
			f.front.lit("<text")
			f.front.class(class + extra)
			f.front.lit(` x="8" y="0">`)
			f.front.text(s)
			f.front.lit("</text></svg>")
		}
	}
	return f.html(p.Title, p.Sentence)
}
