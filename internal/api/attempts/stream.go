package attempts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// streamEvery is how often a stream looks. One whose looks take long looks less
	// often, so that reading never takes more than a twentieth of the time.
	streamEvery = 500 * time.Millisecond
	streamShare = 20
	// readFor bounds one look.
	readFor = 2 * time.Second
	// lookBack is how late an attempt may be committed after one that ended later:
	// nodes commit by themselves, and their clocks differ.
	lookBack = 3 * time.Second
	// maxLook is how many attempts one look may find. What is beyond is skipped, and
	// the client is told.
	maxLook = 10_000
	// resumeFor is how far back a stream goes on.
	resumeFor = 5 * time.Minute
	// comment keeps what is in between from thinking that nobody is there.
	comment = 15 * time.Second
	// writeFor is how long a client may take to read what it is sent.
	writeFor = 10 * time.Second
	// maxStreams bounds the open streams, all and of one key.
	maxStreams      = 200
	maxStreamsOfKey = 10
)

// streams are those that are open now.
type streams struct {
	mu   sync.Mutex
	open int
	of   map[hook.ID]int

	stopped context.Context
	stop    context.CancelFunc
}

func newStreams() *streams {
	s := &streams{of: make(map[hook.ID]int)}
	s.stopped, s.stop = context.WithCancel(context.Background())
	return s
}

// enter makes room for a stream; leave gives it back.
func (s *streams) enter(key hook.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.of[key] >= maxStreamsOfKey:
		return rest.NewProblem(http.StatusTooManyRequests, "rate_limited", fmt.Sprintf("this key has %d streams open; close one first", maxStreamsOfKey))
	case s.open >= maxStreams:
		return hook.ErrOverloaded
	}
	s.open++
	s.of[key]++
	return nil
}

func (s *streams) leave(key hook.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	s.of[key]--
	if s.of[key] == 0 {
		delete(s.of, key)
	}
}

func (l *Log) addStream() {
	explode := true
	list := func(name, doc string) *huma.Param {
		return &huma.Param{
			Name: name, In: "query", Description: doc, Explode: &explode,
			Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}},
		}
	}
	l.server.Stream(&huma.Operation{
		OperationID: "stream-attempts", Method: http.MethodGet, Path: l.cfg.Path + "/stream",
		Summary: "Follow attempts as they end", Tags: []string{"attempts"},
		Description: "Server-sent events. Each attempt is an event named attempt whose id is the attempt's and whose data is an entry of the list; a comment comes " +
			"every 15 s. With Last-Event-ID the stream goes on behind that attempt if it ended within the last 5 minutes and no more than 10,000 ended since. " +
			"Otherwise, and when more ended than the client could be sent, an event named lagged comes, whose data has how many were skipped, null when unknown. " +
			"A client that reads nothing for 10 s is dropped. A key may have 10 streams open.",
		Parameters: []*huma.Param{
			rest.TenantParam(),
			list("endpoint", "ep_… or uid; repeat for alternatives."), list("type", "order.paid or order.*"),
			list("kind", "first, retry, probe, replay or manual."), list("class", "success, down, throttled, permanent, …"),
			list("reason", "ok, server_error, timeout_total, …"),
			{Name: "Last-Event-ID", In: "header", Description: "Id of the last attempt that was received.", Schema: &huma.Schema{Type: huma.TypeString}},
		},
		Responses: map[string]*huma.Response{"200": {
			Description: "The stream",
			Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}},
	}, rest.NeedRead, l.serve)
}

// stream is one that is open.
type stream struct {
	log    *Log
	call   *rest.Call
	r      *http.Request
	w      http.ResponseWriter
	out    *http.ResponseController
	filter store.AttemptFilter

	from   hook.ID            // attempts before are not sent
	looked time.Time          // when the last look began
	sent   map[hook.ID]bool   // among those that a look finds once more
	quiet  time.Time          // when something was sent last, by the clock of the kernel
	found  []store.AttemptRow // by the last look
}

func (l *Log) serve(w http.ResponseWriter, r *http.Request) {
	c := rest.CallBy(w)
	q := r.URL.Query()
	f, err := l.filter(r.Context(), c, &Params{Endpoint: q["endpoint"], Type: q["type"], Kind: q["kind"], Class: q["class"], Reason: q["reason"]})
	if err != nil {
		l.server.Fail(w, c, err)
		return
	}
	t := &stream{log: l, call: c, r: r, w: w, out: http.NewResponseController(w), filter: f, sent: map[hook.ID]bool{}}
	lagged, err := t.begin(r.Header.Get("Last-Event-ID"))
	if err == nil {
		err = l.streams.enter(c.Key.ID)
	}
	if err != nil {
		l.server.Fail(w, c, err)
		return
	}
	defer l.streams.leave(c.Key.ID)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	if t.write([]byte("retry: 2000\n\n")) && (!lagged || t.tellLagged()) {
		t.run()
	}
}

// begin finds where to go on. lagged: not where the client was.
func (t *stream) begin(last string) (lagged bool, err error) {
	t.looked = t.call.Now
	t.from = hook.IDFloor(t.call.Now)
	if last == "" {
		return false, nil
	}
	id, err := hook.AttemptPrefix.Parse(last)
	if err != nil {
		return false, rest.BadParameter("header.Last-Event-ID", "must be the id of an attempt")
	}
	if id.Time().Before(t.call.Now.Add(-resumeFor)) {
		return true, nil
	}
	t.from, t.looked = id+1, id.Time()
	return false, nil
}

// run looks again and again until the client leaves, its key ends or the server stops.
func (t *stream) run() {
	for {
		began := time.Now()
		if !t.look() {
			return
		}
		select {
		case <-t.r.Context().Done():
			return
		case <-t.log.streams.stopped.Done():
			return
		case <-time.After(max(t.log.cfg.Every, streamShare*min(time.Since(began), readFor))):
		}
	}
}

// look sends what ended since the last look. It reports whether the stream goes on.
func (t *stream) look() bool {
	if t.log.server.Allowed(t.r, t.call) != nil {
		return false
	}
	now := t.log.server.Now()
	all, err := t.read(now)
	switch {
	case t.r.Context().Err() != nil:
		return false
	case err != nil:
		// The store is not there now. What was missed is read with the next look.
	case !all:
		t.from, t.looked = hook.IDFloor(now), now
		clear(t.sent)
		return t.tellLagged()
	default:
		if !t.send() {
			return false
		}
		t.looked = now
	}
	if time.Since(t.quiet) >= comment {
		return t.write([]byte(": still here\n\n"))
	}
	return true
}

// read finds what ended since a little before the last look; false: too much.
func (t *stream) read(now time.Time) (all bool, err error) {
	ctx, cancel := context.WithTimeout(t.r.Context(), readFor)
	defer cancel()
	f := t.filter
	back := t.looked
	if now.Before(back) {
		back = now // the clock was set back
	}
	f.EndedFrom = max(t.from, hook.IDFloor(back.Add(-lookBack)))
	f.Since = f.EndedFrom.Time().Add(-placed)
	t.found = t.found[:0]
	for p := (store.Page{Asc: true, Limit: maxLook}); ; {
		rows, next, err := t.log.cfg.Store.ListAttempts(ctx, f, p)
		if err != nil {
			return false, err
		}
		for _, r := range rows {
			if !t.sent[r.ID] {
				t.found = append(t.found, r)
			}
		}
		if len(t.found) > maxLook {
			return false, nil
		}
		if p.After = next; next == 0 {
			break
		}
	}
	for id := range t.sent {
		if id < f.EndedFrom {
			delete(t.sent, id)
		}
	}
	return true, nil
}

// send writes what was found, in the order in which it ended.
func (t *stream) send() bool {
	slices.SortFunc(t.found, func(a, b store.AttemptRow) int { return cmp.Compare(a.ID, b.ID) })
	var b bytes.Buffer
	for i, r := range t.found {
		data, err := json.Marshal(view.OfAttemptRow(r))
		if err != nil {
			return false
		}
		fmt.Fprintf(&b, "event: attempt\nid: %s\ndata: %s\n\n", hook.AttemptPrefix.Format(r.ID), data)
		t.sent[r.ID] = true
		if b.Len() < 64<<10 && i < len(t.found)-1 {
			continue
		}
		if !t.write(b.Bytes()) {
			return false
		}
		b.Reset()
	}
	return true
}

func (t *stream) tellLagged() bool {
	return t.write([]byte("event: lagged\ndata: {\"skipped\":null}\n\n"))
}

// write sends text. It reports whether the client took it.
func (t *stream) write(text []byte) bool {
	t.quiet = time.Now()
	err := t.out.SetWriteDeadline(t.quiet.Add(writeFor))
	if err == nil {
		_, err = t.w.Write(text)
	}
	if err == nil {
		err = t.out.Flush()
	}
	return err == nil
}
