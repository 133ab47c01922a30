package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/wire"
)

// perTenant is how many endpoints each tenant has when there are many.
const perTenant = 100

// Endpoints measures very many endpoints with one event each: every event
// wakes a lane that slept.
func (b *Bench) Endpoints(ctx context.Context) (*Report, error) {
	b.withoutRelay()
	undo, err := b.open(ctx)
	defer undo()
	if err != nil {
		return nil, err
	}
	report, err := b.newReport("many endpoints, one event each")
	if err != nil {
		return nil, err
	}
	steps := &steps{b: b, total: len(b.cfg.Subjects) * b.cfg.Rounds}
	for round := range b.cfg.Rounds {
		for _, s := range b.cfg.Subjects {
			if err := b.endpoints(ctx, s, round+1, report, steps); err != nil {
				return nil, fmt.Errorf("%d endpoints on %s: %w", b.cfg.Groups, s, err)
			}
		}
	}
	report.conclude(time.Now())
	return report, nil
}

func (b *Bench) endpoints(ctx context.Context, s Subject, round int, report *Report, steps *steps) error {
	st, err := b.startServers(ctx, s, 1)
	if err != nil {
		return err
	}
	defer st.close()
	st.perTenant = perTenant
	st.key = st.admin // a key that may send for all tenants
	begin := b.now()
	if err := b.addManyEndpoints(ctx, st); err != nil {
		return b.explain(st, err)
	}
	if round == 1 {
		report.fact(s, "endpoints made", float64(b.cfg.Groups)/(b.now()-begin).Seconds(), "per second")
	}
	row := b.cfg.Rows[0]
	row.Name = "one each"
	m, err := steps.measure(ctx, st, load{row: row, group: anyGroup, events: int64(b.cfg.Groups)}, round)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s endpoints of %s tenants, an event each, %s",
		thousands(float64(b.cfg.Groups)), thousands(float64(b.tenants())), row.About())
	report.addAs(&row, text, s, m)
	return nil
}

func (b *Bench) tenants() int { return (b.cfg.Groups + perTenant - 1) / perTenant }

// makers is how many connections make endpoints at the same time.
const makers = 32

// addManyEndpoints makes tenants, and an endpoint for each group.
func (b *Bench) addManyEndpoints(ctx context.Context, st *site) error {
	err := b.makeMany(ctx, st, b.tenants(), func(i int) (path, body string) {
		return "/v1/tenants", fmt.Sprintf(`{"uid":%q,"name":"benchmark"}`, tenantOf(i))
	})
	if err != nil {
		return err
	}
	return b.makeMany(ctx, st, b.cfg.Groups, func(i int) (path, body string) {
		return "/v1/tenants/" + tenantOf(i/perTenant) + "/endpoints",
			fmt.Sprintf(`{"url":"%s/%d/0","types":[%q]}`, b.receiver.URL(), i, typeOf(i))
	})
}

// makeMany posts count objects over several connections.
func (b *Bench) makeMany(ctx context.Context, st *site, count int, object func(i int) (path, body string)) error {
	var next atomic.Int64
	stop := b.preparing(func() string {
		return fmt.Sprintf("%s: %s of %s made", st.subject, thousands(float64(next.Load())), thousands(float64(count)))
	})
	defer stop()
	var wg sync.WaitGroup
	errs := make([]error, makers)
	for i := range makers {
		wg.Go(func() {
			errs[i] = b.makeSome(ctx, st, &next, count, object)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (b *Bench) makeSome(ctx context.Context, st *site, next *atomic.Int64, count int, object func(i int) (path, body string)) error {
	conn, err := wire.Dial(ctx, st.address(0))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for {
		i := int(next.Add(1)) - 1
		if i >= count {
			return nil
		}
		path, body := object(i)
		var head strings.Builder
		fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n", path, st.admin)
		fmt.Fprintf(&head, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		status, answer, err := conn.Do([]byte(head.String()))
		if err != nil {
			return err
		}
		if status != http.StatusCreated {
			return fmt.Errorf("post to %s: status %d: %s", path, status, answer)
		}
	}
}
