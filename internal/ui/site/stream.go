package site

import (
	"bytes"
	"errors"
	"hash/maphash"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/sse"
	"github.com/breakwaterhq/breakwater/internal/api/view"
)

const (
	// streamEvery is how often an open page is looked at anew. One that takes long
	// to read is looked at less often: all that a look does itself takes a
	// two-hundredth of the time, so that with what it leaves to the collector of
	// garbage an open page never takes a hundredth of a processor. Whoever looks at
	// it in an outage wants to see it change: what takes longer than streamMost
	// allows for takes longer than a page may, or waits for a busy machine.
	streamEvery = 2 * time.Second
	streamShare = 200
	streamMost  = 15 * time.Second
	// looksKept is how many of the latest looks tell what one costs.
	looksKept = 3
	// frameEvery is how often that includes what surrounds the page, and names.
	frameEvery = 10 * time.Second
	// maxStreams bounds the open pages, all and of one session.
	maxStreams          = 500
	maxStreamsOfSession = 20
)

// Again reports whether the page is there already, and looked at again for what has
// changed: what takes long is left to that.
func (v *Visit) Again() bool { return wantsStream(v.Request) }

// wantsStream reports whether a request asks for what changes on a page instead of
// the page. A page's stream has its address, and so all its state.
func wantsStream(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasPrefix(r.Header.Get("Accept"), "text/event-stream")
}

// stream keeps a page current until its browser leaves, its session ends, or the
// server stops. It reads the page again and again, as a reload would, and sends what
// is not as before: it costs deliveries nothing.
func (s *Site) stream(w http.ResponseWriter, v *Visit, p *Page) {
	if len(p.Live) == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	lagged, err := s.streams.Enter(v.session.ID)
	if err != nil {
		w.Header().Set("Retry-After", "30")
		http.Error(w, "Too many pages are open.", http.StatusServiceUnavailable)
		return
	}
	t := &stream{site: s, page: p, visit: v, to: sse.NewWriter(w), sent: make(map[string]uint64)}
	defer func() { s.streams.Leave(v.session.ID, t.to.Lagged()) }()
	if !t.to.Begin() {
		return
	}
	if lagged && !t.to.Send("lagged", map[string]string{"why": "This browser read too slowly. What it missed is here now."}) {
		return
	}
	var looks looks
	for {
		began := time.Now()
		if !t.refresh() {
			return
		}
		select {
		case <-v.Request.Context().Done():
			return
		case <-s.streams.Stopped():
			return
		case <-time.After(looks.pause(time.Since(began))):
		}
	}
}

// looks remembers how long the latest looks at a page took, the newest last.
type looks []time.Duration

// pause is how long a page is left alone after a look. The shortest of the latest is
// what a look costs: on a busy machine it takes longer, and costs the same. The first
// ones say too little, and are followed by others soon.
func (l *looks) pause(took time.Duration) time.Duration {
	*l = append(*l, min(max(took, 0), streamMost))
	if len(*l) < looksKept {
		return streamEvery
	}
	*l = (*l)[len(*l)-looksKept:]
	return min(max(streamEvery, streamShare*slices.Min(*l)), streamMost)
}

// stream is one that is open.
type stream struct {
	site   *Site
	page   *Page
	visit  *Visit
	to     *sse.Writer
	sent   map[string]uint64 // hash of each block
	around *Frame            // as it was read last
	readAt time.Time         // then, by the clock of the kernel

	endpoints map[string]*view.Endpoint // and those that pages asked for since
	tenants   map[string]string
}

// frame returns the frame of a page that is looked at again. Alerts, and what endpoints and
// tenants are called, are not read each time: they cost more than the rest of some pages.
func (t *stream) frame(v *Visit) *Frame {
	if t.around == nil || time.Since(t.readAt) >= frameEvery {
		t.around, t.readAt = t.site.frame(v, t.page), time.Now()
		t.endpoints, t.tenants = make(map[string]*view.Endpoint), make(map[string]string)
	}
	// What could not be read is asked for again.
	maps.DeleteFunc(t.endpoints, func(_ string, e *view.Endpoint) bool { return e == nil })
	v.endpoints, v.tenants = t.endpoints, t.tenants
	f := *t.around
	f.Me, f.Now, f.Tenants = &v.Me, v.Now, slices.Clone(f.Tenants) // a page may add to them
	return &f
}

var seed = maphash.MakeSeed()

// refresh reads the page and sends the blocks that have changed. It reports whether
// the stream goes on.
func (t *stream) refresh() bool {
	s := t.site
	v, err := s.known(t.visit.Request)
	if errors.Is(err, errLogin) {
		t.end()
		return false
	}
	if err == nil {
		v.Frame = t.frame(v)
		v.Frame.Content, err = s.load(v, t.page)
	}
	if err != nil {
		if v != nil && v.Request.Context().Err() != nil {
			return false
		}
		return t.to.Send("trouble", map[string]string{"why": "The page cannot be read now."})
	}
	for _, name := range append([]string{"nav-alerts"}, t.page.Live...) {
		var b bytes.Buffer
		if err := s.templates.ExecuteTemplate(&b, name, v.Frame); err != nil {
			s.cfg.Log.Error("template failed", "template", name, "error", err)
			return false
		}
		hash := maphash.Bytes(seed, b.Bytes())
		if t.sent[name] == hash {
			continue
		}
		t.sent[name] = hash
		if !t.to.Send("swap", map[string]string{"live": name, "html": b.String()}) {
			return false
		}
	}
	return t.to.Send("now", map[string]string{"at": v.Now.UTC().Format(time.RFC3339)})
}

// end tells the browser that its session is over: it loads the page again, and is asked
// to log in.
func (t *stream) end() { t.to.Send("ended", map[string]string{"why": "Your session has ended."}) }
