package site

import (
	"embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

//go:embed templates/*.html
var templateFiles embed.FS

// readTemplates reads the frame and the templates of all sections. They share one
// set: the names of blocks begin with that of their section.
func readTemplates(assets Assets, sections []Section) (*template.Template, error) {
	icon := func(name string) template.HTML { return sprite(assets, name) }
	t := template.New("").Funcs(template.FuncMap{
		"asset": assets.Path, "icon": icon, "defs": chart.Defs,
		"badge": func(w words.Word) template.HTML { return badge(icon, w) },
		"text":  text, "time": moment, "age": age, "in": in,
		"num": number, "short": short, "size": size, "pct": words.Percent, "share": words.Share, "rate": words.Rate,
		"latency": words.LatencyOr, "duration": words.Duration, "url": words.OfURL, "either": either, "dict": dict, "lower": strings.ToLower, "spaced": spaced, "clock": clock, "answer": outcome, "join": strings.Join,
	})
	t, err := t.ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("ui: read templates: %w", err)
	}
	for _, s := range sections {
		if s.Templates == nil {
			continue
		}
		if t, err = t.ParseFS(s.Templates, "*.html"); err != nil {
			return nil, fmt.Errorf("ui: read templates: %w", err)
		}
	}
	return t, nil
}

// sprite is a sign in the colour of the text beside it.
func sprite(assets Assets, name string) template.HTML {
	if name == "" {
		return ""
	}
	return template.HTML(`<svg class="i" width="12" height="12" aria-hidden="true"><use href="` + //nolint:gosec // both parts are escaped
		template.HTMLEscapeString(assets.Path("icons.svg")+"#"+name) + `"/></svg>`)
}

// badge is the sign and the word of a state; the title has what it means.
func badge(icon func(string) template.HTML, w words.Word) template.HTML {
	e := template.HTMLEscapeString
	title := w.Meaning
	if w.API != "" {
		title = strings.TrimPrefix(w.API+": "+w.Meaning, ": ")
	}
	return template.HTML(`<span class="badge `+e(w.Class)+`" title="`+e(title)+`">`) + icon(w.Icon) + //nolint:gosec // escaped
		template.HTML(e(w.Word)+`</span>`) //nolint:gosec // escaped
}

// text is a sentence with what is strong, code or a moment set so.
func text(t words.Text) template.HTML {
	var b strings.Builder
	e := template.HTMLEscapeString
	for _, p := range t {
		switch p.Style {
		case words.Strong:
			b.WriteString("<strong>" + e(p.Text) + "</strong>")
		case words.Code:
			b.WriteString("<code>" + e(p.Text) + "</code>")
		case words.Moved, words.Counts, words.Grows:
			b.WriteString(timeTag(p.At, string(p.Style), p.Text))
		default:
			b.WriteString(e(p.Text))
		}
	}
	return template.HTML(b.String()) //nolint:gosec // every part is escaped
}

// timeTag is a moment that the module may keep counting.
func timeTag(t time.Time, style, text string) string {
	count := ""
	if style == string(words.Counts) || style == string(words.Grows) || style == "ago" {
		count = ` data-count="` + style + `"`
	}
	return `<time datetime="` + t.UTC().Format(time.RFC3339Nano) + `" title="` + words.Moment(t) + `"` + count + `>` + template.HTMLEscapeString(text) + `</time>`
}

// stamp takes the times that templates have.
func stamp(t any) time.Time {
	switch t := t.(type) {
	case time.Time:
		return t
	case view.Stamp:
		return time.Time(t)
	case *view.Stamp:
		if t != nil {
			return time.Time(*t)
		}
	}
	return time.Time{}
}

// moment is when something was; age and in are how far from now.
func moment(t any, now time.Time) template.HTML {
	return tag(stamp(t), "", words.Clock(stamp(t), now))
}

func age(t any, now time.Time) template.HTML {
	return tag(stamp(t), "ago", words.Age(stamp(t), now))
}

func in(t any, now time.Time) template.HTML {
	return tag(stamp(t), string(words.Counts), words.In(stamp(t), now))
}

func tag(t time.Time, style, text string) template.HTML {
	if t.IsZero() {
		return words.None
	}
	return template.HTML(timeTag(t, style, text)) //nolint:gosec // escaped
}

func number(n any) string { return whole(n, words.Number[int64]) }
func short(n any) string  { return whole(n, words.Short[int64]) }
func size(n any) string   { return whole(n, words.Size[int64]) }

// whole writes any kind of whole number, and one that may not be known.
func whole(n any, write func(int64) string) string {
	switch n := n.(type) {
	case int:
		return write(int64(n))
	case int32:
		return write(int64(n))
	case int64:
		return write(n)
	case uint64:
		return write(int64(min(n, 1<<62)))
	case *int:
		if n != nil {
			return write(int64(*n))
		}
	case *int64:
		if n != nil {
			return write(*n)
		}
	}
	return words.None
}

// spaced writes a window as people do: 24h is 24 h.
func spaced(window string) string {
	for i, r := range window {
		if r < '0' || r > '9' {
			return window[:i] + "\u00a0" + window[i:]
		}
	}
	return window
}

// clock is the time of day, in UTC.
func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) }

// ClassOf is the sign of what an answer means.
func ClassOf(class string) chart.Class {
	if c, known := classes[class]; known {
		return c
	}
	return chart.Local
}

var classes = map[string]chart.Class{
	"success": chart.Success, "down": chart.Down, "retry": chart.Retryable, "throttle": chart.Throttle,
	"permanent": chart.Permanent, "limited": chart.Limited, "local": chart.Local,
}

// outcome is how an attempt ended: its sign, and its status or reason.
func outcome(class string, status *int, reason string) template.HTML {
	return chart.Answer(ClassOf(class), words.Answer(status, reason))
}

// either returns a text, or another where there is none.
func either(text, other any) any {
	switch t := text.(type) {
	case string:
		if t == "" {
			return other
		}
	case *string:
		if t == nil || *t == "" {
			return other
		}
		return *t
	case nil:
		return other
	}
	return text
}

// dict gathers what a block needs.
func dict(pairs ...any) map[string]any {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}
