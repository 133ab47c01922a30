package browser_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/test/program"
	"github.com/breakwaterhq/breakwater/test/seed"
)

// envSpeed asks for the times of pages on a large store, sqlite or postgres: make benchui.
// envRows makes the store smaller.
const (
	envSpeed = "UI_SPEED"
	envRows  = "UI_SPEED_ROWS"
)

const (
	loads = 20
	// mostTime and mostCPU are what is promised: milliseconds of a page, and percent of a core
	// for one that is open.
	mostTime = 100
	mostCPU  = 1
)

// TestSpeed prints how long the server takes for each page when very much is stored, and
// what a page costs that is just open.
func TestSpeed(t *testing.T) {
	kind := os.Getenv(envSpeed)
	if kind == "" {
		return // make benchui asks for it; nothing is tested here
	}
	needBrowser(t)
	large := bulk(t, kind)
	client := loggedIn(t, large.url)
	fmt.Printf("\n%s\n%-28s %10s %10s %10s %10s\n", kind, "page", "first ms", "median ms", "worst ms", "bytes")
	live := make(map[string]string)
	for _, v := range views {
		path := v.at(large.places)
		if strings.Contains(path, "{") || v.want() != http.StatusOK {
			continue // the store has no such thing
		}
		var times []float64
		size := 0
		for range loads {
			took, n := serverTime(t, client, large.url+path)
			times, size = append(times, took), n
		}
		first := times[0]
		slices.Sort(times)
		fmt.Printf("%-28s %10.1f %10.1f %10.1f %10d\n", v.name, first, times[loads/2], times[loads-1], size)
		if times[loads/2] > mostTime {
			t.Errorf("%s takes %.0f ms", v.name, times[loads/2])
		}
		if path, _, _ := strings.Cut(path, "?"); live[path] == "" {
			live[path] = v.name
		}
	}
	large.openPages(t, client, live)
}

// openPages prints what each page costs that is open: the time of processors that the server uses
// beside what it uses anyway. Nobody draws it here, so that browsers cost nothing.
func (l *largeStore) openPages(t *testing.T, client *http.Client, live map[string]string) {
	t.Helper()
	openFor := time.Minute
	if os.Getenv(envRows) != "" {
		openFor = 2 * time.Second // whether it works is all that a small store tells
	}
	idle := l.cpu(t, func() { time.Sleep(openFor) })
	fmt.Printf("\nCPU of the server, percent of a core over %v: %.2f with no page open\n", openFor, idle)
	for _, path := range slices.Sorted(maps.Keys(live)) {
		ctx, leave := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		res, err := (&http.Client{Jar: client.Jar}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusOK && res.Header.Get("Content-Type") == "text/event-stream" {
			go func() { _, _ = io.Copy(io.Discard, res.Body) }()
			busy := l.cpu(t, func() { time.Sleep(openFor) })
			fmt.Printf("%-28s %10.2f\n", live[path], busy-idle)
			if busy-idle > mostCPU && openFor >= time.Minute {
				t.Errorf("%s costs %.2f %% of a core while it is open", live[path], busy-idle)
			}
		}
		leave()
		_ = res.Body.Close()
	}
}

// largeStore is a server with very much stored.
type largeStore struct {
	url    string
	places *seed.Places
	pid    int
}

func bulk(t *testing.T, kind string) *largeStore {
	t.Helper()
	size := seed.Large
	if n, err := strconv.Atoi(os.Getenv(envRows)); err == nil && n > 0 {
		size = seed.Size{Tenants: 5, Endpoints: max(n/100, 10), Deliveries: n}
	}
	dir := t.TempDir()
	args := []string{"--node-name", seed.Node}
	began := time.Now()
	progress := func(done int) {
		if done%100_000 == 0 {
			fmt.Printf("%d deliveries written after %v\n", done, time.Since(began).Round(time.Second))
		}
	}
	var places *seed.Places
	var err error
	if kind == "postgres" {
		dsn := pgtest.DSN(t)
		args = append(args, "--database-url", dsn)
		places, err = seed.BulkPostgres(t.Context(), dsn, program.EncryptionKey, size, time.Now(), progress)
	} else {
		places, err = seed.BulkSQLite(t.Context(), dir, program.EncryptionKey, size, time.Now(), progress)
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%d deliveries of %d endpoints written in %v\n", size.Deliveries, size.Endpoints, time.Since(began).Round(time.Second))
	var log program.Log
	p, err := program.Serve(&program.Options{Binary: binary, Dir: dir, Listen: program.Address(), Args: args, Log: &log})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		_ = p.Cmd.Process.Kill()
		<-p.Done
	})
	return &largeStore{url: p.URL, places: places, pid: p.Cmd.Process.Pid}
}

// loggedIn returns a client with a session.
func loggedIn(t *testing.T, base string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Timeout: patience}
	res, err := client.PostForm(base+"/ui/login", url.Values{"key": {program.AdminKey}})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || strings.HasSuffix(res.Request.URL.Path, "/login") {
		t.Fatalf("log in: status %d at %s", res.StatusCode, res.Request.URL)
	}
	return client
}

// serverTime loads a page and returns how long the server took, in milliseconds, as it says
// itself or, if it does not, as it seems from here.
func serverTime(t *testing.T, client *http.Client, page string) (ms float64, size int) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, %v", page, res.StatusCode, err)
	}
	ms = time.Since(began).Seconds() * 1000
	if _, text, found := strings.Cut(res.Header.Get("Server-Timing"), "app;dur="); found {
		if ms, err = strconv.ParseFloat(strings.TrimSpace(text), 64); err != nil {
			t.Fatalf("Server-Timing: %q", res.Header.Get("Server-Timing"))
		}
	}
	return ms, len(body)
}

// cpu returns how many percent of a core the server used while f ran.
func (l *largeStore) cpu(t *testing.T, f func()) float64 {
	t.Helper()
	began, before := time.Now(), l.ticks(t)
	f()
	const perSecond = 100 // of the kernel's clock, everywhere that Linux runs
	return 100 * float64(l.ticks(t)-before) / perSecond / time.Since(began).Seconds()
}

// ticks is the time that the server has used so far.
func (l *largeStore) ticks(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", l.pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	var sum int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
