package browser_test

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed check.js
var checkScript string

// maxFirstLoad bounds what a page and all that it needs weigh on the wire.
const maxFirstLoad = 100_000

// checkAccess checks that everybody can read and use the page that the tab shows.
func (b *tab) checkAccess(where string) {
	b.t.Helper()
	// After a key was pressed the browser shows where the focus is.
	b.do("press a key", chromedp.KeyEvent(kb.Tab))
	wrong := get(b, "check the page", chromedp.Evaluate[[]string](checkScript))
	if len(wrong) > 0 {
		b.t.Errorf("%s:\n\t%s", where, strings.Join(wrong, "\n\t"))
	}
	b.calm(where)
}

// checkWidth checks that the page does not scroll sideways on narrow screens.
func (b *tab) checkWidth(where string, widths ...int) {
	b.t.Helper()
	for _, width := range widths {
		s := phone
		s.width = width
		b.show(s)
		wide := get(b, "measure the page", chromedp.Evaluate[[]string](widthScript))
		if len(wide) > 0 {
			b.t.Errorf("%s scrolls sideways at %d px:\n\t%s", where, width, strings.Join(wide, "\n\t"))
		}
	}
}

// widthScript returns what is wider than the screen, if the page is.
const widthScript = `(() => {
	const page = document.scrollingElement, room = page.clientWidth // a phone zooms out, innerWidth with it
	if (page.scrollWidth <= room) return []
	const out = ["the page is " + page.scrollWidth + " px wide"]
	for (const el of document.body.querySelectorAll("*")) {
		const r = el.getBoundingClientRect()
		if (r.right <= room + 0.5 || out.length > 8) continue
		let scrolls = false // with a box around it that cuts it off, unless it is placed by one further up
		const free = getComputedStyle(el).position === "absolute"
		for (let e = el.parentElement; e && e !== document.body; e = e.parentElement) {
			const s = getComputedStyle(e)
			scrolls ||= s.overflowX !== "visible" && (!free || s.position !== "static")
		}
		if (!scrolls) out.push(el.tagName.toLowerCase() + "." + (el.getAttribute("class") ?? "") + " ends at " + Math.round(r.right))
	}
	return out
})()`

// checkFirstLoad checks what a page weighs for somebody who was never here.
func (b *tab) checkFirstLoad(path string, status int64) {
	b.t.Helper()
	b.do("forget the cache", command(network.ClearBrowserCache, cdp.Empty{}), command(network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}))
	b.visitAs(path, status)
	weight := b.settle()
	if weight == 0 || weight > maxFirstLoad {
		b.t.Errorf("%s: the first load is %s, want at most %s", path, kilobytes(weight), kilobytes(maxFirstLoad))
	}
}

func kilobytes(n int64) string { return fmt.Sprintf("%.1f kB", float64(n)/1000) }
