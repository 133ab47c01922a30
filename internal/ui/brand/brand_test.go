package brand_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/ui/brand"
)

var token = regexp.MustCompile(`--([\w-]+):\s*light-dark\((#\w{6}), (#\w{6})\)`)

func tokens(sheet string) map[string][2]string {
	out := map[string][2]string{}
	for _, m := range token.FindAllStringSubmatch(sheet, -1) {
		out[m[1]] = [2]string{m[2], m[3]}
	}
	return out
}

// TestAnyColourKeepsItsContrast: the tokens of the dashboard with those of a vendor in
// their place pass what the dashboard's own must pass.
func TestAnyColourKeepsItsContrast(t *testing.T) {
	t.Parallel()
	sheet, err := os.ReadFile("../static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	dashboard := tokens(string(sheet))
	check := func(t interface {
		Errorf(string, ...any)
		Fatalf(string, ...any)
	}, color string,
	) {
		all := maps.Clone(dashboard)
		own := tokens(brand.Sheet(color))
		if len(own) != 4 {
			t.Fatalf("%s makes %v", color, own)
		}
		maps.Copy(all, own)
		for theme := range 2 {
			for what, on := range map[string][]string{
				"accent":      {"bg", "surface", "sunken", "raised", "hover", "accent-soft", "idle-soft", "bad-soft", "warn-soft", "ok-soft", "accent-ink"},
				"accent-hi":   {"bg", "surface", "sunken", "raised", "hover", "accent-soft", "idle-soft", "bad-soft", "warn-soft", "ok-soft", "accent-ink"},
				"accent-soft": {"ink", "ink-2", "ink-3", "ok", "warn", "bad", "idle"},
			} {
				for _, other := range on {
					if c := brand.Contrast(all[what][theme], all[other][theme]); c < 4.5 {
						t.Errorf("%s, theme %d: %s and %s have %.2f", color, theme, what, other, c)
					}
				}
			}
		}
	}
	for _, color := range []string{"#000000", "#ffffff", "#ff0000", "#00ff00", "#0000ff", "#ffff00", "#1f6feb", "#777777", "#FF8800"} {
		check(t, color)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, fmt.Sprintf("#%06x", rapid.IntRange(0, 0xffffff).Draw(t, "colour")))
	})
}

// TestAGoodColourStays: what can be read is not changed.
func TestAGoodColourStays(t *testing.T) {
	t.Parallel()
	if got := tokens(brand.Sheet("#0a4f7f"))["accent"][0]; got != "#0a4f7f" {
		t.Errorf("the accent is %s", got)
	}
}

func TestWhatIsNoColourMakesNoSheet(t *testing.T) {
	t.Parallel()
	for _, color := range []string{"", "red", "#fff", "#12345g", "#123456;}", "#1234567"} {
		if got := brand.Sheet(color); got != "" {
			t.Errorf("%q makes %s", color, got)
		}
	}
	if strings.ContainsAny(strings.ReplaceAll(brand.Sheet("#1f6feb"), "light-dark(", ""), "<\\@") {
		t.Error("the sheet has more than colours")
	}
}
