package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

const controlPath = "/_sink"

// Report is the answer to GET /_sink.
type Report struct {
	Counts

	UniqueIDs int64                `json:"unique_ids"`
	Paths     map[string]PathCount `json:"paths"`
}

// Report returns all counts so far.
func (s *Sink) Report() Report {
	s.mu.Lock()
	paths := maps.Clone(s.paths)
	s.mu.Unlock()
	r := Report{Counts: s.counts.snapshot(), UniqueIDs: s.ids.unique(), Paths: make(map[string]PathCount, len(paths))}
	for path, pc := range paths {
		r.Paths[path] = pc.snapshot()
	}
	return r
}

// change is the body of POST /_sink and POST /_sink/{path}: a field that is
// absent stays as it is.
type change struct {
	Fail       *int      `json:"fail"`
	FailRate   *float64  `json:"fail_rate"`
	For        *string   `json:"for"`
	After      *string   `json:"after"`
	Latency    *string   `json:"latency"`
	RateLimit  *rate     `json:"rate_limit"`
	RateBurst  *int      `json:"rate_burst"`
	RetryAfter *int      `json:"retry_after"`
	Flap       *string   `json:"flap"`
	Gone       *bool     `json:"gone"`
	SlowBody   *bool     `json:"slow_body"`
	CrashOver  *rate     `json:"crash_over"`
	CrashFor   *string   `json:"crash_for"`
	Capacity   *rate     `json:"capacity"`
	Workers    *int      `json:"workers"`
	Queue      *int      `json:"queue"`
	Secrets    *[]string `json:"secrets"`

	Heal  bool `json:"heal"`  // first forget all behaviour but the secrets
	Crash bool `json:"crash"` // crash now
	Reset bool `json:"reset"` // counts and ids start again
}

// rate takes 20 and "20/s".
type rate float64

// UnmarshalJSON reads both forms.
func (r *rate) UnmarshalJSON(raw []byte) error {
	n, err := ParseRate(strings.Trim(string(raw), `"`))
	*r = rate(n)
	return err
}

const maxControlBody = 1 << 20

func (s *Sink) serveControl(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, controlPath)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.serveReport(w, path)
	case http.MethodPost:
		if err := s.control(path, r.Body); err != nil {
			writeJSON(w, http.StatusUnprocessableEntity, map[string]string{"error": err.Error()})
			return
		}
		s.serveReport(w, "")
	case http.MethodDelete:
		s.mu.Lock()
		delete(s.stations, path)
		s.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// serveReport answers with all counts, or with those of one path.
func (s *Sink) serveReport(w http.ResponseWriter, path string) {
	report := s.Report()
	if path == "" {
		writeJSON(w, http.StatusOK, report)
		return
	}
	pc, ok := report.Paths[path]
	if !ok {
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "no request came to " + path})
		return
	}
	writeJSON(w, http.StatusOK, pc)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the status is out; a lost connection needs no second answer
}

// control applies one change. A path gets a station of its own, which starts
// as a copy of the common one.
func (s *Sink) control(path string, body io.Reader) error {
	var c change
	dec := json.NewDecoder(io.LimitReader(body, maxControlBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read change: %w", err)
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.all
	if own, ok := s.stations[path]; ok {
		old = own
	}
	st, err := c.apply(old, now)
	if err != nil {
		return err
	}
	if path == "" {
		s.all = st
	} else {
		if len(s.stations) >= maxPaths {
			return fmt.Errorf("more than %d paths with a behaviour of their own", maxPaths)
		}
		s.stations[path] = st
	}
	if c.Crash {
		st.crash(now, &s.counts)
	}
	if c.Reset {
		s.reset()
	}
	return nil
}

// reset starts all counts again. The caller holds the mutex. Requests in
// flight keep the path counts they began with.
func (s *Sink) reset() {
	s.counts.reset()
	s.ids.reset()
	clear(s.paths)
}

// apply returns a station with the change made. Failing is counted from now
// when the change says anything about it.
func (c *change) apply(old *station, now time.Time) (*station, error) {
	b, secrets, from := old.behaviour, old.secrets, old.from
	if c.Heal {
		b = Behaviour{}
	}
	if c.Capacity != nil && c.Queue == nil {
		b.Queue = 0 // follows the capacity
	}
	if c.Fail != nil || c.FailRate != nil || c.Flap != nil {
		from = now
		b.FailFor, b.After = 0, 0
	}
	set(&b.Fail, c.Fail)
	set(&b.FailRate, c.FailRate)
	set(&b.RateBurst, c.RateBurst)
	set(&b.RetryAfter, c.RetryAfter)
	set(&b.Gone, c.Gone)
	set(&b.SlowBody, c.SlowBody)
	set(&b.Workers, c.Workers)
	set(&b.Queue, c.Queue)
	set(&secrets, c.Secrets)
	setRate(&b.RateLimit, c.RateLimit)
	setRate(&b.CrashOver, c.CrashOver)
	setRate(&b.Capacity, c.Capacity)
	err := errors.Join(
		setDuration("for", &b.FailFor, c.For), setDuration("after", &b.After, c.After),
		setDuration("latency", &b.Latency, c.Latency), setDuration("crash_for", &b.CrashFor, c.CrashFor),
	)
	if c.Flap != nil {
		flap, flapErr := ParseFlap(*c.Flap)
		b.Flap = flap
		err = errors.Join(err, flapErr)
	}
	if err != nil {
		return nil, err
	}
	st, err := newStation(b, secrets, from)
	if err == nil && !c.Heal {
		st.outage = old.outage // a change does not bring a crashed server back
	}
	return st, err
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func setRate(field *float64, value *rate) {
	if value != nil {
		*field = float64(*value)
	}
}

func setDuration(name string, field *time.Duration, value *string) error {
	if value == nil {
		return nil
	}
	d, err := time.ParseDuration(*value)
	if err != nil {
		return fmt.Errorf("%s: must be a duration such as 5s", name)
	}
	*field = d
	return nil
}
