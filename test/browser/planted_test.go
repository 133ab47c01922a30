package browser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// badPage has one of everything that the checks are for.
const badPage = `<!doctype html><meta name="viewport" content="width=device-width"><title>bad</title><style nonce="n">
.pale{color:#999;background:#fff} .big{font-size:24px;color:#888} .wash{color:#777;background:linear-gradient(#fff,#888)}
:focus{outline:none} .wide{width:900px}
</style>
<body><main><h1>One</h1><h3>Too deep</h3><h1>Two</h1>
<p class="pale">pale text</p><p class="big">large enough</p><p class="wash">on a gradient</p>
<input id="twice"><span id="twice"></span><a href="/x"></a><button aria-describedby="nobody">dull</button>
<svg width="9" height="9"></svg><svg role="img" width="9" height="9"></svg><svg width="90" height="20"><rect width="90" height="20" fill="#777"/><text x="2" y="14" fill="#888">painted</text></svg>
<img src="/pixel"><table><tr><td>1</td></tr></table><div class="wide">wide</div></main>
<script nonce="n">console.log("hello"); throw new Error("thrown")</script>
<script>document.title = "inline"</script>
<script nonce="n">fetch("http://192.0.2.1/").catch(() => {}); fetch("/broken").catch(() => {})</script>`

// What the checks do not find is not tested, however many pages they visit.
func TestChecksFindWhatIsWrong(t *testing.T) {
	needBrowser(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		case "/pixel":
			w.Header().Set("Content-Type", "image/svg+xml")
			fmt.Fprint(w, `<svg xmlns="http://www.w3.org/2000/svg"/>`)
		default:
			w.Header().Set("Content-Security-Policy", "script-src 'nonce-n'")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, badPage)
		}
	}))
	defer server.Close()
	// A test of its own takes what this one provokes.
	var b *tab
	quiet := func() []string { // returns and forgets what the browser told
		b.mu.Lock()
		defer b.mu.Unlock()
		out := b.troubles
		b.troubles = nil
		return out
	}
	b = open(t, server.URL, desk)
	b.do("visit", chromedp.Navigate(server.URL+"/"))
	var told string
	for _, want := range []string{
		`console.log: "hello"`, "exception: Uncaught", "Content Security Policy", "request to another host: http://192.0.2.1/", "/broken answered 500",
		"request failed",
	} {
		b.eventually("the browser tells: "+want, func() bool {
			b.mu.Lock()
			told += strings.Join(b.troubles, "\n")
			b.troubles = nil
			b.mu.Unlock()
			return strings.Contains(told, want)
		})
	}
	b.do("press a key", chromedp.KeyEvent("\t"))
	found := strings.Join(get(b, "check", chromedp.Evaluate[[]string](checkScript)), "\n")
	for _, want := range []string{
		`contrast 2.85 of "pale text"`, `of "on a gradient"`, `of "painted"`, "no label: input#twice", "no language", "2 h1", `"Too deep" is of level 3 after 1`,
		"id twice: twice", "nothing to read: a", "names nobody, which is not there", "neither hidden nor role=img", "picture without a name",
		"picture without alt", "table without headings", "focus does not show: button",
	} {
		if !strings.Contains(found, want) {
			t.Errorf("the check does not find %q", want)
		}
	}
	if strings.Contains(found, "large enough") {
		t.Error("large text needs 3:1 only")
	}
	if t.Failed() {
		t.Log(found)
	}
	b.show(screen{width: 390, height: 800, phone: true})
	if wide := get(b, "measure", chromedp.Evaluate[[]string](widthScript)); len(wide) == 0 {
		t.Error("a page of 900 px is not found to be too wide")
	}
	quiet()
}
