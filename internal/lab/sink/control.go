package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

const controlPath = "/_sink"

// Report is the answer to GET /_sink.
type Report struct {
	Counts

	UniqueIDs int64            `json:"unique_ids"`
	CrashLog  []Crash          `json:"crash_log"` // the latest ones
	Paths     map[string]Tally `json:"paths"`
}

// Report returns all counts so far.
func (s *Sink) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := Report{
		Counts: s.counts(), UniqueIDs: s.ids.unique(),
		CrashLog: append([]Crash{}, s.crashLog...), Paths: make(map[string]Tally, len(s.paths)),
	}
	for path, m := range s.paths {
		r.Paths[path] = m.Tally
	}
	return r
}

// counts returns the totals. The caller holds the mutex.
func (s *Sink) counts() Counts {
	return Counts{Tally: s.total.Tally, BadSignatures: s.badSignatures, Unsigned: s.unsigned, Crashes: s.crashes}
}

const (
	maxControlBody = 1 << 20
	maxCrashLog    = 1000
)

// recordCrash counts a crash. The caller holds the mutex.
func (s *Sink) recordCrash(c Crash, path string) {
	c.Path = path
	s.crashes++
	if len(s.crashLog) >= maxCrashLog {
		s.crashLog = s.crashLog[1:]
	}
	s.crashLog = append(s.crashLog, c)
}

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
	tally, ok := report.Paths[path]
	if !ok {
		writeJSON(w, http.StatusNotFound, map[string]string{"error": "no request came to " + path})
		return
	}
	writeJSON(w, http.StatusOK, tally)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the status is out; a lost connection needs no second answer
}

// control applies one change, to a path or to all that have no behaviour of
// their own. A path without one gets a copy of the common one first.
func (s *Sink) control(path string, body io.Reader) error {
	c, err := readChange(io.LimitReader(body, maxControlBody))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	targets, err := s.targets(path)
	if err != nil {
		return err
	}
	behaviours := make([]Behaviour, len(targets)) // all or none
	for i, st := range targets {
		if behaviours[i], err = c.apply(st.behaviour); err != nil {
			return err
		}
	}
	if path != "" {
		targets[0].own = true
		s.stations[path] = targets[0]
	}
	for i, st := range targets {
		c.begin(st, behaviours[i], now)
		if c.crash && !now.Before(st.crashed) {
			s.recordCrash(*st.crash(now, crashTold).crash, path)
		}
	}
	if c.reset {
		s.reset()
	}
	return nil
}

// targets returns whom a change is for. The caller holds the mutex.
func (s *Sink) targets(path string) ([]*station, error) {
	if path == "" {
		all := []*station{s.all}
		for _, p := range slices.Sorted(maps.Keys(s.stations)) {
			if st := s.stations[p]; !st.own {
				all = append(all, st)
			}
		}
		return all, nil
	}
	if st, ok := s.stations[path]; ok {
		return []*station{st}, nil
	}
	if len(s.stations) >= maxPaths {
		return nil, fmt.Errorf("more than %d paths with a behaviour of their own", maxPaths)
	}
	return []*station{s.all.fork()}, nil
}

// reset starts all counts again. The caller holds the mutex. Requests in flight
// keep the path they began with.
func (s *Sink) reset() {
	s.total.reset()
	s.badSignatures, s.unsigned, s.crashes, s.crashLog = 0, 0, 0, nil
	s.ids.reset()
	clear(s.paths)
}

// change is the body of POST /_sink and POST /_sink/{path}: a field that is
// absent stays as it is.
type change struct {
	fields  map[string]string // as written, with their values as text
	secrets *secrets          // nil: not mentioned
	heal    bool              // first forget all behaviour but the secrets
	crash   bool              // crash now
	reset   bool              // counts and ids start again
}

func readChange(body io.Reader) (*change, error) {
	var raw map[string]json.RawMessage
	if err := json.NewDecoder(body).Decode(&raw); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read change: %w", err)
	}
	c := &change{fields: map[string]string{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if err := c.read(name, raw[name]); err != nil {
			errs = append(errs, &FieldError{name, err})
		}
	}
	if c.says("after") && !c.says("fail", "fail_rate", "down_for") {
		errs = append(errs, &FieldError{"after", errAfter})
	}
	return c, errors.Join(errs...)
}

// read takes one field of the body.
func (c *change) read(name string, raw json.RawMessage) error {
	for word, to := range map[string]*bool{"heal": &c.heal, "crash": &c.crash, "reset": &c.reset} {
		if name == word {
			if json.Unmarshal(raw, to) != nil {
				return errors.New(switchKind.rule)
			}
			return nil
		}
	}
	if name == "secrets" {
		var keys []string
		if json.Unmarshal(raw, &keys) != nil {
			return errors.New("must be a list of secrets")
		}
		read, err := newSecrets(keys)
		c.secrets = read
		return err
	}
	if name == "for" { // as people say it: fail 503 for 5s
		name = "fail_for"
	}
	f, ok := fieldNamed(name)
	if !ok {
		return errors.New("there is no such setting")
	}
	text := plainText(raw)
	if err := f.Set(&Behaviour{}, text); err != nil {
		return err
	}
	if before, again := c.fields[f.Name]; again && before != text {
		return errors.New("is said twice, as for and as fail_for")
	}
	c.fields[f.Name] = text
	return nil
}

func fieldNamed(name string) (Field, bool) {
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return fields[i], true
}

// plainText is a JSON value as one would write it on the command line: 20,
// "20/s" without its quotes, and [429,503] without its brackets.
func plainText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && raw[0] == '"' {
		return text
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(raw), "["), "]")
}

func (c *change) says(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := c.fields[name]; return ok })
}

// apply returns b with the change made.
func (c *change) apply(b Behaviour) (Behaviour, error) {
	if c.heal {
		b = Behaviour{}
	}
	if c.says("fail", "fail_rate") {
		b.FailFor = 0
	}
	if c.says("fail", "fail_rate", "fail_for", "down_for") {
		b.After = 0
	}
	for name, text := range c.fields {
		f, _ := fieldNamed(name)
		if err := f.Set(&b, text); err != nil {
			return b, &FieldError{name, err}
		}
	}
	err := b.check()
	return b, err
}

// begin puts a changed behaviour into effect. Its timed parts begin when the
// change says anything about them; a change does not bring a crashed
// destination back.
func (c *change) begin(st *station, b Behaviour, now time.Time) {
	st.adopt(b, now, begins{
		fail:   c.heal || c.says("fail", "fail_rate", "fail_for"),
		outage: c.heal || c.says("down_for"),
		flaps:  c.heal || c.says("flap_every", "flap_for"),
		one429: c.heal || c.says("one_429_every"),
	})
	if c.heal {
		st.heal()
	}
	if c.secrets != nil {
		st.verifier = c.secrets.verifier
	}
}
