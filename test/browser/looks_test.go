package browser_test

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// TestPagesForOtherEyes looks at every page with the colours of the system, twice as
// large, and for people who want nothing to move.
func TestPagesForOtherEyes(t *testing.T) {
	s := story(t)
	both := openBoth(t, s, desk)
	twice := screen{name: "twice as large", width: desk.width / 2, height: desk.height / 2}
	for _, v := range views {
		t.Run(v.name, func(t *testing.T) {
			b := both.of(&v).in(t)
			path := v.at(s.Places)
			b.show(twice)
			b.visitAs(path, v.want())
			if wide := get(b, "measure the page", chromedp.Evaluate[[]string](widthScript)); len(wide) > 0 {
				t.Errorf("%s scrolls sideways at 200 %%: %q", path, wide)
			}
			// The emulation of a screen says that nothing shall move.
			if n := get(b, "count what moves", chromedp.Evaluate[int](movesScript)); n > 0 {
				t.Errorf("%s: %d things move", path, n)
			}
			b.show(desk)
			b.do("use the colours of the system", command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "forced-colors", Value: "active"}, {Name: "prefers-reduced-motion", Value: "reduce"},
			}}))
			b.checkAccess(path + " with the colours of the system")
		})
	}
}

// movesScript counts what moves for longer than a moment.
const movesScript = `document.getAnimations().filter(a => a.playState === "running" && a.effect.getComputedTiming().endTime > 100).length`
