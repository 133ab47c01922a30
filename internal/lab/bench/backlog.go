package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/bench/wire"
)

// fillRow is how a backlog is made: in large batches.
var fillRow = Row{Name: "fill", Publishers: 8, Payload: 1024, Fanout: 1, Batch: 250}

// Backlog measures what many deliveries that wait for a dead endpoint do to
// the others. For every size there are two servers, one without a backlog and
// one with it; they are measured in turns, at full and at half load. At last
// the one with the backlog is restarted.
func (b *Bench) Backlog(ctx context.Context, waiting []int64) (*Report, error) {
	b.withoutRelay()
	undo, err := b.open(ctx)
	defer undo()
	if err != nil {
		return nil, err
	}
	report, err := b.newReport("backlog of a dead endpoint")
	if err != nil {
		return nil, err
	}
	steps := &steps{b: b, total: len(b.cfg.Subjects) * len(waiting) * b.cfg.Rounds * 4}
	for _, s := range b.cfg.Subjects {
		for _, n := range waiting {
			if err := b.backlog(ctx, s, n, report, steps); err != nil {
				return nil, fmt.Errorf("backlog of %d on %s: %w", n, s, err)
			}
		}
	}
	report.conclude(time.Now())
	return report, nil
}

// withoutRelay takes the yardstick off the list: it holds nothing and has no
// tenants.
func (b *Bench) withoutRelay() {
	b.cfg.Subjects = slices.DeleteFunc(slices.Clone(b.cfg.Subjects), Subject.isRelay)
}

// steps counts the measurements of a scenario.
type steps struct {
	b           *Bench
	done, total int
}

// measure tells of a measurement before and after it.
func (t *steps) measure(ctx context.Context, st *site, l load, round int) (*Measure, error) {
	step := Step{Done: t.done, Total: t.total, Round: round, What: l.row.Name, Subject: st.subject}
	t.b.cfg.Told(step)
	m, err := t.b.measure(ctx, st, l)
	if err != nil {
		return nil, err
	}
	t.done++
	step.Done, step.Measure = t.done, m
	t.b.cfg.Told(step)
	return m, nil
}

// pair are the two servers of one size.
type pair struct{ without, with *site }

func (b *Bench) backlog(ctx context.Context, s Subject, n int64, report *Report, steps *steps) error {
	base := b.cfg.Rows[0]
	var p pair
	var err error
	if p.without, err = b.start(ctx, s, &base); err != nil {
		return err
	}
	defer func() { p.without.close() }()
	if p.with, err = b.start(ctx, s, &base); err != nil {
		return err
	}
	defer func() { p.with.close() }()
	dead, err := b.fill(ctx, p.with, n, report)
	if err != nil {
		return err
	}
	c, err := b.comparePair(ctx, &p, n, report, steps)
	if err != nil {
		return err
	}
	usage, _, err := p.with.usage()
	if err != nil {
		return err
	}
	name := thousands(float64(n)) + " waiting"
	list, looked, err := p.with.slowestList(ctx, dead)
	if err != nil {
		return b.explain(p.with, err)
	}
	clean, err := b.restart(ctx, p.with, (*child).stop)
	if err != nil {
		return err
	}
	killed, err := b.restart(ctx, p.with, (*child).kill)
	if err != nil {
		return err
	}
	report.fact(s, name+": memory of the server", float64(usage.Now)/(1<<20), "MiB")
	report.fact(s, name+": slowest list, "+list, looked.Seconds()*1000, "ms")
	report.fact(s, name+": stop and start to first delivery", clean.Seconds(), "s")
	report.fact(s, name+": kill -9 and start to first delivery", killed.Seconds(), "s")
	report.Goals = append(report.Goals,
		atLeast(s.title()+", "+name+": delivered ÷ without", figureOf(c.rates), 0.95, "%.2f"),
		atMost(s.title()+", "+name+": p99 at half load ÷ without", figureOf(c.tails), 2, "%.2f"),
		atMost(s.title()+", "+name+": memory", figureOf([]float64{float64(usage.Now) / (1 << 20)}), 200, "%.0f MiB"),
		atMost(s.title()+", "+name+": slowest list", figureOf([]float64{looked.Seconds() * 1000}), 100, "%.1f ms"),
		atMost(s.title()+", "+name+": start to first delivery", figureOf([]float64{max(clean, killed).Seconds()}), 2, "%.2f s"))
	return nil
}

// fill publishes n events to a dead endpoint and waits until its breaker has
// had time to open. It returns the endpoint.
func (b *Bench) fill(ctx context.Context, st *site, n int64, report *Report) (string, error) {
	dead := b.cfg.Groups // one after the last group
	endpoint, err := st.call(ctx, "/v1/tenants/default/endpoints", map[string]any{
		"url": b.receiver.URL() + "/" + string(deadPath) + "/0", "types": []string{typeOf(dead)},
	}, "id")
	if err != nil {
		return "", err
	}
	row := fillRow
	row.Batch = int(min(int64(row.Batch), n))
	book := newLedger(1, 0, b.now)
	book.last = n / int64(row.Batch) * int64(row.Batch)
	b.ledger.Store(book)
	begin := b.now()
	p, err := b.publish(ctx, st, book, load{row: row, group: dead})
	if err != nil {
		return "", err
	}
	stop := b.preparing(func() string {
		return fmt.Sprintf("%s: %s of %s events for the dead endpoint", st.subject, thousands(float64(book.accepted.Load())), thousands(float64(n)))
	})
	p.wg.Wait()
	stop()
	if err := p.end(); err != nil {
		return "", b.explain(st, err)
	}
	took := b.now() - begin
	report.fact(st.subject, fmt.Sprintf("%s waiting: filled in batches of %d", thousands(float64(n)), row.Batch),
		float64(book.accepted.Load())/took.Seconds(), "events/s")
	return endpoint, sleep(ctx, b.cfg.WarmUp)
}

// comparison holds, per round, what the server with the backlog did in relation
// to the other one.
type comparison struct{ rates, tails []float64 }

func (b *Bench) comparePair(ctx context.Context, p *pair, n int64, report *Report, steps *steps) (*comparison, error) {
	c := &comparison{}
	for round := range b.cfg.Rounds {
		var full, half [2]*Measure
		for _, at := range []struct {
			share float64
			found *[2]*Measure
		}{{0, &full}, {0.5, &half}} {
			for _, i := range turns(round) {
				st := [2]*site{p.without, p.with}[i]
				row := b.backlogRow(n, at.share, i == 1)
				l := load{row: row, group: anyGroup}
				if at.share > 0 {
					l.rate = at.share * full[0].Delivered // the same for both
				}
				m, err := steps.measure(ctx, st, l, round+1)
				if err != nil {
					return nil, err
				}
				report.add(&row, st.subject, m)
				at.found[i] = m
			}
		}
		c.rates = append(c.rates, full[1].Delivered/full[0].Delivered)
		c.tails = append(c.tails, half[1].Arrival.P99/half[0].Arrival.P99)
	}
	return c, nil
}

// turns is the order of the two servers in a round. It alternates, so that
// neither always comes after the other when the machine gets slower.
func turns(round int) [2]int { return [2]int{round % 2, (round + 1) % 2} }

func (b *Bench) backlogRow(n int64, share float64, with bool) Row {
	row := b.cfg.Rows[0]
	row.Share = share
	row.Name = "without"
	if with {
		row.Name = "with"
	}
	if share > 0 {
		row.Name += "-half"
	}
	row.Name += " " + thousands(float64(n))
	return row
}

// restart ends a server, starts it again on its data, and returns the time from
// the start of the process to the first delivery.
func (b *Bench) restart(ctx context.Context, st *site, end func(*child)) (time.Duration, error) {
	old := st.nodes[0]
	end(old)
	book := newLedger(1, 0, b.now)
	b.ledger.Store(book)
	begin := b.now()
	c, err := b.place.start(ctx, old.extra, old.args...)
	if err != nil {
		return 0, err
	}
	st.nodes[0] = c
	conn, err := wire.Dial(ctx, st.address(0))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	row := b.cfg.Rows[0]
	m := newMessage(st, st.address(0), &row, newRandom(0))
	for n := int64(0); book.arrived.Load() == 0; n++ {
		m.stamp(0, 0, n, b.now())
		if _, _, err := conn.Do(m.raw); err != nil {
			return 0, b.explain(st, err)
		}
		// More of them do no harm; the first that arrives counts.
		for range 20 {
			if book.arrived.Load() > 0 {
				break
			}
			if err := sleep(ctx, time.Millisecond); err != nil {
				return 0, err
			}
		}
		if b.now()-begin > b.cfg.Patience {
			return 0, fmt.Errorf("no delivery within %v of the start", b.cfg.Patience)
		}
	}
	return b.now() - begin, nil
}

func (r *Report) fact(s Subject, name string, value float64, unit string) {
	r.Facts = append(r.Facts, Fact{Subject: s, Name: name, Value: value, Unit: unit})
}
