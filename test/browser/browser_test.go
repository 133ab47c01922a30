// Package browser tests the dashboard as people use it: Debian's chromium looks at
// pages that the real binary serves, in light and dark, on a desk and on a phone,
// with and without JavaScript.
//
// Whatever a test does, it fails when the browser's console says anything, a request
// fails or goes to another host, an answer is a 5xx, or the content security policy
// had to step in.
package browser_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/breakwaterhq/breakwater/test/program"
)

var (
	binary  string          // the built product
	browser context.Context // of the one browser of all tests; nil: there is none
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Tests that have a server of their own wait for it more than they work.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "breakwater-browser")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	defer endStory()
	if path := chromium(); path != "" {
		ctx, stop, err := startBrowser(path, filepath.Join(dir, "profile"))
		if err != nil {
			fmt.Fprintln(os.Stderr, "start the browser:", err)
			return 1
		}
		defer stop()
		browser = ctx
		// A binary that was built before saves the time for it.
		if binary = os.Getenv("BREAKWATER_TEST_BINARY"); binary != "" {
			return m.Run()
		}
		if binary, err = program.Build(ctx, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// chromium returns the path of the browser, empty when there is none.
func chromium() string {
	for _, name := range []string{os.Getenv("BREAKWATER_TEST_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
}

// needBrowser skips a test where there is no browser. In CI that is a failure.
func needBrowser(t *testing.T) {
	t.Helper()
	if browser != nil {
		return
	}
	const how = "NO CHROMIUM: the dashboard is NOT TESTED; scripts/install-chromium installs it"
	if os.Getenv("CI") == "true" {
		t.Fatal(how)
	}
	t.Skip(how)
}

// startBrowser starts the browser, which ends with stop.
func startBrowser(path, profile string) (ctx context.Context, stop func(), err error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(profile),
		chromedp.WindowSize(desk.width, desk.height),
		chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("font-render-hinting", "none"), // pictures look the same everywhere
		chromedp.Flag("force-color-profile", "srgb"),
		// It is to speak to nobody but the server under test.
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
	)
	// Pages ask for the system's font; here that is one that looks like those of most systems.
	fonts := profile + "-fonts.conf"
	if err := os.WriteFile(fonts, []byte(fontAliases), 0o600); err != nil {
		return nil, nil, err
	}
	options = append(options, chromedp.Env("FONTCONFIG_FILE="+fonts))
	if os.Geteuid() == 0 { // its sandbox does not work for root
		options = append(options, chromedp.NoSandbox)
	}
	allocated, free := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	stop = func() { cancel(); free() }
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return ctx, stop, nil
}

const fontAliases = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<match target="pattern"><test name="family"><string>system-ui</string></test><edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>
<match target="pattern"><test name="family"><string>sans-serif</string></test><edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>
</fontconfig>`

// screen is what a page is shown on.
type screen struct {
	name          string
	width, height int
	dark          bool
	phone         bool
}

var (
	desk  = screen{name: "light", width: 1440, height: 900}
	night = screen{name: "dark", width: 1440, height: 900, dark: true}
	phone = screen{name: "phone", width: 390, height: 844, phone: true}

	screens = []screen{desk, night, phone}
)
