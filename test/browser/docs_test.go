package browser_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
			eventually(t, "a link to a route opens it", func() bool {
				text := b.text("#create-endpoint")
				return strings.Contains(text, "tenant:write") && strings.Contains(text, "curl -sS")
			})
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
	eventually(t, "/ leads to the filter", func() bool {
		return get(b, "find the focus", chromedp.Evaluate[string](`document.activeElement.id`)) == "filter"
	})
	b.fill("#filter", "post Secret") // instead of the / that the protocol types all the same
	eventually(t, "the filter chooses", func() bool { n := len(shown()); return n > 0 && n < all })
	found := shown()
	for _, op := range found {
		if lower := strings.ToLower(op); !strings.Contains(lower, "post") || !strings.Contains(lower, "secret") {
			t.Errorf("%q is shown", op)
		}
	}
	if said := b.text("#found"); !strings.HasSuffix(said, " found") {
		t.Errorf("the page says %q", said)
	}
	b.click(`.nav a[href="#schemas"]`)
	eventually(t, "a link ends the filter", func() bool { return len(shown()) == all })
}

// eventually waits for what the page does in its own time.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so: %s", what)
		}
	}
}
