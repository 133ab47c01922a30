package browser_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience ends a wait for something that does not come, on a slow machine too.
const patience = 2 * time.Minute

// tab is a tab of the browser, with cookies of its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // of the server

	mu       sync.Mutex
	troubles []string
	requests map[network.RequestID]*request
	bytes    int64 // that came over the wire since the last visit
	status   int64 // of the last document
	main     network.RequestID
	expect   int64 // status of a document that is no trouble, 0: 200
}

type request struct {
	url    string
	stream bool
}

// open opens a tab that shows a server on a screen. It closes with the test.
func open(t *testing.T, base string, s screen) *tab {
	t.Helper()
	needBrowser(t)
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base, requests: map[network.RequestID]*request{}}
	chromedp.ListenTarget(ctx, b.hear)
	b.do("open a tab", network.Enable(), log.Enable(), runtime.Enable(), page.Enable())
	b.show(s)
	return b
}

// show changes the screen.
func (b *tab) show(s screen) {
	b.t.Helper()
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	b.do("set the screen",
		emulation.SetDeviceMetricsOverride(int64(s.width), int64(s.height), 1, s.phone),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}))
}

// withoutScript switches JavaScript off.
func (b *tab) withoutScript() {
	b.t.Helper()
	b.do("switch JavaScript off", emulation.SetScriptExecutionDisabled(true))
}

// hear takes down what the browser tells.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		words := make([]string, len(e.Args))
		for i, a := range e.Args {
			words[i] = strings.Trim(string(a.Value), `"`) + a.Description
		}
		b.trouble("console.%s: %s", e.Type, strings.Join(words, " "))
	case *runtime.EventExceptionThrown:
		b.trouble("exception: %s", e.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		b.entry(e.Entry)
	case *network.EventRequestWillBeSent:
		b.sent(e)
	case *network.EventResponseReceived:
		if e.Response.Status >= 500 && e.Response.Status != b.expect {
			b.trouble("%s answered %d", e.Response.URL, e.Response.Status)
		}
		if e.RequestID == b.main {
			b.status = e.Response.Status
		}
	case *network.EventLoadingFinished:
		b.bytes += int64(e.EncodedDataLength)
	case *network.EventLoadingFailed:
		r := b.requests[e.RequestID]
		if e.Canceled && r != nil && r.stream {
			return // the page was left
		}
		b.trouble("request failed: %v, %s", r, e.ErrorText)
	}
}

// entry judges an entry of the console.
func (b *tab) entry(e *log.Entry) {
	// That a page is no 200 is said there too, and may be what a test is about.
	if e.Source == log.SourceNetwork && b.expect != 0 && strings.Contains(e.Text, fmt.Sprintf("status of %d ", b.expect)) {
		return
	}
	b.trouble("console, %s: %s %s", e.Source, e.Text, e.URL)
}

func (b *tab) sent(e *network.EventRequestWillBeSent) {
	b.requests[e.RequestID] = &request{url: e.Request.URL, stream: e.Type == network.ResourceTypeEventSource || e.Type == network.ResourceTypeFetch}
	if e.Type == network.ResourceTypeDocument {
		b.main = e.RequestID
	}
	u, err := url.Parse(e.Request.URL)
	if err == nil && (u.Scheme == "data" || strings.HasPrefix(e.Request.URL, b.base+"/")) || e.Request.URL == b.base {
		return
	}
	b.trouble("request to another host: %s", e.Request.URL)
}

func (b *tab) trouble(format string, args ...any) {
	b.troubles = append(b.troubles, fmt.Sprintf(format, args...))
}

// calm fails the test if there was trouble since it was asked last.
func (b *tab) calm(where string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.troubles) > 0 {
		slices.Sort(b.troubles)
		b.t.Errorf("%s: the browser complains:\n\t%s", where, strings.Join(slices.Compact(b.troubles), "\n\t"))
		b.troubles = nil
	}
}

// do runs actions and fails the test when they do.
func (b *tab) do(what string, actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// visit opens a page that must be there.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.visitAs(path, 200)
}

// visitAs opens a page that answers with a status.
func (b *tab) visitAs(path string, status int64) {
	b.t.Helper()
	b.mu.Lock()
	b.bytes, b.status, b.expect = 0, 0, status
	b.mu.Unlock()
	b.do("visit "+path, chromedp.Navigate(b.base+path))
	b.mu.Lock()
	got := b.status
	b.mu.Unlock()
	if got != status {
		b.t.Errorf("%s answered %d, want %d; it shows %q", path, got, status, b.text("body"))
	}
	b.calm(path)
}

// submit does something that leads to another page and waits until that is there,
// whatever its status.
func (b *tab) submit(what string, status int64, action chromedp.Action) {
	b.t.Helper()
	b.mu.Lock()
	b.bytes, b.status, b.expect = 0, 0, status
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, action); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	b.mu.Lock()
	got := b.status
	b.mu.Unlock()
	if got != status {
		b.t.Errorf("%s: answer %d, want %d; the page shows %q", what, got, status, b.text("body"))
	}
	b.calm(what)
}

// follow clicks what leads to another page.
func (b *tab) follow(selector string) {
	b.t.Helper()
	b.submit("click "+selector, 200, chromedp.Click(selector, chromedp.ByQuery))
}

// click clicks what changes the page.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.do("click "+selector, chromedp.Click(selector, chromedp.ByQuery))
	b.calm("click " + selector)
}

// fill puts a text into a field.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do("fill "+selector, chromedp.SetValue(selector, "", chromedp.ByQuery), chromedp.SendKeys(selector, text, chromedp.ByQuery))
}

// text returns what is to be read in an element.
func (b *tab) text(selector string) string {
	b.t.Helper()
	var out string
	b.do("read "+selector, chromedp.Text(selector, &out, chromedp.ByQuery))
	return strings.Join(strings.Fields(out), " ")
}

// path returns where the tab is, with its query.
func (b *tab) path() string {
	b.t.Helper()
	var at string
	b.do("read the address", chromedp.Location(&at))
	return strings.TrimPrefix(at, b.base)
}

// evaluate runs JavaScript of ours in the page and reads its result. The policy of the
// page does not apply to it.
func (b *tab) evaluate(what, script string, out any) {
	b.t.Helper()
	b.do(what, chromedp.Evaluate(script, out, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
}

// shoot takes a picture of the whole page.
func (b *tab) shoot(file string) {
	b.t.Helper()
	var png []byte
	b.do("take a picture", chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(file, png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// eventually waits until a page says something by itself.
func (b *tab) eventually(what string, ok func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("not within %v: %s; the page shows %q", patience, what, b.text("main"))
		}
	}
	b.calm(what)
}

// login logs in through the page.
func (b *tab) login(key string) {
	b.t.Helper()
	b.visit("/ui/login")
	b.fill("#key", key)
	b.follow("form[action='/ui/login'] button")
}
