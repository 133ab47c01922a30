package static_test

import (
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/ui/static"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var comments = regexp.MustCompile(`(?s)/\*.*?\*/`)

func sheet(t *testing.T) string {
	t.Helper()
	return comments.ReplaceAllString(read(t, "style.css"), "")
}

// themes are the two halves of light-dark().
var themes = []string{"light", "dark"}

var token = regexp.MustCompile(`--([\w-]+):\s*light-dark\((#\w{6}), (#\w{6})\)`)

func tokens(t *testing.T) map[string][2]string {
	t.Helper()
	out := map[string][2]string{}
	for _, m := range token.FindAllStringSubmatch(sheet(t), -1) {
		out[m[1]] = [2]string{m[2], m[3]}
	}
	if len(out) < 30 {
		t.Fatalf("only %d colours were found", len(out))
	}
	return out
}

// luminance and contrast are those of WCAG 2.2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	linear := func(v uint64) float64 {
		c := float64(v&0xff) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(n>>16) + 0.7152*linear(n>>8) + 0.0722*linear(n)
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

const (
	forText  = 4.5 // WCAG 1.4.3
	forLines = 3.0 // WCAG 1.4.11
)

// pairs has what is drawn on what: each of the first on each of the others.
var pairs = []struct {
	on   []string
	what []string
	need float64
}{
	// Text of any rank on any surface, in rows under the pointer or selected, in tracks and menus.
	{[]string{"bg", "surface", "sunken", "raised", "hover", "accent-soft", "idle-soft"}, []string{"ink", "ink-2", "ink-3", "accent", "accent-hi"}, forText},
	// Banners have values and sentences in them, and links.
	{[]string{"bad-soft", "warn-soft", "ok-soft"}, []string{"ink", "ink-2", "accent", "accent-hi"}, forText},
	// Words of states: in badges, tiles, rows and on the page itself.
	{[]string{"bg", "surface", "sunken", "hover", "accent-soft"}, []string{"ok", "warn", "bad", "idle"}, forText},
	{[]string{"ok-soft"}, []string{"ok"}, forText},
	{[]string{"warn-soft"}, []string{"warn"}, forText},
	{[]string{"bad-soft"}, []string{"bad"}, forText},
	{[]string{"accent", "accent-hi"}, []string{"accent-ink"}, forText},
	{[]string{"bad"}, []string{"bad-ink"}, forText},
	{[]string{"ink"}, []string{"bg"}, forText},          // toasts
	{[]string{"sunken"}, []string{"s-replay"}, forText}, // numbers in code

	// Borders of inputs and axes, focus, and whatever shows a state by its shape.
	{[]string{"bg", "surface", "raised"}, []string{"line-strong", "accent", "ok", "warn", "bad", "idle"}, forLines},
	{[]string{"surface"}, []string{"s-first", "s-retry", "s-replay", "s-probe", "s-held", "s-ready", "s-rival"}, forLines},
	{[]string{"s-soft"}, []string{"s-first"}, forLines}, // the edge of a washed area
	{[]string{"sunken"}, []string{"s-first", "s-held"}, forLines},
}

// TestContrast: everybody can read it, in both themes.
func TestContrast(t *testing.T) {
	t.Parallel()
	colours := tokens(t)
	for i, theme := range themes {
		for _, p := range pairs {
			for _, on := range p.on {
				for _, what := range p.what {
					a, b := colours[what][i], colours[on][i]
					if a == "" || b == "" {
						t.Fatalf("%s or %s is no colour", what, on)
					}
					if c := contrast(t, a, b); c < p.need {
						t.Errorf("%s: %s on %s has %.2f, needs %.1f", theme, what, on, c, p.need)
					}
				}
			}
		}
	}
}

// TestSeriesDifferInLightness: series that lie on each other can be told apart
// without their hue, in print and by the colour-blind.
func TestSeriesDifferInLightness(t *testing.T) {
	t.Parallel()
	colours := tokens(t)
	for i, theme := range themes {
		for _, p := range [][2]string{{"s-first", "s-retry"}, {"s-retry", "s-replay"}, {"s-retry", "s-held"}, {"s-ready", "s-held"}, {"s-first", "s-held"}, {"s-soft", "s-retry"}} {
			if c := contrast(t, colours[p[0]][i], colours[p[1]][i]); c < 1.1 {
				t.Errorf("%s: %s and %s differ by %.2f only", theme, p[0], p[1], c)
			}
		}
	}
}

// TestContrastFormula: black on white is 21, a colour on itself 1, and a known
// grey is where WCAG says.
func TestContrastFormula(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]float64{{"#000000", "#ffffff"}: 21, {"#336699", "#336699"}: 1, {"#767676", "#ffffff"}: 4.54, {"#ff0000", "#ffffff"}: 4.0} {
		if got := contrast(t, pair[0], pair[1]); math.Abs(got-want) > 0.005 {
			t.Errorf("%v: %.3f, want %.2f", pair, got, want)
		}
	}
}

// dropped are classes of the design that need no rule.
var dropped = map[string]string{
	"fl": "a flag in a chart that stays on phones, where .xl leaves: nothing to set",
}

// TestEveryClassOfTheDesignHasARule: testdata/classes.txt has all classes that the
// design's pages use.
func TestEveryClassOfTheDesignHasARule(t *testing.T) {
	t.Parallel()
	text, _, found := strings.Cut(sheet(t), "@media (forced-colors") // what follows are exceptions only
	if !found {
		t.Fatal("nothing is said for forced colours")
	}
	ruled := map[string]bool{}
	for _, m := range regexp.MustCompile(`\.([a-zA-Z][\w-]*)`).FindAllStringSubmatch(text, -1) {
		ruled[m[1]] = true
	}
	designed := strings.Fields(read(t, "testdata/classes.txt"))
	if len(designed) < 150 {
		t.Fatalf("only %d classes", len(designed))
	}
	for _, class := range designed {
		if ruled[class] == (dropped[class] != "") {
			t.Errorf(".%s: a rule is %v, dropped because %q", class, ruled[class], dropped[class])
		}
	}
	for class := range dropped {
		if !slices.Contains(designed, class) {
			t.Errorf(".%s is dropped from what does not have it", class)
		}
	}
	for _, class := range []string{"ok", "warn", "bad", "sea"} { // what words ask for
		if !strings.Contains(text, "&."+class+" {") {
			t.Errorf("no badge is .%s", class)
		}
	}
}

// TestSheetAsksNobody: no other host, no font, nothing inline, and few bytes.
func TestSheetAsksNobody(t *testing.T) {
	t.Parallel()
	text := sheet(t)
	for _, no := range []string{"url(", "@import", "@font-face", "http:", "https:", "//", "expression(", "src("} {
		if strings.Contains(strings.ToLower(text), no) {
			t.Errorf("the sheet has %s", no)
		}
	}
	if size := len(read(t, "style.css")); size >= 60_000 {
		t.Errorf("the sheet has %d bytes", size)
	}
	if size := len(read(t, "icons.svg")); size >= 10_000 {
		t.Errorf("the icons have %d bytes", size)
	}
}

// TestSheetHoldsTogether: braces match, every variable is defined and every token
// used, colours are written in tokens only, and each audience has its rules.
func TestSheetHoldsTogether(t *testing.T) {
	t.Parallel()
	text := sheet(t)
	depth := 0
	for i, r := range text {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
		}
		if depth < 0 {
			t.Fatalf("a brace too many near %q", text[max(i-60, 0):i])
		}
	}
	if depth != 0 {
		t.Errorf("%d braces are not closed", depth)
	}

	find := func(pattern string) map[string]bool {
		out := map[string]bool{}
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			out[m[1]] = true
		}
		return out
	}
	defined, used := find(`[;{\s]--([\w-]+):`), find(`var\(--([\w-]+)[,)]`)
	for name := range used {
		if !defined[name] {
			t.Errorf("--%s is used and not defined", name)
		}
	}
	scale := regexp.MustCompile(`^(t-|s\d)`) // of type and space: complete, used or not
	for name := range defined {
		if !used[name] && !scale.MatchString(name) {
			t.Errorf("--%s is defined and not used", name)
		}
	}

	root := strings.Index(text, "[data-theme=light]")
	body := text[root:strings.Index(text, "@media print")]
	if m := regexp.MustCompile(`:[^;{}]*(#[0-9a-fA-F]{3,8}\b|rgba?\(|hsl)`).FindString(body); m != "" {
		t.Errorf("a colour outside the tokens: %q", m)
	}
	for _, media := range []string{
		"(prefers-reduced-motion: reduce)", "(forced-colors: active)", "print", "(prefers-contrast: more)",
		"(max-width: 75rem)", "(max-width: 56rem)", "(max-width: 36rem)", "(max-width: 22rem)",
	} {
		if !strings.Contains(text, "@media "+media) {
			t.Errorf("nothing is said for %s", media)
		}
	}
}

// symbols returns the ids of the sprite, after a look at everything in it.
func symbols(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	d := xml.NewDecoder(strings.NewReader(read(t, "icons.svg")))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		e, is := tok.(xml.StartElement)
		if !is {
			continue
		}
		if !slices.Contains([]string{"svg", "symbol", "path", "circle", "g"}, e.Name.Local) {
			t.Errorf("the sprite has <%s>", e.Name.Local)
		}
		for _, a := range e.Attr {
			switch {
			case e.Name.Local == "symbol" && a.Name.Local == "id":
				if out[a.Value] {
					t.Errorf("%s is there twice", a.Value)
				}
				out[a.Value] = true
			case (a.Name.Local == "fill" || a.Name.Local == "stroke") && a.Value != "none" && a.Value != "currentColor":
				t.Errorf("a colour of its own: %s", a.Value)
			case a.Name.Local == "style" || a.Name.Local == "href" || strings.HasPrefix(a.Name.Local, "on"):
				t.Errorf("the sprite has %s=%q", a.Name.Local, a.Value)
			}
		}
	}
}

// TestEveryIconIsInTheSprite: those of states, classes, severities and whatever
// else words ask for.
func TestEveryIconIsInTheSprite(t *testing.T) {
	t.Parallel()
	have := symbols(t)
	check := func(w words.Word) {
		if w.Icon == "" || !have[w.Icon] {
			t.Errorf("%q asks for the icon %q", w.API, w.Icon)
		}
	}
	for _, s := range words.States() {
		check(s.Badge())
	}
	for _, c := range []string{"success", "down", "throttle", "retry", "limited", "permanent", "local"} {
		check(words.ClassOf(c))
		if !have[c] {
			t.Errorf("the shape of %s is missing", c)
		}
	}
	for _, s := range []string{"page", "warning", "info"} {
		check(words.SeverityOf(s))
	}
	held, retrying := "held", "retrying"
	for _, w := range []words.Word{
		words.StatusOf("pending", nil), words.StatusOf("delivered", nil), words.StatusOf("dead", nil), words.StatusOf("cancelled", nil),
		words.StatusOf("pending", &held), words.StatusOf("pending", &retrying),
		words.ReplayStatusOf("queued"), words.ReplayStatusOf("running"), words.ReplayStatusOf("paused"), words.ReplayStatusOf("done"), words.ReplayStatusOf("cancelled"),
		words.AlertStatusOf("firing"), words.AlertStatusOf("resolved"), words.OperationalOf("breaker.opened"), words.OperationalOf("endpoint.failing"),
	} {
		check(w)
	}
	for _, control := range []string{"copy", "close", "more", "back", "next", "out", "search", "mark", "due", "probe"} {
		if !have[control] {
			t.Errorf("%s is missing", control)
		}
	}
}

// TestSheetOfDocsUsesTheTokens: it has no colour and no host of its own, and no variable
// that the sheet does not have.
func TestSheetOfDocsUsesTheTokens(t *testing.T) {
	t.Parallel()
	text := comments.ReplaceAllString(read(t, "docs.css"), "")
	if m := regexp.MustCompile(`#[0-9a-fA-F]{3,8}\b|rgb|hsl|url\(|@import|https?:`).FindString(text); m != "" {
		t.Errorf("the sheet has %s", m)
	}
	for _, m := range regexp.MustCompile(`var\((--[\w-]+)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(sheet(t), m[1]+":") {
			t.Errorf("%s is not defined", m[1])
		}
	}
	if strings.Count(text, "{") != strings.Count(text, "}") {
		t.Error("braces do not match")
	}
}

// TestNamesCarryTheHash: a file is found under its name with the hash only.
func TestNamesCarryTheHash(t *testing.T) {
	t.Parallel()
	names := static.Names()
	var hashed []string
	for _, file := range []string{"style.css", "docs.css", "icons.svg", "mark.svg", "app.js", "docs.js"} {
		name := static.Name(file)
		base, ext, _ := strings.Cut(file, ".")
		if !regexp.MustCompile(`^`+base+`\.[0-9a-f]{12}\.`+ext+`$`).MatchString(name) || names[file] != name {
			t.Errorf("%s is named %s and %s", file, name, names[file])
		}
		content, err := fs.ReadFile(static.FS(), name)
		if err != nil || string(content) != read(t, file) {
			t.Errorf("%s has %d bytes, %v", name, len(content), err)
		}
		hashed = append(hashed, name)
	}
	if len(names) != len(hashed) {
		t.Errorf("there are %v", names)
	}
	for _, name := range []string{"style.css", "style.000000000000.css", "embed.go", "../embed.go", ".", ""} {
		if f, err := static.FS().Open(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is there: %v, %v", name, f, err)
		}
	}
	if got := static.Name("moon.css"); got != "moon.css" {
		t.Errorf("what is not there is named %s", got)
	}
}
