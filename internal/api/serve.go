package api

import (
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// serve is the outermost handler: request id, headers, recovery, routing.
func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	out := &answer{ResponseWriter: w, call: call{now: a.now(), peer: r.RemoteAddr}}
	c := &out.call
	c.client = a.cfg.TrustedProxies.client(r)
	c.id = a.requestID(r, c)
	h := out.Header()
	h["X-Request-Id"] = []string{c.id}
	h["X-Content-Type-Options"], h["Cache-Control"] = noSniff, noStore
	defer a.finish(out, r, c)

	if len(r.URL.Path) > 1 && strings.HasSuffix(r.URL.Path, "/") {
		r = withoutTrailingSlash(r)
	}
	if path.Clean(r.URL.Path) != r.URL.Path {
		// The mux would redirect; a client that builds such paths has a bug, and
		// a redirected POST would hide it.
		a.fail(out, c, errNoRoute)
		return
	}
	a.mux.ServeHTTP(out, r)
}

// Values of headers that every answer carries. They are shared: nobody may
// change them in place.
var (
	noSniff  = []string{"nosniff"}
	noStore  = []string{"no-store"}
	jsonType = []string{"application/json"}
)

// requestID takes the client's id when it is harmless, else makes one.
func (a *API) requestID(r *http.Request, c *call) string {
	if id := first(r.Header["X-Request-Id"]); id != "" && len(id) <= 64 && !strings.ContainsFunc(id, notIDChar) {
		return id
	}
	return hook.RequestPrefix.Format(a.cfg.IDs.Next(c.now))
}

// first returns the first value of a header. Requests that carry events read
// their headers by canonical names: Get would spell each name anew.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func notIDChar(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && r != '_' && r != '-'
}

func withoutTrailingSlash(r *http.Request) *http.Request {
	u := *r.URL
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.RawPath = strings.TrimSuffix(u.RawPath, "/")
	r2 := *r
	r2.URL = &u
	return &r2
}

// finish recovers from a panic of a handler and logs the request.
func (a *API) finish(out *answer, r *http.Request, c *call) {
	if p := recover(); p != nil {
		a.recovered(out, r, c, p)
	}
	if !a.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	a.log.Debug("request", "request_id", c.id, "method", r.Method, "path", r.URL.Path,
		"status", out.status, "key", keyText(c.key), "remote", c.remote().String())
}

func (a *API) recovered(out *answer, r *http.Request, c *call, p any) {
	if r.Context().Err() != nil {
		return // the client is gone; huma panics when it cannot write
	}
	a.log.Error("handler panicked", "request_id", c.id, "method", r.Method, "path", r.URL.Path,
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if out.status == 0 {
		a.write(out, c, newProblem(http.StatusInternalServerError, "internal", "something went wrong on our side"))
	}
}

// answer remembers what it answers and whether it was begun.
type answer struct {
	http.ResponseWriter
	call   call
	status int
}

func (w *answer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *answer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// addFallbacks answers unknown paths and methods with problem documents. Every
// other method of a path is registered by name: a pattern without a method
// would conflict with its more specific neighbours.
func (a *API) addFallbacks() {
	methods := map[string][]string{}
	for _, rt := range a.routes {
		methods[rt.Path] = append(methods[rt.Path], rt.Method)
	}
	for p, known := range methods {
		if slices.Contains(known, http.MethodGet) {
			known = append(known, http.MethodHead)
		}
		slices.Sort(known)
		allow := strings.Join(known, ", ")
		refuse := func(w http.ResponseWriter, _ *http.Request) {
			pr := newProblem(http.StatusMethodNotAllowed, "method_not_allowed", "this path takes "+allow)
			pr.allow = allow
			a.write(w, callBy(w), pr)
		}
		for _, m := range []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
			http.MethodPatch, http.MethodDelete, http.MethodOptions,
		} {
			if !slices.Contains(known, m) {
				a.mux.HandleFunc(m+" "+p, refuse)
			}
		}
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		a.fail(w, callBy(w), errNoRoute)
	})
}
