package sse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const (
	// defaultEvery is how often a stream looks. One whose looks take long looks less
	// often, so that reading never takes more than a twentieth of the time.
	defaultEvery = 500 * time.Millisecond
	lookShare    = 20
	// readFor bounds one look.
	readFor = 2 * time.Second
	// lookBack is how late a row may be committed after one with a greater id: nodes
	// commit by themselves, and their clocks differ.
	lookBack = 3 * time.Second
	// MaxLook is how many rows one look may find. What is beyond is skipped, and the
	// reader is told.
	MaxLook = 10_000
	// resumeFor is how far back a stream goes on.
	resumeFor = 5 * time.Minute
	// batch is how much is written at once.
	batch = 64 << 10
	// The streams of an API, all and of one key.
	maxStreams      = 200
	maxStreamsOfKey = 10
)

// Keys is room for the streams of an API.
func Keys() *Room[hook.ID] { return NewRoom[hook.ID](maxStreams, maxStreamsOfKey) }

// Log is what a stream follows: rows whose ids grow with time and that are committed
// a little out of order. It is read again and again. What is stored is the one place
// that knows of all, in the same way on both stores, and nothing waits for who listens.
type Log[T any] struct {
	Name   string      // of the events of the stream
	Prefix hook.Prefix // of the rows' ids, which are those of the events
	ID     func(T) hook.ID
	// Read returns rows with the id from or greater ones, in pages as the store gives
	// them; next is 0 at the end.
	Read func(ctx context.Context, from hook.ID, p store.Page) (rows []T, next hook.ID, err error)
	// Data is what a row looks like, ready for Append, and what gives its memory back.
	// A row that is gone is hook.ErrNotFound; after any other error it is tried again.
	Data func(ctx context.Context, row T) (data []byte, release func(), err error)

	Room  *Room[hook.ID]
	Every time.Duration // how often to look; 0: 500 ms
}

// LastEventID is the header with which a client goes on.
func LastEventID(doc string) *huma.Param {
	return &huma.Param{Name: "Last-Event-ID", In: "header", Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
}

// ListParam is a parameter of a stream that may be given several times.
func ListParam(name, doc string) *huma.Param {
	explode := true
	return &huma.Param{
		Name: name, In: "query", Description: doc, Explode: &explode,
		Schema: &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}},
	}
}

// Answers describes the answer of a stream.
func Answers() map[string]*huma.Response {
	return map[string]*huma.Response{"200": {
		Description: "The stream",
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
}

// follower is one stream that is open.
type follower[T any] struct {
	Log[T]

	server *rest.Server
	call   *rest.Call
	r      *http.Request
	to     *Writer

	from   hook.ID          // rows before are not sent
	looked time.Time        // when the last look that sent all began
	sent   map[hook.ID]bool // among those that a look finds once more
	found  []T              // by the last look
	spent  time.Duration    // on reading, by the last look
}

// againIn is when a client that has too many streams may have one less.
const againIn = 10 * time.Second

// Follow answers a request with what is committed from now on, or since the
// Last-Event-ID of its client, until the client leaves, its key ends or the server stops.
func Follow[T any](server *rest.Server, w http.ResponseWriter, r *http.Request, l Log[T]) {
	c := rest.CallBy(w)
	f := &follower[T]{Log: l, server: server, call: c, r: r, to: NewWriter(w), sent: map[hook.ID]bool{}}
	f.Every = cmp.Or(f.Every, defaultEvery)
	_, err := l.Room.Enter(c.Key.ID)
	switch {
	case errors.Is(err, ErrFullOfOne):
		err = rest.Later(http.StatusTooManyRequests, "rate_limited", fmt.Sprintf("this key has %d streams open; close one first", maxStreamsOfKey), againIn)
	case errors.Is(err, ErrFull):
		err = hook.ErrOverloaded
	}
	if err != nil {
		server.Fail(w, c, err)
		return
	}
	defer l.Room.Leave(c.Key.ID, false) // it tells us where it was
	lagged, err := f.begin(r.Header.Get("Last-Event-ID"))
	if err != nil {
		server.Fail(w, c, err)
		return
	}
	if f.to.Begin() && (!lagged || f.tellLagged()) {
		f.run()
	}
}

// begin finds where to go on. lagged: not where the client was.
func (f *follower[T]) begin(last string) (lagged bool, err error) {
	now := f.call.Now
	f.looked, f.from = now, hook.IDFloor(now)
	if last == "" {
		return false, f.passOver(now)
	}
	id, err := f.Prefix.Parse(last)
	if err != nil {
		return false, rest.BadParameter("header.Last-Event-ID", "must be the id of the last "+f.Name+" that was received, "+string(f.Prefix)+"…")
	}
	if id.Time().Before(now.Add(-resumeFor)) {
		return true, nil
	}
	f.from, f.looked = id+1, id.Time()
	return false, nil
}

// passOver makes the stream begin now: what is stored already is not sent. What ended
// before and is stored late is.
func (f *follower[T]) passOver(now time.Time) error {
	begin := f.from
	f.from = hook.IDFloor(now.Add(-lookBack))
	all, err := f.read(now)
	if err != nil {
		return fmt.Errorf("begin a stream: %w", err)
	}
	if !all { // too many to keep in mind
		f.from = begin
		return nil
	}
	for _, row := range f.found {
		f.sent[f.ID(row)] = true
	}
	return nil
}

// run looks again and again.
func (f *follower[T]) run() {
	for f.look() {
		select {
		case <-f.r.Context().Done():
			return
		case <-f.Room.Stopped():
			return
		case <-time.After(max(f.Every, lookShare*min(f.spent, readFor))):
		}
	}
}

// look sends what is new since the last look. It reports whether the stream goes on.
func (f *follower[T]) look() bool {
	if f.server.Allowed(f.r, f.call) != nil {
		return false
	}
	now := f.server.Now()
	began := time.Now()
	all, err := f.read(now)
	f.spent = time.Since(began)
	switch {
	case f.r.Context().Err() != nil:
		return false
	case err != nil:
		// The store is not there now. What was missed is read with the next look.
	case !all:
		f.from, f.looked = hook.IDFloor(now), now
		clear(f.sent)
		return f.tellLagged()
	default:
		took, done := f.send()
		if !took {
			return false
		}
		if done {
			f.looked = now
		}
	}
	return f.to.StayAlive()
}

// read finds what is new since a little before the last look; false: too much.
func (f *follower[T]) read(now time.Time) (all bool, err error) {
	ctx, cancel := context.WithTimeout(f.r.Context(), readFor)
	defer cancel()
	back := f.looked
	if now.Before(back) {
		back = now // the clock was set back
	}
	from := max(f.from, hook.IDFloor(back.Add(-lookBack)))
	f.found = f.found[:0]
	for p := (store.Page{Asc: true, Limit: MaxLook}); ; {
		rows, next, err := f.Read(ctx, from, p)
		if err != nil {
			return false, err
		}
		for _, row := range rows {
			if !f.sent[f.ID(row)] {
				f.found = append(f.found, row)
			}
		}
		if len(f.found) > MaxLook {
			return false, nil
		}
		if p.After = next; next == 0 {
			break
		}
	}
	for id := range f.sent {
		if id < from {
			delete(f.sent, id)
		}
	}
	return true, nil
}

// send writes what was found, in the order of ids. took: the reader took it. done: it
// was all; what could not be read now is found again.
func (f *follower[T]) send() (took, done bool) {
	slices.SortFunc(f.found, func(a, b T) int { return cmp.Compare(f.ID(a), f.ID(b)) })
	var text []byte
	for i, row := range f.found {
		id := f.ID(row)
		data, release, err := f.data(row)
		if err != nil && !errors.Is(err, hook.ErrNotFound) {
			return len(text) == 0 || f.to.Write(text), false
		}
		if err == nil {
			text = Append(text, f.Name, f.Prefix.Format(id), data)
		}
		took = true
		if len(text) >= batch || len(text) > 0 && i == len(f.found)-1 {
			took = f.to.Write(text)
			if text = text[:0]; cap(text) > 2*batch {
				text = nil
			}
		}
		release()
		if !took {
			return false, false
		}
		f.sent[id] = true
	}
	return true, true
}

func (f *follower[T]) data(row T) ([]byte, func(), error) {
	ctx, cancel := context.WithTimeout(f.r.Context(), readFor)
	defer cancel()
	began := time.Now()
	defer func() { f.spent += time.Since(began) }()
	data, release, err := f.Data(ctx, row)
	if release == nil {
		release = func() {}
	}
	return data, release, err
}

func (f *follower[T]) tellLagged() bool {
	return f.to.Send("lagged", struct {
		Skipped *int `json:"skipped"`
	}{})
}
