package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/lab/pgcluster"
)

// Nodes measures several nodes on one Postgres, with publishers spread over
// them. On one machine more nodes cannot be faster; what shows is the cost of
// sharing, and that nothing arrives twice.
func (b *Bench) Nodes(ctx context.Context, counts []int) (*Report, error) {
	b.cfg.Subjects = []Subject{Postgres}
	undo, err := b.open(ctx)
	defer undo()
	if err != nil {
		return nil, err
	}
	report, err := b.newReport("several nodes on one Postgres")
	if err != nil {
		return nil, err
	}
	steps := &steps{b: b, total: b.cfg.Rounds * len(counts)}
	for round := range b.cfg.Rounds {
		for _, n := range counts {
			if err := b.nodes(ctx, n, round+1, report, steps); err != nil {
				return nil, fmt.Errorf("%d nodes: %w", n, err)
			}
		}
	}
	report.conclude(time.Now())
	return report, nil
}

func (b *Bench) nodes(ctx context.Context, n, round int, report *Report, steps *steps) error {
	st, err := b.startServers(ctx, Postgres, n)
	if err != nil {
		return err
	}
	defer st.close()
	if err := b.addEndpoints(ctx, st, 1); err != nil {
		return err
	}
	if err := b.awaitShare(ctx, st, n); err != nil {
		return err
	}
	row := b.cfg.Rows[0]
	row.Name = fmt.Sprintf("%d nodes", n)
	if n == 1 {
		row.Name = "1 node"
	}
	m, err := steps.measure(ctx, st, load{row: row, group: anyGroup}, round)
	if err != nil {
		return err
	}
	report.add(&row, Postgres, m)
	return nil
}

// owners counts the nodes that own shards, all shards with an owner, and those
// of the node that has most.
const owners = `
SELECT count(*) || ' ' || coalesce(sum(n), 0) || ' ' || coalesce(max(n), 0) FROM (
	SELECT count(*) AS n FROM shards WHERE owner_id IS NOT NULL AND expires_at > clock_timestamp() GROUP BY owner_id
) AS shares`

// shareLimit is how long nodes may take to agree on who owns what.
const shareLimit = time.Minute

// awaitShare waits until n nodes share all shards, none of them much more than
// its part.
func (b *Bench) awaitShare(ctx context.Context, st *site, n int) error {
	const shards = 256
	for begin := b.now(); b.now()-begin < shareLimit; {
		text, err := pgcluster.Query(st.dsn, owners)
		if err != nil {
			return fmt.Errorf("see who owns what: %w", err)
		}
		var nodes, owned, most int
		if _, err := fmt.Sscan(text, &nodes, &owned, &most); err != nil {
			return fmt.Errorf("see who owns what: %w", err)
		}
		if nodes == n && owned == shards && most < 2*shards/n+1 {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d nodes did not share the shards within %v", n, shareLimit)
}
