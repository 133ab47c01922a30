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

	"github.com/breakwaterhq/breakwater/receiver"
)

// otherPath collects what comes after maxPaths different paths.
const otherPath = "(other)"

// ServeHTTP plays the endpoint, or the control surface under /_sink.
func (s *Sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == controlPath || strings.HasPrefix(r.URL.Path, controlPath+"/") {
		s.serveControl(w, r)
		return
	}
	st, pc := s.lookup(r.URL.Path)
	s.counts.requests.Add(1)
	pc.requests.Add(1)
	inFlight := s.counts.inFlight.enter()
	pc.inFlight.enter()
	defer s.counts.inFlight.leave()
	defer pc.inFlight.leave()

	e := entry{Time: time.Now(), Path: r.URL.Path, InFlight: inFlight}
	e.readHeaders(r.Header)
	if pc.hold.broken(e.Time) {
		e.Early = true
		s.counts.brokenHolds.Add(1)
	}
	v := s.decide(r, st, &e)
	s.count(v, pc, &e)
	s.log.write(e)
	pc.hold.ask(time.Now(), v.retryAfter)
	reply(w, r, v)
}

// lookup returns the behaviour and the counts of a path.
func (s *Sink) lookup(path string) (*station, *pathCount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.all
	if own, ok := s.stations[path]; ok {
		st = own
	}
	pc, ok := s.paths[path]
	if !ok && len(s.paths) >= maxPaths {
		path = otherPath
		pc, ok = s.paths[path]
	}
	if !ok {
		pc = &pathCount{}
		s.paths[path] = pc
	}
	return st, pc
}

// decide reads the body, asks the station and checks the signature. A station
// that fails does so before it looks at the signature, as a broken server
// would.
func (s *Sink) decide(r *http.Request, st *station, e *entry) verdict {
	signature, readable := check(r, st.verifier)
	e.Signature = signature
	switch signature {
	case signatureNone:
		s.counts.unsigned.Add(1)
	case signatureBad:
		s.counts.badSignatures.Add(1)
	}
	if !readable {
		return verdict{status: http.StatusBadRequest}
	}
	v := st.answer(r.Context(), &s.counts)
	if v.status/100 == 2 && st.verifier != nil && signature != signatureOK {
		return verdict{status: http.StatusUnauthorized}
	}
	return v
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

// count records the answer before it is sent: once the sender has seen it, the
// counts must have it too.
func (s *Sink) count(v verdict, pc *pathCount, e *entry) {
	e.Status = v.status
	if v.throttled {
		s.counts.throttled.Add(1)
	}
	if v.status/100 != 2 {
		s.counts.failed.Add(1)
		pc.failed.Add(1)
		return
	}
	s.counts.ok.Add(1)
	pc.ok.Add(1)
	if e.WebhookID != "" && s.ids.add(e.Path, e.WebhookID) {
		e.Duplicate = true
		s.counts.duplicates.Add(1)
		pc.duplicates.Add(1)
	}
}

func reply(w http.ResponseWriter, r *http.Request, v verdict) {
	if v.status == 0 {
		reset(w)
		return
	}
	if v.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(v.retryAfter))
	}
	w.WriteHeader(v.status)
	if v.slowBody {
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
		pause(ctx, dripEvery)
	}
}
