package notify_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
)

const (
	patience  = 2 * time.Minute
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	publicURL = "https://hooks.example.net"
)

// memory is a queue like that of the stores, with an eye on its rules.
type memory struct {
	mu      sync.Mutex
	list    []*stored
	down    bool          // every call fails
	endFail int           // so many calls of End fail
	asked   int           // calls of Due
	slow    time.Duration // from the look of Due to its answer
}

type stored struct {
	n      notify.Notice
	due    time.Time
	result hook.NoticeResult
	errors []string
	begun  []time.Time
}

var errDown = errors.New("the store is down")

func (m *memory) add(n notify.Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.At.IsZero() {
		n.At = time.Now().Add(time.Duration(len(m.list)) * time.Microsecond) // one moment, one notice
	}
	m.list = append(m.list, &stored{n: n, due: n.At, result: hook.NoticeWaiting})
}

func (m *memory) Due(_ context.Context, now time.Time, busy []hook.ID, limit int) ([]notify.Notice, error) {
	if m.slow > 0 {
		defer time.Sleep(m.slow) // after the lock is free
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	if m.down {
		return nil, errDown
	}
	var out []*stored
	type lane struct{ channel, alert hook.ID }
	first := map[lane]bool{}
	for _, s := range m.list { // in the order of being decided
		if s.result != hook.NoticeWaiting {
			continue
		}
		if s.n.Alert != nil {
			l := lane{s.n.Channel.ID, s.n.Alert.ID}
			if first[l] {
				continue
			}
			first[l] = true
		}
		if !s.due.After(now) && !slices.Contains(busy, s.n.Channel.ID) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *stored) int { return a.due.Compare(b.due) })
	var notices []notify.Notice
	for _, s := range out[:min(len(out), limit)] {
		n := s.n
		n.Reached = slices.Clone(n.Reached)
		if n.Alert != nil {
			a := *n.Alert
			n.Alert = &a
		}
		notices = append(notices, n)
	}
	return notices, nil
}

func (m *memory) find(key notify.Key) *stored {
	for _, s := range m.list {
		if s.n.Key() == key {
			return s
		}
	}
	return nil
}

func (m *memory) Begin(_ context.Context, key notify.Key, tries int, again time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return false, errDown
	}
	s := m.find(key)
	if s == nil || s.result != hook.NoticeWaiting || s.n.Tries != tries {
		return false, nil
	}
	s.n.Tries, s.due = tries+1, again
	s.begun = append(s.begun, time.Now())
	return true, nil
}

func (m *memory) End(_ context.Context, key notify.Key, out notify.Outcome) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down || m.endFail > 0 {
		m.endFail--
		return errDown
	}
	s := m.find(key)
	if s == nil || s.result != hook.NoticeWaiting {
		return nil
	}
	s.result, s.n.Tries, s.due, s.n.Reached = out.Result, out.Tries, out.Next, out.Reached
	s.errors = append(s.errors, out.Error)
	return nil
}

// results waits until every notice has ended, and returns their results.
func (m *memory) results(ctx context.Context, t *testing.T) []hook.NoticeResult {
	t.Helper()
	for {
		m.mu.Lock()
		var out []hook.NoticeResult
		ended := true
		for _, s := range m.list {
			out = append(out, s.result)
			ended = ended && s.result != hook.NoticeWaiting
		}
		m.mu.Unlock()
		if ended {
			return out
		}
		select {
		case <-ctx.Done():
			t.Fatalf("notices did not end: %v", out)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (m *memory) at(i int) stored {
	m.mu.Lock()
	defer m.mu.Unlock()
	return *m.list[i]
}

// guarded is the real way out, as app hands it over.
type guarded struct{ client *egress.Client }

func newGuarded(t *testing.T, cfg egress.Config) guarded {
	t.Helper()
	client, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdle)
	return guarded{client}
}

func (g guarded) Do(ctx context.Context, req *notify.Request) (int, []byte, error) {
	total := time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		total = time.Until(deadline)
	}
	var header []egress.Field
	for name, values := range req.Header {
		for _, v := range values {
			header = append(header, egress.Field{Name: name, Value: v})
		}
	}
	res := g.client.Send(ctx, &egress.Request{Tenant: req.Tenant, URL: req.URL, Body: req.Body, Header: header, Total: total})
	switch {
	case res.Reason == hook.BlockedAddress:
		return 0, nil, notify.ErrRefused
	case res.Reason != 0:
		return 0, nil, errors.New(res.Text)
	}
	return res.Status, res.Body[:min(len(res.Body), req.MaxBody)], nil
}

// httpFunc is a receiver without a network, for virtual time.
type httpFunc func(ctx context.Context, req *notify.Request) (int, []byte, error)

func (f httpFunc) Do(ctx context.Context, req *notify.Request) (int, []byte, error) {
	return f(ctx, req)
}

func newSender(t *testing.T, cfg notify.Config) *notify.Sender {
	t.Helper()
	if cfg.Queue == nil {
		cfg.Queue = &memory{}
	}
	if cfg.HTTP == nil {
		cfg.HTTP = httpFunc(func(context.Context, *notify.Request) (int, []byte, error) { return http.StatusOK, nil, nil })
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.PublicURL == "" {
		cfg.PublicURL = publicURL
	}
	s, err := notify.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run starts the sender and returns a function that stops it and waits.
func run(t *testing.T, s *notify.Sender) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stopped := false
	return func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	}
}

var since = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

func alert(id hook.ID) *hook.Alert {
	return &hook.Alert{
		ID: id, Rule: "retry_storm", Level: hook.LevelEndpoint, Severity: hook.SeverityPage, Status: hook.AlertFiring,
		Subject: hook.AlertSubject{Tenant: 11, Endpoint: 12}, Summary: "505 retries for 53 first attempts in 15 minutes (ratio 9.53)",
		Value: 9.53, Threshold: 5, Since: since, LastAt: since.Add(time.Minute), Count: 1,
	}
}

func resolved(id hook.ID) *hook.Alert {
	a := alert(id)
	a.Status, a.ResolvedAt = hook.AlertResolved, since.Add(12*time.Minute+30*time.Second)
	a.Summary = "Over after 12m30s. It was: " + a.Summary
	return a
}

// notice is one about an endpoint's alert.
func notice(ch hook.Channel, a *hook.Alert, kind hook.NoticeKind) notify.Notice {
	return notify.Notice{
		Channel: ch, Alert: a, Kind: kind, Endpoint: "https://api.example.com/hook?key=s3cret", Tenant: "Acme & Söhne <b>",
	}
}

func webhook(id hook.ID, url string) hook.Channel {
	return hook.Channel{ID: id, Name: "pager", Kind: hook.ChannelWebhook, SendResolved: true, URL: url, Secret: secret}
}

func slack(id hook.ID, url string) hook.Channel {
	return hook.Channel{ID: id, Name: "chat", Kind: hook.ChannelSlack, SendResolved: true, URL: url}
}
