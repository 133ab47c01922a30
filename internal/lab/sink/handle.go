package sink

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/pause"
	"github.com/breakwaterhq/breakwater/receiver"
)

// otherPath collects what comes after maxPaths different paths.
const otherPath = "(other)"

// statusHungUp is counted when the sender did not wait for the answer; nobody
// gets to see it.
const statusHungUp = 499

// ServeHTTP plays the endpoint, or the control surface under /_sink.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == controlPath || strings.HasPrefix(r.URL.Path, controlPath+"/") {
		s.serveControl(w, r)
		return
	}
	verifier := s.verifier(r.URL.Path)
	e := entry{Path: r.URL.Path}
	e.readHeaders(r.Header)
	var readable bool
	e.Signature, readable = check(r, verifier)
	v := s.arrive(&e, readable)
	pause.For(r.Context(), v.wait)
	a := s.leave(r.Context(), &v, verifier != nil, &e)
	s.log.write(e)
	s.tell(&e)
	reply(w, r, a)
}

// visit is a request between its arrival and its answer.
type visit struct {
	decision

	station *station
	path    *pathMeter
}

// arrive counts a request and lets its destination decide.
func (s *Sink) arrive(e *entry, readable bool) visit {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now() // under the mutex, so that arrivals have an order
	v := visit{station: s.station(e.Path), path: s.path(e.Path)}
	s.total.arrive(now)
	v.path.arrive(now)
	e.Time, e.InFlight = now, s.total.InFlight
	if v.path.hold.broken(now) {
		e.Early = true
		s.total.BrokenHolds++
		v.path.BrokenHolds++
	}
	switch e.Signature {
	case signatureNone:
		s.unsigned++
	case signatureBad:
		s.badSignatures++
	}
	if !readable {
		v.decision = decision{answer: answer{status: http.StatusBadRequest, cause: causeFailing}, epoch: v.station.epoch}
		return v
	}
	v.decision = v.station.decide(now, s.rng.Float64())
	if v.crash != nil {
		s.recordCrash(*v.crash, e.Path)
	}
	return v
}

// leave counts the answer before it is sent: once the sender has seen it, the
// counts must have it too.
func (s *Sink) leave(ctx context.Context, v *visit, verified bool, e *entry) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	a := v.station.settle(&v.decision, now)
	switch {
	case ctx.Err() != nil:
		a = answer{status: statusHungUp, cause: causeFailing}
	case a.status/100 == 2 && verified && e.Signature != signatureOK:
		// A destination that fails does so before it looks at the signature.
		a = answer{status: http.StatusUnauthorized, cause: causeFailing}
	}
	e.Status = a.status
	e.Duplicate = a.status/100 == 2 && e.WebhookID != "" && s.ids.add(e.Path, e.WebhookID)
	s.total.leave(a, e.Duplicate)
	v.path.leave(a, e.Duplicate)
	v.path.hold.ask(now, a.retryAfter)
	return a
}

// station returns who answers for a path. The caller holds the mutex.
func (s *Sink) station(path string) *station {
	if own, ok := s.stations[path]; ok {
		return own
	}
	if !s.cfg.PerPath || len(s.stations) >= maxPaths {
		return s.all
	}
	own := s.all.fork()
	s.stations[path] = own
	return own
}

// path returns the counts of a path. The caller holds the mutex.
func (s *Sink) path(path string) *pathMeter {
	m, ok := s.paths[path]
	if !ok && len(s.paths) >= maxPaths {
		path = otherPath
		m, ok = s.paths[path]
	}
	if !ok {
		m = &pathMeter{}
		s.paths[path] = m
	}
	return m
}

func (s *Sink) verifier(path string) *receiver.Verifier {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.station(path).verifier
}

// The results of a signature check.
const (
	signatureOK        = "ok"
	signatureBad       = "bad"
	signatureNone      = "none"      // the request has none
	signatureUnchecked = "unchecked" // it has one, but the sink has no secret
)

// check reads the whole body, for a sender must not see a reset because of an
// early answer, and verifies it when there is something to verify with.
func check(r *http.Request, v *receiver.Verifier) (signature string, readable bool) {
	signed := r.Header.Get("webhook-signature") != ""
	if v == nil {
		_, err := io.Copy(io.Discard, r.Body)
		if !signed {
			return signatureNone, err == nil
		}
		return signatureUnchecked, err == nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return signatureNone, false
	}
	if _, err := v.Verify(r.Header, body); err == nil {
		return signatureOK, true
	}
	if !signed {
		return signatureNone, true
	}
	return signatureBad, true
}

func reply(w http.ResponseWriter, r *http.Request, a answer) {
	if a.hangs {
		<-r.Context().Done()
	}
	if a.status == 0 {
		reset(w)
		return
	}
	if a.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(a.retryAfter))
	}
	w.WriteHeader(a.status)
	if a.slowBody {
		drip(r.Context(), w)
	}
}

// reset ends the connection the hard way: with a linger of zero the close
// becomes a TCP reset.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the server's own way to cut an answer short (HTTP/2, test recorders)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

const (
	dripEvery = 100 * time.Millisecond
	dripFor   = 5 * time.Minute
)

// drip sends one byte at a time until the sender has had enough.
func drip(ctx context.Context, w http.ResponseWriter) {
	rc := http.NewResponseController(w)
	for range dripFor / dripEvery {
		_, err := w.Write([]byte{'.'})
		if err = errors.Join(err, rc.Flush()); err != nil || ctx.Err() != nil {
			return
		}
		pause.For(ctx, dripEvery)
	}
}
