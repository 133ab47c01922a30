package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDocsUnfolded checks all that the page of the API hides at first: every route and
// every schema, open, for everybody and on narrow screens.
func TestDocsUnfolded(t *testing.T) {
	s := story(t)
	for _, on := range screens {
		t.Run(on.name, func(t *testing.T) {
			b := open(t, s.URL, on)
			b.visit("/docs#create-endpoint")
			if text := b.text("#create-endpoint"); !strings.Contains(text, "tenant:write") || !strings.Contains(text, "curl -sS") {
				t.Errorf("a link to a route does not open it: %q", text)
			}
			if dir := os.Getenv(envPictures); dir != "" {
				b.shoot(filepath.Join(dir, "docs-route-"+on.name+".png"))
			}
			b.do("unfold everything", chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(d => { d.open = true })`))
			b.checkAccess("/docs, unfolded")
			if on.phone {
				b.checkWidth("/docs, unfolded", 390, 320)
			}
		})
	}
}

// TestDocsAreFiltered: words choose routes and schemas, a link leads to what they hide.
func TestDocsAreFiltered(t *testing.T) {
	s := story(t)
	b := open(t, s.URL, desk)
	b.visit("/docs")
	shown := func() []string {
		t.Helper()
		return get(b, "read what is shown", chromedp.Evaluate[[]string](
			`[...document.querySelectorAll("[data-op]")].filter(e => e.getClientRects().length > 0).map(e => e.dataset.op)`))
	}
	all := len(shown())
	b.do("press /", chromedp.KeyEvent("/"))
	if at := get(b, "find the focus", chromedp.Evaluate[string](`document.activeElement.id`)); at != "filter" {
		t.Errorf("/ leads to %q", at)
	}
	b.fill("#filter", "post Secret") // instead of the / that the protocol types all the same
	found := shown()
	if len(found) == 0 || len(found) >= all || all < 200 {
		t.Errorf("%d of %d are shown: %q", len(found), all, found)
	}
	for _, op := range found {
		if lower := strings.ToLower(op); !strings.Contains(lower, "post") || !strings.Contains(lower, "secret") {
			t.Errorf("%q is shown", op)
		}
	}
	if said := b.text("#found"); !strings.HasSuffix(said, " found") {
		t.Errorf("the page says %q", said)
	}
	b.click(`.nav a[href="#schemas"]`)
	if n := len(shown()); n != all {
		t.Errorf("a link leads to a page with %d of %d", n, all)
	}
}
