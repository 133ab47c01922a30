package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
)

// Bounds and defaults of Config.
const (
	defaultPoll    = 5 * time.Second
	minPoll        = 100 * time.Millisecond
	maxPoll        = time.Minute
	defaultTimeout = 30 * time.Second
	minTimeout     = time.Second
	maxTimeout     = mailer.MaxSession
	defaultGrace   = 5 * time.Second
	maxGrace       = time.Minute
	defaultSending = 32
	maxSending     = 1000

	storeCall = 10 * time.Second
	batch     = 64 // notices asked for at once
	maxSeen   = 10_000
	// readFor is for how long it is good what was read: what has ended meanwhile
	// cannot begin, but an alert may be over.
	readFor = time.Second
)

// Config says where notices come from and how they go out.
type Config struct {
	Queue Queue
	HTTP  HTTP
	// SMTP is the mail server; without a host, channels of kind email fail.
	SMTP mailer.Config
	Log  *slog.Logger // also the log channel

	// PublicURL is the address of the server for people; without it notices have no
	// links. RunbookURL is the page with a section for each rule; empty:
	// docs/alerts.md below PublicURL.
	PublicURL  string
	RunbookURL string

	Poll    time.Duration // how often the queue is asked without a hint; 0: 5 s; 100 ms to 1 min
	Timeout time.Duration // of one try; 0: 30 s; 1 s to 2 min
	Grace   time.Duration // for tries that run when Run is to end; 0: 5 s, at most 1 min
	Sending int           // channels that send at the same time; 0: 32; 1 to 1000
}

// Sender sends notices.
type Sender struct {
	queue   Queue
	http    HTTP
	mailer  *mailer.Mailer // nil: none
	log     *slog.Logger
	links   links
	poll    time.Duration
	timeout time.Duration
	grace   time.Duration
	sending int

	wake    chan struct{} // of size 1
	running atomic.Bool
}

// New checks cfg, fills in defaults, and starts nothing.
func New(cfg Config) (*Sender, error) {
	cfg.Poll = cmp.Or(cfg.Poll, defaultPoll)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.Grace = cmp.Or(cfg.Grace, defaultGrace)
	cfg.Sending = cmp.Or(cfg.Sending, defaultSending)
	if err := cfg.check(); err != nil {
		return nil, err
	}
	links, err := newLinks(cfg.PublicURL, cfg.RunbookURL)
	if err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	s := &Sender{
		queue: cfg.Queue, http: cfg.HTTP, log: cfg.Log, links: links,
		poll: cfg.Poll, timeout: cfg.Timeout, grace: cfg.Grace, sending: cfg.Sending,
		wake: make(chan struct{}, 1),
	}
	if s.mailer, err = newMailer(cfg.SMTP); err != nil {
		return nil, fmt.Errorf("notify: %w", err)
	}
	return s, nil
}

func (cfg *Config) check() error {
	switch {
	case cfg.Queue == nil || cfg.HTTP == nil || cfg.Log == nil:
		return errors.New("notify: Queue, HTTP and Log are required")
	case cfg.Poll < minPoll || cfg.Poll > maxPoll:
		return fmt.Errorf("notify: Poll must be %v to %v", minPoll, maxPoll)
	case cfg.Timeout < minTimeout || cfg.Timeout > maxTimeout:
		return fmt.Errorf("notify: Timeout must be %v to %v", minTimeout, maxTimeout)
	case cfg.Grace < 0 || cfg.Grace > maxGrace:
		return fmt.Errorf("notify: Grace must be 0 to %v", maxGrace)
	case cfg.Sending < 1 || cfg.Sending > maxSending:
		return fmt.Errorf("notify: Sending must be 1 to %d", maxSending)
	}
	return nil
}

// newMailer returns nil without a host, which is an error once anything else is
// set.
func newMailer(cfg mailer.Config) (*mailer.Mailer, error) {
	if cfg.Host != "" {
		return mailer.New(cfg)
	}
	if cfg.Username != "" || cfg.Password != "" || cfg.From != "" {
		return nil, errors.New("smtp.host must not be empty when smtp.username, smtp.password or smtp.from is given")
	}
	return nil, nil
}

// Wake makes Run look for notices now, for instance because some were just
// stored. It never blocks.
func (s *Sender) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sends what is due until ctx ends. It then lets tries that are under way
// end within the grace period, stores what became of them, and returns nil when
// all its goroutines have ended. It may not run twice at the same time.
func (s *Sender) Run(ctx context.Context) error {
	if !s.running.CompareAndSwap(false, true) {
		return errors.New("notify: Run is running already")
	}
	defer s.running.Store(false)

	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r := &round{s: s, busy: map[hook.ID]hook.ID{}, seen: map[hook.ID]hook.ID{}, ready: map[hook.ID]*ready{}, done: make(chan ended)}
	timer := time.NewTimer(s.poll)
	defer timer.Stop()
	for look := true; ctx.Err() == nil; {
		if look {
			r.start(ctx, sending)
		}
		look = true
		timer.Reset(r.pause(time.Now()))
		select {
		case <-ctx.Done():
		case e := <-r.done:
			r.end(e)
			look = !r.goOn(ctx, sending, e.channel)
		case <-s.wake:
		case <-timer.C:
		}
	}
	grace := time.AfterFunc(s.grace, cancel)
	defer grace.Stop()
	for len(r.busy) > 0 {
		r.end(<-r.done)
	}
	return nil
}

// round is what Run knows: which channels send right now, and when it expects
// another try.
type round struct {
	s     *Sender
	busy  map[hook.ID]hook.ID // and whose they are
	seen  map[hook.ID]hook.ID // channels of tenants that had notices, and whose they are
	done  chan ended
	ready map[hook.ID]*ready // by channel
	next  []time.Time
	blind bool // the queue could not be asked; said once
}

// ready is what was read of a busy channel, and when.
type ready struct {
	list []Notice
	at   time.Time
}

// ended is a channel that is free again, and when its notice wants another try;
// zero: never.
type ended struct {
	channel hook.ID
	next    time.Time
}

func (r *round) end(e ended) {
	delete(r.busy, e.channel)
	if !e.next.IsZero() {
		r.next = append(r.next, e.next)
	}
}

// pause is how long to wait when nothing happens: until the next try that is
// known of, and never longer than a poll.
func (r *round) pause(now time.Time) time.Duration {
	wait := r.s.poll
	for _, at := range r.next {
		wait = min(wait, at.Sub(now))
	}
	return max(wait, time.Millisecond)
}

// start gives a due notice to every channel that is free, as far as the bounds
// allow.
func (r *round) start(ctx, sending context.Context) {
	now := time.Now()
	r.next = slices.DeleteFunc(r.next, func(at time.Time) bool { return !at.After(now) })
	later := r.later()
	maps.DeleteFunc(r.ready, func(channel hook.ID, p *ready) bool {
		_, busy := r.busy[channel]
		return !busy || now.Sub(p.at) > readFor
	})
	for len(r.busy) < r.s.sending {
		notices, err := r.due(ctx, now, later)
		if err != nil {
			if ctx.Err() == nil && !r.blind {
				r.s.log.WarnContext(ctx, "notices cannot be read; trying on", "error", err)
			}
			r.blind = true
			return
		}
		r.blind = false
		before := len(r.busy) + len(later)
		for i := range notices {
			n := &notices[i]
			if tenant := n.Channel.Tenant; tenant != 0 {
				r.seen[n.Channel.ID] = tenant
			}
			if r.mayStart(n.Channel.Tenant) {
				r.begin(ctx, sending, n)
			} else {
				later[n.Channel.ID] = true
			}
		}
		if len(notices) < batch || len(r.busy)+len(later) == before {
			return // with a full batch for few channels, others may wait behind it
		}
	}
}

func (r *round) due(ctx context.Context, now time.Time, later map[hook.ID]bool) ([]Notice, error) {
	ctx, cancel := context.WithTimeout(ctx, storeCall)
	defer cancel()
	return r.s.queue.Due(ctx, now, slices.AppendSeq(slices.Collect(maps.Keys(r.busy)), maps.Keys(later)), batch)
}

// goOn begins what was read of a channel that is free again, unless that is too long
// ago: with much that waits, a look costs more than a notice.
func (r *round) goOn(ctx, sending context.Context, channel hook.ID) bool {
	p := r.ready[channel]
	if p == nil || len(p.list) == 0 || time.Since(p.at) > readFor {
		return false
	}
	n := &p.list[0]
	p.list = p.list[1:]
	r.begin(ctx, sending, n)
	return true
}

// later are channels that are free, but whose owner has its share: they need not be
// read, however much waits for them.
func (r *round) later() map[hook.ID]bool {
	if len(r.seen) > maxSeen {
		clear(r.seen)
	}
	may, out := map[hook.ID]bool{}, map[hook.ID]bool{}
	for channel, tenant := range r.seen {
		ok, known := may[tenant]
		if !known {
			ok = r.mayStart(tenant)
			may[tenant] = ok
		}
		if !ok {
			out[channel] = true
		}
	}
	return out
}

// mayStart reports whether the owner of a channel may have one more that sends.
// Receivers that never answer keep their channels busy as long as notices wait, and
// what waits longest is next: without shares, tenants with enough of them would
// keep everybody else from being told, the operator included.
func (r *round) mayStart(owner hook.ID) bool {
	if owner == 0 {
		return true
	}
	all, own := 0, 0
	for _, tenant := range r.busy {
		if tenant != 0 {
			all++
		}
		if tenant == owner {
			own++
		}
	}
	most := r.s.sending
	return own < max(most/8, 1) && all < max(most-most/4, 1)
}

// begin sends a notice on a goroutine of its own, unless its channel is busy.
func (r *round) begin(ctx, sending context.Context, n *Notice) {
	channel := n.Channel.ID
	if _, busy := r.busy[channel]; busy || len(r.busy) >= r.s.sending {
		if r.ready[channel] == nil {
			r.ready[channel] = &ready{at: time.Now()}
		}
		r.ready[channel].list = append(r.ready[channel].list, *n)
		return
	}
	r.busy[channel] = n.Channel.Tenant
	go func() { r.done <- ended{channel, r.s.work(ctx, sending, n)} }()
}
