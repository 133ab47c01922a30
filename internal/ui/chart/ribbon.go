package chart

import (
	"html/template"
	"time"
)

// GateSpan is a stretch of time in which a gate was in one state.
type GateSpan struct {
	From, To time.Time
	State    State
	Label    string // such as "holding, 22 m 05 s"
}

// Ribbon is the strip over the charts of an endpoint: green delivering, red hatch holding, amber hatch told to
// wait, grey paused. Where no span is, nothing is known.
type Ribbon struct {
	Title, Sentence string
	Window          Window
	Spans           []GateSpan
}

const maxSpans = 120

// HTML is the ribbon.
func (r Ribbon) HTML() template.HTML {
	f := newFrame(r.Window, 22, 22, false)
	spans := r.Spans
	if len(spans) > maxSpans {
		spans = spans[len(spans)-maxSpans:]
	}
	for _, s := range spans {
		if !s.To.After(s.From) || !s.To.After(r.Window.From) || !s.From.Before(r.Window.To) {
			continue
		}
		from, to := r.Window.at(s.From), r.Window.at(s.To)
		wash, hatch := literal("f-ok f-wash"), literal("")
		switch s.State {
		case Holding, Probing, RetryStorm:
			wash, hatch = "band", "url(#hatch)"
		case ToldToWait, QueueGrowing, Warning:
			wash, hatch = "f-warn f-wash", "url(#hatch-warn)"
		case Paused, Disabled:
			wash, hatch = "f-line", "url(#hatch-idle)"
		default: // deliveries pass
		}
		f.block(from, to, wash, "")
		if hatch != "" {
			f.block(from, to, "", hatch)
		}
		f.ribbonLabel(s.Label, from, to, hatch != "")
	}
	return f.html(r.Title, r.Sentence)
}

func (f *frame) block(from, to float64, class, fill literal) {
	f.back.lit("<rect")
	if class != "" {
		f.back.class(class)
	}
	f.back.span(from, max(to, min(from+.001, 1)))
	f.back.lit(` y="4" height="14"`)
	if fill != "" {
		f.back.lit(` fill="`, fill, `"`)
	}
	f.back.lit("/>")
}

// ribbonLabel writes on a plate where there is a hatch, else at the left end.
func (f *frame) ribbonLabel(label string, from, to float64, plate bool) {
	width := textWidth(label)
	extra, ok := f.room.fit(width+16, to-from)
	if label == "" || !ok {
		return
	}
	if !plate {
		f.front.place(extra, from, 15)
		f.front.lit(`<text class="note" x="6" y="0">`)
	} else {
		f.front.place(extra, (from+to)/2, 15)
		f.front.lit(`<rect class="f-surface" y="-11" height="15" rx="2"`)
		f.front.num("x", -width/2-6)
		f.front.num("width", width+12)
		f.front.lit(`/><text class="note strong mid" x="0" y="0">`)
	}
	f.front.text(label)
	f.front.lit("</text></svg>")
}
