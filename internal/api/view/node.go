package view

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Nodes are the processes that work on the store.
type Nodes struct {
	Data   []Node `json:"data" nullable:"false"`
	Shards Shards `json:"shards"`
}

// Shards is how the lanes are spread.
type Shards struct {
	Total   int   `json:"total"`
	Unowned []int `json:"unowned" nullable:"false" doc:"Nobody sends for these at the moment."`
}

// Node is one process.
type Node struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	Addr          string   `json:"addr"`
	Version       string   `json:"version"`
	Status        string   `json:"status" enum:"live,draining,gone"`
	StartedAt     Stamp    `json:"started_at"`
	Shards        []int    `json:"shards" nullable:"false" doc:"That it owns."`
	LeaseAgeMs    *float64 `json:"lease_age_ms" doc:"Since it renewed its lease; null where leases do not end."`
	LeaseLeftMs   *float64 `json:"lease_left_ms" doc:"Negative: it has ended."`
	ClockOffsetMs *float64 `json:"clock_offset_ms" doc:"How far its clock is ahead of the database's; null when nobody knows."`
	SeenAt        Stamp    `json:"seen_at" doc:"When it last told of itself."`
	Lanes         *int64   `json:"lanes" doc:"With traffic in the last 15 minutes, or open."`
	CommitP99Ms   *float64 `json:"commit_p99_ms"`
}

// Fleet is what the store knows of nodes.
type Fleet struct {
	Nodes   []store.NodeRow
	Leases  []store.ShardLease
	Watches []hook.NodeWatch
	TTL     time.Duration // of leases; 0: they do not end
}

// OfFleet shows nodes.
func OfFleet(f Fleet) Nodes {
	v := Nodes{Data: make([]Node, len(f.Nodes)), Shards: Shards{Total: len(f.Leases), Unowned: []int{}}}
	owned := map[hook.ID][]int{}
	for _, l := range f.Leases {
		if l.Free || l.Owner == 0 {
			v.Shards.Unowned = append(v.Shards.Unowned, l.Shard)
			continue
		}
		owned[l.Owner] = append(owned[l.Owner], l.Shard)
	}
	for i := range f.Nodes {
		v.Data[i] = f.node(&f.Nodes[i], owned[f.Nodes[i].ID])
	}
	return v
}

func (f *Fleet) node(n *store.NodeRow, shards []int) Node {
	v := Node{
		ID: hook.NodePrefix.Format(n.ID), Name: n.Name, Addr: n.Addr, Version: n.Version, StartedAt: Stamp(n.StartedAt),
		Status: "live", Shards: append([]int{}, shards...),
	}
	shared := f.TTL > 0
	switch gone := shared && n.Left <= 0 || !shared && len(shards) == 0; {
	case gone:
		v.Status = "gone"
	case n.Draining:
		v.Status = "draining"
	}
	if shared {
		age, left := Millis(f.TTL-n.Left), Millis(n.Left)
		v.LeaseAgeMs, v.LeaseLeftMs = &age, &left
	}
	for _, w := range f.Watches {
		if w.NodeID != n.ID {
			continue
		}
		v.SeenAt, v.Lanes = Stamp(w.UpdatedAt), &w.Lanes
		if shared {
			offset, p99 := Millis(w.Health.ClockOffset), Millis(w.Health.CommitP99)
			v.ClockOffsetMs, v.CommitP99Ms = &offset, &p99
		}
	}
	return v
}
