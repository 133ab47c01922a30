package browser_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/program"
)

// house is a server of a test's own, with one destination that does as told.
type house struct {
	t       *testing.T
	url     string
	to      string // the destination
	status  atomic.Int64
	arrived atomic.Int64
	text    atomic.Value // of its answers
	wait    atomic.Int64 // seconds that its answers ask to wait; 0: they do not

	mu   sync.Mutex
	last arrival

	options program.Options
	server  *program.Process
	log     program.Log
}

// arrival is a request that came to the destination.
type arrival struct {
	header http.Header
	body   []byte
}

// newHouse starts a server, with settings beside the common ones.
func newHouse(t *testing.T, args ...string) *house {
	t.Helper()
	needBrowser(t)
	h := &house{t: t}
	h.status.Store(http.StatusOK)
	h.text.Store("")
	destination := httptest.NewServer(http.HandlerFunc(h.answer))
	t.Cleanup(destination.Close)
	h.to = destination.URL
	h.options = program.Options{Binary: binary, Dir: t.TempDir(), Listen: program.Address(), Args: args, Log: &h.log}
	h.open()
	t.Cleanup(func() {
		_ = h.server.Cmd.Process.Kill()
		<-h.server.Done
		if text := h.log.String(); strings.Contains(text, "panic") || strings.Contains(text, "template failed") || strings.Contains(text, "page failed") {
			t.Errorf("the log says\n%s", text)
		}
	})
	return h
}

func (h *house) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	h.last = arrival{r.Header, body}
	h.mu.Unlock()
	h.arrived.Add(1)
	text := h.text.Load().(string)
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("X-Evil", strings.Map(printable, text))
	if wait := h.wait.Load(); wait > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(wait))
	}
	w.WriteHeader(int(h.status.Load()))
	_, _ = io.WriteString(w, text)
}

// latest returns what arrived last.
func (h *house) latest() arrival {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// open starts the server, again after close.
func (h *house) open() {
	h.t.Helper()
	var err error
	if h.server, err = program.Serve(&h.options); err != nil {
		h.t.Fatalf("%v\n%s", err, h.log.String())
	}
	h.url = h.server.URL
}

// close ends the server as somebody does who presses a key or stops a service.
func (h *house) close(by os.Signal) {
	h.t.Helper()
	if err := h.server.Cmd.Process.Signal(by); err != nil {
		h.t.Fatal(err)
	}
	if err := <-h.server.Done; err != nil {
		h.t.Errorf("the server ended with %v\n%s", err, h.log.String())
	}
	h.server.Done <- nil // for the end of the test
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

// call asks the API as the operator.
func (h *house) call(status int, method, path string, body, out any) {
	h.t.Helper()
	h.callAs(program.AdminKey, nil, status, method, path, body, out)
}

// callAs asks the API with a key, and with headers beside it.
func (h *house) callAs(key string, header http.Header, status int, method, path string, body, out any) {
	h.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, bytes.NewReader(text))
	if err != nil {
		h.t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	got, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != status {
		h.t.Fatalf("%s %s = %d %s", method, path, answer.StatusCode, got)
	}
	if out != nil {
		if err := json.Unmarshal(got, out); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *house) publish(kind string) string {
	h.t.Helper()
	var made struct{ ID string }
	h.call(http.StatusAccepted, http.MethodPost, "/v1/tenants/default/events", map[string]any{"type": kind, "payload": map[string]any{"order": 42}}, &made)
	return made.ID
}

// endpoint makes an endpoint that takes everything to a path of the destination.
func (h *house) endpoint(path string) string {
	h.t.Helper()
	var made struct{ ID string }
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/default/endpoints", map[string]any{"url": h.to + path}, &made)
	return made.ID
}

// key makes a key of a tenant.
func (h *house) key(name, scope, tenant string) (id, text string) {
	h.t.Helper()
	var made struct{ ID, Key string }
	h.call(http.StatusCreated, http.MethodPost, "/v1/keys", map[string]any{"name": name, "scope": scope, "tenant": tenant}, &made)
	return made.ID, made.Key
}

// dead waits until so many deliveries have been given up, and returns their ids.
func (h *house) dead(n int) []string {
	h.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		var list struct{ Data []struct{ ID string } }
		h.call(http.StatusOK, http.MethodGet, "/v1/tenants/default/dead-letters?limit=250", nil, &list)
		if len(list.Data) == n {
			ids := make([]string, n)
			for i, d := range list.Data {
				ids[i] = d.ID
			}
			return ids
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%d dead letters within %v, want %d", len(list.Data), patience, n)
		}
	}
}

// await waits until something that no page shows has happened.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
