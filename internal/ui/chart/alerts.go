package chart

import (
	"html/template"
	"time"
)

// Severity of an alert.
type Severity uint8

// The severities.
const (
	SeverityInfo Severity = iota
	SeverityWarning
	SeverityPage
)

// Firing is one time an alert fired; without an end it still does.
type Firing struct{ From, To time.Time }

// AlertLane is a rule with its firings.
type AlertLane struct {
	Rule     string
	Severity Severity
	Firings  []Firing
}

// AlertLanes are the alerts of a window, a lane per rule. It stands in an element of class swim.
type AlertLanes struct {
	Title, Sentence string
	Window          Window
	Lanes           []AlertLane
}

const (
	maxLanes   = 40
	maxFirings = 60
	laneHigh   = 24.0
)

// HTML is the picture.
func (a AlertLanes) HTML() template.HTML {
	lanes := a.Lanes[:min(len(a.Lanes), maxLanes)]
	f := newFrame(a.Window, 0, 0, false)
	f.h = max(float64(len(lanes)), 1) * laneHigh
	f.xAxis(true)
	for i, lane := range lanes {
		top := float64(i) * laneHigh
		f.back.horizontal("grid", top+laneHigh)
		f.front.lit(`<text class="y note" x="-10"`)
		f.front.num("y", top+16)
		f.front.lit(">")
		f.front.text(lane.Rule)
		f.front.lit("</text>")
		class := literal("f-held")
		switch lane.Severity {
		case SeverityPage:
			class = "f-bad"
		case SeverityWarning:
			class = "f-retry"
		case SeverityInfo:
		}
		for _, firing := range lane.Firings[max(len(lane.Firings)-maxFirings, 0):] {
			f.firing(firing, class, top)
		}
	}
	return f.html(a.Title, a.Sentence)
}

func (f *frame) firing(firing Firing, class literal, top float64) {
	const least = .0035 // an alert of a minute can be seen in a day
	still := firing.To.IsZero()
	to := firing.To
	if still {
		to = f.w.From.Add(f.w.length())
	}
	if to.Before(f.w.From) || firing.From.After(f.w.From.Add(f.w.length())) || to.Before(firing.From) {
		return
	}
	from, end := f.w.at(firing.From), f.w.at(to)
	from = min(from, 1-least)
	f.front.lit("<rect")
	f.front.class(class)
	f.front.span(from, max(end, from+least))
	f.front.num("y", top+7)
	f.front.lit(` height="10" rx="1"/>`)
	if still {
		f.front.lit(`<svg x="100%"`)
		f.front.num("y", top+12)
		f.front.lit(` overflow="visible"><path`)
		f.front.class(class)
		f.front.lit(` d="M2 -5L8 0L2 5z"/></svg>`)
	}
}
