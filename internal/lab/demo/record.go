package demo

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Recording is what was shown, and when. It becomes a picture that moves.
type Recording struct {
	frames []frame
}

type frame struct {
	at    time.Duration
	lines []Line
}

// Add takes down what is shown from now on, if it is not too soon after what was taken
// down before.
func (r *Recording) Add(at time.Duration, lines []Line) {
	if n := len(r.frames); n == 0 || at-r.frames[n-1].at >= apart {
		r.frames = append(r.frames, frame{at, lines})
	}
}

// End takes down what is shown at the end.
func (r *Recording) End(at time.Duration, lines []Line) {
	r.frames = append(r.frames, frame{at, lines})
}

// The picture's measures, in pixels, and how it is played.
const (
	charWidth, lineHeight = 7.83, 18 // of a monospaced font of 13 px
	margin                = 16
	faster                = 3 // than it was
	apart                 = 900 * time.Millisecond
	lastFor               = 9 * time.Second // the end stays, as it was
)

// inks are the moods on a dark ground.
var inks = map[Mood]string{Plain: "#d7e0e6", Dim: "#8ba0ad", Strong: "#ffffff", Good: "#4fc3a1", Fair: "#e3b341", Bad: "#ff7b72"}

// still is a line as it stands for some time.
type still struct {
	from, to time.Duration
	line     Line
}

// WriteSVG writes the recording as an SVG that plays again and again without a script.
func (r *Recording) WriteSVG(w io.Writer) error {
	if len(r.frames) == 0 {
		return errors.New("nothing was recorded")
	}
	height := 0
	for _, f := range r.frames {
		height = max(height, len(f.lines))
	}
	last := r.frames[len(r.frames)-1].at/faster + lastFor
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" role="img" aria-label="A recording of breakwater demo">`,
		2*margin+charWidth*Width, 2*margin+lineHeight*height)
	b.WriteString(`<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre}g{visibility:hidden}`)
	for m := Plain; m <= Bad; m++ {
		fmt.Fprintf(&b, ".m%d{fill:%s}", m, inks[m])
	}
	b.WriteString(`.m2{font-weight:700}</style><rect width="100%" height="100%" rx="8" fill="#0f1a22"/>`)
	// All others begin when this one begins again.
	fmt.Fprintf(&b, `<rect width="0" height="0"><animate id="play" attributeName="x" from="0" to="0" begin="0s;play.end" dur="%s"/></rect>`, seconds(last))
	for i := range height {
		for _, s := range r.stills(i, last) {
			s.write(&b, i)
		}
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// stills are what a line shows, one after the other.
func (r *Recording) stills(i int, last time.Duration) []still {
	var out []still
	before := ""
	for n, f := range r.frames {
		var line Line
		if i < len(f.lines) {
			line = f.lines[i]
		}
		at := f.at / faster
		if n == 0 {
			at = 0
		}
		if text := fmt.Sprint(line); text != before || n == 0 {
			before = text
			if len(out) > 0 {
				out[len(out)-1].to = at
			}
			out = append(out, still{at, last, line})
		}
	}
	return out
}

func (s *still) write(b *strings.Builder, row int) {
	if len(s.line) == 0 {
		return
	}
	fmt.Fprintf(b, `<g><set attributeName="visibility" to="visible" begin="play.begin+%s" dur="%s"/><text x="%d" y="%d">`,
		seconds(s.from), seconds(s.to-s.from), margin, margin+lineHeight*row+13)
	for _, span := range s.line {
		fmt.Fprintf(b, `<tspan class="m%d">`, span.Mood)
		_ = xml.EscapeText(b, []byte(span.Text)) // a builder does not fail
		b.WriteString("</tspan>")
	}
	b.WriteString("</text></g>")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }
