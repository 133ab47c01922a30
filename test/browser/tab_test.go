package browser_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
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
	loads    map[network.RequestID]*load
	expect   int64 // status of a document that is no trouble
	lossy    bool  // the server ends under its pages: that connections are lost is no trouble
}

// load is a request of the page. What is told of it comes in any order.
type load struct {
	url      string
	kind     network.ResourceType
	bytes    float64
	finished bool
}

// open opens a tab that shows a server on a screen. It closes with the test.
func open(t *testing.T, base string, s screen) *tab {
	t.Helper()
	needBrowser(t)
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, base: base, loads: map[network.RequestID]*load{}, expect: 200}
	b.do("open a tab", command(network.Enable, network.EnableParams{}), command(log.Enable, cdp.Empty{}), command(runtime.Enable, cdp.Empty{}))
	b.listen()
	b.show(s)
	t.Cleanup(func() { b.in(t).calm("at the end") })
	return b
}

// in returns the tab for a part of the test that opened it.
func (b *tab) in(t *testing.T) *tab {
	b.t = t
	return b
}

// command is an action that sends a command of the protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// show changes the screen.
func (b *tab) show(s screen) {
	b.t.Helper()
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	b.do("set the screen",
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: int64(s.width), Height: int64(s.height), DeviceScaleFactor: 1, Mobile: s.phone,
		}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}}))
}

// withoutScript switches JavaScript off.
func (b *tab) withoutScript() {
	b.t.Helper()
	b.do("switch JavaScript off", command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
}

// listen takes down what the browser tells, until the tab closes.
func (b *tab) listen() {
	hear(b, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) {
		words := make([]string, len(e.Args))
		for i, a := range e.Args {
			words[i] = string(a.Value) + a.Description
		}
		b.trouble("console.%s: %s", e.Type, strings.Join(words, " "))
	})
	hear(b, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) {
		b.trouble("exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	})
	hear(b, log.EntryAdded, func(e log.EventEntryAdded) {
		if b.lossy && e.Entry.Source == log.EntrySourceNetwork && lost(e.Entry.Text) {
			return
		}
		// That a page is no 200 is said there too, and may be what a test is about.
		if e.Entry.Source != log.EntrySourceNetwork || !strings.Contains(e.Entry.Text, fmt.Sprintf("status of %d ", b.expect)) {
			b.trouble("console, %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	})
	hear(b, network.RequestWillBeSent, func(e network.EventRequestWillBeSent) {
		l := b.load(e.RequestID)
		l.url, l.kind = e.Request.URL, e.Type
		if u, err := url.Parse(l.url); err != nil || u.Scheme != "data" && !strings.HasPrefix(l.url, b.base+"/") {
			b.trouble("request to another host: %s", l.url)
		}
	})
	hear(b, network.ResponseReceived, func(e network.EventResponseReceived) {
		if e.Response.Status >= 500 && e.Response.Status != b.expect {
			b.trouble("%s answered %d", e.Response.URL, e.Response.Status)
		}
	})
	hear(b, network.LoadingFinished, func(e network.EventLoadingFinished) {
		l := b.load(e.RequestID)
		l.bytes, l.finished = e.EncodedDataLength, true
	})
	hear(b, network.LoadingFailed, func(e network.EventLoadingFailed) {
		b.load(e.RequestID).finished = true
		if e.Canceled && e.Type != network.ResourceTypeDocument {
			return // the page was left
		}
		if b.lossy && e.Type == network.ResourceTypeEventSource && lost(e.ErrorText) {
			return
		}
		b.trouble("request failed: %s %s", e.Type, e.ErrorText)
	})
}

// lost reports whether an error is that of a server that has ended.
func lost(text string) bool {
	for _, code := range []string{"CONNECTION_REFUSED", "CONNECTION_RESET", "CONNECTION_CLOSED", "EMPTY_RESPONSE", "INCOMPLETE_CHUNKED_ENCODING"} {
		if strings.Contains(text, "net::ERR_"+code) {
			return true
		}
	}
	return false
}

// hear calls f for every event of a kind, with the tab locked.
func hear[E any](b *tab, event cdp.Event[E], f func(E)) {
	events := chromedp.Events(b.ctx, event)
	go func() {
		for e, err := range events {
			if err != nil {
				return
			}
			b.mu.Lock()
			f(e)
			b.mu.Unlock()
		}
	}()
}

func (b *tab) load(id network.RequestID) *load {
	if b.loads[id] == nil {
		b.loads[id] = &load{}
	}
	return b.loads[id]
}

func (b *tab) trouble(format string, args ...any) {
	b.troubles = append(b.troubles, fmt.Sprintf(format, args...))
}

// calm fails the test if there was trouble since it was asked last. What the browser
// tells too late is found at the end of the test.
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

// settle waits until all that the page asked for is there, streams aside, and returns how
// many bytes that was on the wire. Of what the browser had already it may not tell the end:
// after a while without news there is nothing to wait for.
func (b *tab) settle() int64 {
	const quiet = 2 * time.Second
	before, since := -1, time.Now()
	for {
		open, finished, sum := 0, 0, 0.0
		b.mu.Lock()
		for _, l := range b.loads {
			sum += l.bytes
			switch {
			case l.finished:
				finished++
			case l.kind != network.ResourceTypeEventSource && l.kind != network.ResourceTypeFetch:
				open++
			}
		}
		b.mu.Unlock()
		if finished != before {
			before, since = finished, time.Now()
		}
		if open == 0 && finished > 0 || time.Since(since) > quiet {
			return int64(sum)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// do runs actions and fails the test when they do.
func (b *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	get(b, what, chromedp.Steps(actions...))
}

// get runs an action and returns its result.
func get[T any](b *tab, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx := b.ctx
	if chromedp.FromContext(ctx).Target != nil { // the first one opens the tab, which lives as long as its context
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	for {
		out, err := chromedp.Run(ctx, action)
		switch {
		case err == nil:
			return out
		case !swapped(err):
			b.t.Fatalf("%s: %v", what, err)
		}
	}
}

// swapped reports whether an element went with its block, or with its page, between finding
// the element and using it: nothing was done then, and it may be tried again.
func swapped(err error) bool {
	said := err.Error()
	for _, words := range []string{"o node with given id", "ot find node with given id", "not belong to the document", "detached from document", "not have a layout object", "not compute box model", "context was destroyed", "ot find context with"} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

// visit opens a page that must be there.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.visitAs(path, 200)
}

// visitAs opens a page that answers with a status.
func (b *tab) visitAs(path string, status int64) {
	b.t.Helper()
	b.submit("visit "+path, status, command(page.Navigate, page.NavigateParams{URL: b.base + path}))
}

// submit does something that leads to another page and waits until that is there.
func (b *tab) submit(what string, status int64, action chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	b.mu.Lock()
	b.expect = status
	clear(b.loads)
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	answer, err := chromedp.RunResponse(ctx, action)
	for err != nil && swapped(err) {
		answer, err = chromedp.RunResponse(ctx, action)
	}
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	if answer.Status != status {
		b.t.Errorf("%s: answer %d, want %d; the page shows %q", what, answer.Status, status, b.text("body"))
	}
	b.settle()
	b.calm(what)
}

// follow clicks what leads to another page.
func (b *tab) follow(selector string) {
	b.t.Helper()
	b.submit("click "+selector, 200, click(selector))
}

func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

// click clicks what changes the page.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.do("click "+selector, click(selector))
	b.calm("click " + selector)
}

// fill puts a text into a field, instead of what is there.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do("fill "+selector, chromedp.Focus(chromedp.CSS(selector)), chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(text))
}

// text returns what is to be read in an element, once it is there. It is found and read in
// one step: an element whose block is swapped in between has nothing to read.
func (b *tab) text(selector string) string {
	b.t.Helper()
	script := `(e => e && (e.getClientRects().length > 0 ? e.innerText : ""))(document.querySelector(` + strconv.Quote(selector) + "))"
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if text := get(b, "read "+selector, chromedp.Evaluate[*string](script)); text != nil {
			return strings.Join(strings.Fields(*text), " ")
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s has no %s within %v", b.path(), selector, patience)
		}
	}
}

// path returns where the tab is, with its query.
func (b *tab) path() string {
	b.t.Helper()
	return strings.TrimPrefix(get(b, "read the address", chromedp.Location()), b.base)
}

// shoot takes a picture of the whole page.
func (b *tab) shoot(file string) {
	b.t.Helper()
	png := get(b, "take a picture", chromedp.FullScreenshot(100))
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

// live reports whether the page is kept current.
func (b *tab) live() bool {
	b.t.Helper()
	return b.has("#live.on")
}

// login logs in through the page.
func (b *tab) login(key string) {
	b.t.Helper()
	b.visit("/ui/login")
	b.fill("#key", key)
	b.follow("form[action='/ui/login'] button")
}
