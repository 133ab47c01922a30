// Package brand makes the colours of a portal from the one that its vendor has: every
// text keeps its contrast on every surface, whatever the colour is.
//
// It is pure: a colour goes in, a style sheet comes out. The surfaces are those of the
// dashboard's own sheet.
package brand

import (
	"fmt"
	"math"
	"strconv"
)

// Surfaces of the dashboard on which the accent is drawn, by theme: page, panel,
// track, menu, row under the pointer, calm, and the three of banners.
var surfaces = [2][]string{
	{"#f3f6f7", "#ffffff", "#edf2f4", "#ffffff", "#f6f9fa", "#edf2f4", "#fcebe9", "#fbf1da", "#e3f3ea"},
	{"#0a1217", "#0f1a21", "#0b151b", "#14232c", "#12202a", "#16242d", "#351a19", "#2e2410", "#0f2b1f"},
}

const (
	enough = 4.6 // WCAG 1.4.3 asks for 4.5
	// washed is how much of the colour is in what is selected.
	washed = 0.08
)

// Sheet returns the style sheet of a colour such as #1f6feb; empty for what is none.
func Sheet(color string) string {
	c, ok := parse(color)
	if !ok {
		return ""
	}
	var accent, strong, ink, soft [2]rgb
	for theme, paper := range []rgb{{1, 1, 1}, {15.0 / 255, 26.0 / 255, 33.0 / 255}} {
		away := rgb{} // what makes it stand out
		ink[theme] = rgb{1, 1, 1}
		if theme == 1 {
			away, ink[theme] = rgb{1, 1, 1}, rgb{4.0 / 255, 20.0 / 255, 28.0 / 255}
		}
		soft[theme] = mix(paper, c, washed).round()
		on := []rgb{soft[theme]}
		for _, s := range surfaces[theme] {
			surface, _ := parse(s)
			on = append(on, surface)
		}
		accent[theme] = readable(c, away, on, ink[theme])
		strong[theme] = mix(accent[theme], away, 0.25).round()
	}
	pair := func(of [2]rgb) string { return "light-dark(" + of[0].hex() + ", " + of[1].hex() + ")" }
	return ":root {\n  --accent: " + pair(accent) + ";\n  --accent-hi: " + pair(strong) + ";\n  --accent-ink: " + pair(ink) +
		";\n  --accent-soft: " + pair(soft) + ";\n}\n"
}

// readable moves a colour away from the surfaces until it can be read on all of them,
// and its ink on it.
func readable(c, away rgb, on []rgb, ink rgb) rgb {
	const steps = 50
	for i := range steps {
		got := mix(c, away, float64(i)/steps).round()
		worst := Contrast(got.hex(), ink.hex())
		for _, s := range on {
			worst = min(worst, contrast(got, s))
		}
		if worst >= enough {
			return got
		}
	}
	return away
}

// rgb is a colour, each part from 0 to 1.
type rgb struct{ r, g, b float64 }

func parse(hex string) (rgb, bool) {
	if len(hex) != 7 || hex[0] != '#' {
		return rgb{}, false
	}
	n, err := strconv.ParseUint(hex[1:], 16, 32)
	if err != nil {
		return rgb{}, false
	}
	return rgb{float64(n>>16&0xff) / 255, float64(n>>8&0xff) / 255, float64(n&0xff) / 255}, true
}

// round is the colour as it will be written.
func (c rgb) round() rgb {
	r, _ := parse(c.hex())
	return r
}

func (c rgb) hex() string {
	part := func(v float64) int { return int(math.Round(min(max(v, 0), 1) * 255)) }
	return fmt.Sprintf("#%02x%02x%02x", part(c.r), part(c.g), part(c.b))
}

// mix is a with a share of b.
func mix(a, b rgb, share float64) rgb {
	of := func(x, y float64) float64 { return x + (y-x)*share }
	return rgb{of(a.r, b.r), of(a.g, b.g), of(a.b, b.b)}
}

// Contrast is that of WCAG 2.2 of two colours: 1 to 21, 0 for what is no colour.
func Contrast(a, b string) float64 {
	x, ok := parse(a)
	y, also := parse(b)
	if !ok || !also {
		return 0
	}
	return contrast(x, y)
}

func contrast(a, b rgb) float64 {
	x, y := a.luminance(), b.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func (c rgb) luminance() float64 {
	linear := func(v float64) float64 {
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.r) + 0.7152*linear(c.g) + 0.0722*linear(c.b)
}
