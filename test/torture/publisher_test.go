package torture_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/torture/check"
)

// publishers hand over events until they are stopped. What they try and what
// they are promised is written down; a promise is on disk before the next
// event is sent.
type publishers struct {
	t         *testing.T
	names     []string // of all endpoints
	submitted *journal
	accepted  *journal
	stamp     func() int64
	count     atomic.Int64 // accepted

	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// load describes what they do.
type load struct {
	clients int
	pause   time.Duration // at most, between two requests of a client
}

// publish starts them. url names the server to ask at a try.
func publish(t *testing.T, dir string, l load, rng *rand.Rand, stamp func() int64, names []string, url func(client, try int) string) *publishers {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &publishers{t: t, names: names, stamp: stamp, cancel: cancel}
	var err error
	if p.submitted, err = openJournal(filepath.Join(dir, submittedFile)); err != nil {
		t.Fatal(err)
	}
	if p.accepted, err = openJournal(filepath.Join(dir, acceptedFile)); err != nil {
		t.Fatal(err)
	}
	run := rng.Uint32()
	for c := range l.clients {
		own := rand.New(rand.NewPCG(rng.Uint64(), uint64(c)))
		p.wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				key := fmt.Sprintf("%08x-%d-%d", run, c, n)
				if err := p.one(ctx, own, key, func(try int) string { return url(c, try) }); err != nil {
					if ctx.Err() == nil {
						t.Errorf("publish: %v", err)
					}
					return
				}
				time.Sleep(between(own, 0, l.pause))
			}
		})
	}
	t.Cleanup(p.stop)
	return p
}

// stop ends them. What is on its way then may have been accepted or not.
func (p *publishers) stop() {
	p.cancel()
	p.wg.Wait()
	_ = p.submitted.close()
	_ = p.accepted.close()
}

// event is one that is to be handed over.
type event struct {
	check.Submitted
	typ     string
	payload string
}

// draw makes an event for one endpoint, now and then for all, mostly small.
func (p *publishers) draw(rng *rand.Rand, key string) event {
	e := event{typ: "all.of-them", Submitted: check.Submitted{Key: key, Endpoints: p.names}}
	if rng.IntN(8) > 0 {
		name := p.names[rng.IntN(len(p.names))]
		e.typ, e.Endpoints = "only."+name, []string{name}
	}
	filler := 16 + rng.IntN(500)
	if rng.IntN(50) == 0 {
		filler = 30_000 + rng.IntN(30_000)
	}
	e.payload = fmt.Sprintf(`{"key":%q,  "filler":"%s"}`, key, strings.Repeat(string(rune('a'+rng.IntN(26))), filler))
	sum := sha256.Sum256([]byte(e.payload))
	e.Body = hex.EncodeToString(sum[:])
	return e
}

// one hands over an event, or a batch, through all faults.
func (p *publishers) one(ctx context.Context, rng *rand.Rand, key string, url func(try int) string) error {
	if rng.IntN(10) == 0 {
		return p.batch(ctx, rng, key, url)
	}
	e := p.draw(rng, key)
	if _, err := p.submitted.write(e.Submitted); err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"type":%q,"payload":%s}`, e.typ, e.payload)
	var out struct {
		ID         string
		Deliveries int
	}
	err := again(ctx, func(try int) error {
		return call(ctx, http.MethodPost, url(try)+tenant+"/events", body, &out, "Idempotency-Key", key)
	})
	if err != nil {
		return err
	}
	return p.promise(check.Accepted{Key: key, Event: out.ID, Deliveries: out.Deliveries})
}

// batch hands over several events in one request and repeats those that were
// not accepted.
func (p *publishers) batch(ctx context.Context, rng *rand.Rand, key string, url func(try int) string) error {
	var left []event
	for i := range 2 + rng.IntN(8) {
		e := p.draw(rng, fmt.Sprintf("%s-%d", key, i))
		if _, err := p.submitted.write(e.Submitted); err != nil {
			return err
		}
		left = append(left, e)
	}
	for len(left) > 0 {
		members := make([]string, len(left))
		for i, e := range left {
			members[i] = fmt.Sprintf(`{"type":%q,"payload":%s,"idempotency_key":%q}`, e.typ, e.payload, e.Key)
		}
		body := []byte(`{"events":[` + strings.Join(members, ",") + `]}`)
		var out struct {
			Results []struct {
				Index, Status, Deliveries int
				ID                        string
			}
		}
		err := again(ctx, func(try int) error {
			return call(ctx, http.MethodPost, url(try)+tenant+"/events/batch", body, &out)
		})
		if err != nil {
			return err
		}
		var refused []event
		for _, r := range out.Results {
			if r.Status/100 != 2 {
				refused = append(refused, left[r.Index])
				continue
			}
			if err := p.promise(check.Accepted{Key: left[r.Index].Key, Event: r.ID, Deliveries: r.Deliveries}); err != nil {
				return err
			}
		}
		left = refused
	}
	return nil
}

// promise writes down that an event was accepted. The stamp is taken first:
// what the disk does from now on came too late for this answer.
func (p *publishers) promise(a check.Accepted) error {
	if p.stamp != nil {
		a.Stamp = p.stamp()
	}
	if err := p.accepted.writeThrough(a); err != nil {
		return err
	}
	p.count.Add(1)
	return nil
}

// again repeats a request until it is answered with 2xx, or with a refusal
// that will not change.
func again(ctx context.Context, request func(try int) error) error {
	for try := 0; ; try++ {
		err := request(try)
		var refused *errAnswer
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused) && refused.status < 500 && refused.status != http.StatusTooManyRequests:
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
