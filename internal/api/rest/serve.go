package rest

import (
	"bytes"
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
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	out := &answer{ResponseWriter: w, call: Call{Now: s.Now(), peer: r.RemoteAddr}}
	c := &out.call
	c.client = s.cfg.TrustedProxies.client(r)
	c.ID = s.requestID(r, c)
	h := out.Header()
	h["X-Request-Id"] = []string{c.ID}
	h["X-Content-Type-Options"], h["Cache-Control"] = noSniff, noStore
	defer s.finish(out, r, c)

	if len(r.URL.Path) > 1 && strings.HasSuffix(r.URL.Path, "/") {
		r = withoutTrailingSlash(r)
	}
	if path.Clean(r.URL.Path) != r.URL.Path {
		// The mux would redirect; a client that builds such paths has a bug, and
		// a redirected POST would hide it.
		s.Fail(out, c, errNoRoute)
		return
	}
	s.mux.ServeHTTP(out, r)
}

// Values of headers that every answer carries. They are shared: nobody may
// change them in place.
var (
	noSniff  = []string{"nosniff"}
	noStore  = []string{"no-store"}
	jsonType = []string{"application/json"}
)

// requestID takes the client's id when it is harmless, else makes one.
func (s *Server) requestID(r *http.Request, c *Call) string {
	if id := first(r.Header["X-Request-Id"]); id != "" && len(id) <= 64 && !strings.ContainsFunc(id, notIDChar) {
		return id
	}
	return hook.RequestPrefix.Format(s.cfg.IDs.Next(c.Now))
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
func (s *Server) finish(out *answer, r *http.Request, c *Call) {
	if p := recover(); p != nil {
		s.recovered(out, r, c, p)
	}
	if !s.log.Enabled(r.Context(), slog.LevelDebug) {
		return
	}
	s.log.Debug("request", "request_id", c.ID, "method", r.Method, "path", r.URL.Path,
		"status", out.status, "key", KeyText(c.Key), "remote", c.remote().String())
}

func (s *Server) recovered(out *answer, r *http.Request, c *Call, p any) {
	if r.Context().Err() != nil {
		return // the client is gone; huma panics when it cannot write
	}
	s.log.Error("handler panicked", "request_id", c.ID, "method", r.Method, "path", r.URL.Path,
		"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if out.status == 0 {
		s.write(out, c, NewProblem(http.StatusInternalServerError, "internal", "something went wrong on our side"))
	}
}

// answer remembers what it answers and whether it was begun.
type answer struct {
	http.ResponseWriter
	call   Call
	status int
	held   *bytes.Buffer // what is not sent yet; nil: everything is sent at once
}

func (w *answer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if w.held == nil {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *answer) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.held != nil {
		return w.held.Write(b)
	}
	return w.ResponseWriter.Write(b)
}

// hold keeps the answer back until release or drop, and returns its body.
func (w *answer) hold() *bytes.Buffer {
	w.held = new(bytes.Buffer)
	return w.held
}

// release sends what was held.
func (w *answer) release() {
	body := w.held.Bytes()
	w.held = nil
	if w.status == 0 {
		w.status = http.StatusOK
	}
	w.ResponseWriter.WriteHeader(w.status)
	_, _ = w.ResponseWriter.Write(body) // a client that has left is not our concern
}

// drop forgets what was held, if something still is.
func (w *answer) drop() {
	if w.held != nil {
		w.held, w.status = nil, 0
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// addFallbacks answers unknown paths and methods with problem documents. Every
// other method of a path is registered by name: a pattern without a method
// would conflict with its more specific neighbours.
func (s *Server) addFallbacks() {
	methods := map[string][]string{}
	for _, rt := range s.routes {
		methods[rt.Path] = append(methods[rt.Path], rt.Method)
	}
	for p, known := range methods {
		if slices.Contains(known, http.MethodGet) {
			known = append(known, http.MethodHead)
		}
		slices.Sort(known)
		allow := strings.Join(known, ", ")
		refuse := func(w http.ResponseWriter, _ *http.Request) {
			pr := NewProblem(http.StatusMethodNotAllowed, "method_not_allowed", "this path takes "+allow)
			pr.allow = allow
			s.write(w, CallBy(w), pr)
		}
		for _, m := range []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
			http.MethodPatch, http.MethodDelete, http.MethodOptions,
		} {
			if !slices.Contains(known, m) {
				s.mux.HandleFunc(m+" "+p, refuse)
			}
		}
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		s.Fail(w, CallBy(w), errNoRoute)
	})
}
