package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/wire"
)

// load is what publishers do during one measurement.
type load struct {
	row     Row
	rate    float64 // events per second of all publishers; 0: as fast as answers come
	profile string  // name of a CPU profile to take; empty: none
	events  int64   // stop after so many; 0: when told
	group   int     // the group of all events; below zero: all groups in turn
}

// anyGroup spreads the events over all groups.
const anyGroup = -1

// onTheWay bounds the events that were sent and have not arrived, for loads
// that follow the answers. Without a bound, a subject that acknowledges faster
// than it delivers would only pile up a backlog, and what is measured would be
// no state that can last. It is larger than what all publishers wait for.
func (l *load) onTheWay() int {
	if l.rate > 0 {
		return 0
	}
	return max(1024, 2*l.row.Publishers*l.row.Batch)
}

// publishers send until they are told to stop.
type publishers struct {
	b      *Bench
	site   *site
	ledger *ledger
	load   load

	stop chan struct{}
	wg   sync.WaitGroup
	mu   sync.Mutex
	err  error // the first one: hundreds of publishers fail for the same reason
}

// publish connects all publishers and starts them.
func (b *Bench) publish(ctx context.Context, st *site, ledger *ledger, l load) (*publishers, error) {
	p := &publishers{b: b, site: st, ledger: ledger, load: l, stop: make(chan struct{})}
	var all []*publisher
	for i := range l.row.Publishers {
		address := st.address(i)
		conn, err := wire.Dial(ctx, address)
		if err != nil {
			for _, one := range all {
				_ = one.conn.Close()
			}
			return nil, err
		}
		rng := newRandom(i)
		all = append(all, &publisher{publishers: p, conn: conn, message: newMessage(st, address, &l.row, rng), rng: rng})
	}
	for _, one := range all {
		p.wg.Go(func() {
			defer func() { _ = one.conn.Close() }()
			if err := one.run(); err != nil {
				p.fail(cmp.Or(ctx.Err(), err)) // an end that was asked for breaks connections too
			}
		})
	}
	return p, nil
}

// newRandom makes the payloads and the pace of a publisher, the same in every
// run.
func newRandom(publisher int) *rand.Rand {
	return rand.New(rand.NewPCG(1, uint64(publisher)))
}

func (p *publishers) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = cmp.Or(p.err, err)
}

// end waits for the answers that are due and returns what went wrong.
func (p *publishers) end() error {
	close(p.stop)
	p.wg.Wait()
	return p.err
}

// publisher has one connection and one request at a time.
type publisher struct {
	*publishers

	conn    *wire.Conn
	message *message
	rng     *rand.Rand
}

func (p *publisher) run() error {
	if p.load.rate > 0 {
		return p.runPaced()
	}
	for p.running() {
		if more, err := p.send(p.b.now); err != nil || !more {
			return err
		}
	}
	return nil
}

func (p *publisher) running() bool {
	select {
	case <-p.stop:
		return false
	default:
		return true
	}
}

// runPaced sends at random moments, as independent sources do. The latency
// counts from the moment that was drawn, not from when the connection was free
// again: otherwise a server that stalls would be asked less.
func (p *publisher) runPaced() error {
	mean := float64(p.load.row.Publishers*p.load.row.Batch) / p.load.rate * float64(time.Second)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for next := p.b.now(); ; {
		next += time.Duration(p.rng.ExpFloat64() * mean)
		timer.Reset(next - p.b.now())
		select {
		case <-p.stop:
			return nil
		case <-timer.C:
		}
		if more, err := p.send(func() time.Duration { return next }); err != nil || !more {
			return err
		}
	}
}

// refusedPause keeps a publisher from asking a server that refuses all the time.
const refusedPause = 20 * time.Millisecond

// send makes one request. at says when it is sent. It reports false when there
// is nothing more to send.
func (p *publisher) send(at func() time.Duration) (more bool, err error) {
	count := len(p.message.events)
	first, ok := p.ledger.reserve(count, p.stop)
	if !ok {
		return false, nil
	}
	sent := at()
	for i := range count {
		number := first + int64(i)
		p.message.stamp(i, p.groupOf(number), number, sent)
	}
	status, body, err := p.conn.Do(p.message.raw)
	if err != nil {
		return false, err
	}
	p.ledger.answered(sent, p.b.now())
	switch {
	case status == http.StatusAccepted && count == 1:
		p.ledger.accept(first)
	case status == http.StatusAccepted:
		return true, p.noteBatch(first, body)
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		p.ledger.refuse(count)
		time.Sleep(refusedPause)
	default:
		return false, fmt.Errorf("an event was refused: status %d: %s", status, body)
	}
	return true, nil
}

func (p *publisher) groupOf(number int64) int {
	if p.load.group >= 0 {
		return p.load.group
	}
	return int(number % int64(p.b.cfg.Groups))
}

// batchAnswer is the answer to a batch. The relay leaves out the results.
type batchAnswer struct {
	Accepted int `json:"accepted"`
	Results  []struct {
		Index  int `json:"index"`
		Status int `json:"status"`
	} `json:"results"`
}

// noteBatch notes what became of the events of a batch. The answer says first
// how many were accepted, which is nearly always all of them.
func (p *publisher) noteBatch(first int64, body []byte) error {
	count := len(p.message.events)
	all := fmt.Appendf(nil, `{"accepted":%d,`, count)
	if bytes.HasPrefix(body, all) {
		for i := range count {
			p.ledger.accept(first + int64(i))
		}
		return nil
	}
	var answer batchAnswer
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("understand answer to a batch: %w", err)
	}
	for _, r := range answer.Results {
		if r.Status == http.StatusAccepted {
			p.ledger.accept(first + int64(r.Index))
		} else {
			p.ledger.refuse(1)
		}
	}
	return nil
}
