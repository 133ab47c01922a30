package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Base is the name of the row that the goals are about and that others are
// shares of.
const Base = "base"

// Half is the row at half of what base delivers.
const Half = "half"

// Row is one kind of load.
type Row struct {
	Name       string `json:"name"`
	Publishers int    `json:"publishers"`
	Payload    int    `json:"payload_bytes"`
	Fanout     int    `json:"fanout"`
	Batch      int    `json:"batch"` // events of one request
	// Share of what the subject delivered in row base, sent whatever the answers
	// are; 0: each publisher sends when it has its answer.
	Share float64 `json:"share,omitzero"`
}

// Bounds of a row. They keep the generator's tables small.
const (
	maxPublishers = 4096
	maxFanout     = 16
	maxBatch      = 1000
	maxPayload    = 1 << 20
	maxGroups     = 500_000
)

func (r *Row) check() error {
	switch {
	case r.Publishers < 1 || r.Publishers > maxPublishers:
		return fmt.Errorf("publishers must be 1 to %d", maxPublishers)
	case r.Fanout < 1 || r.Fanout > maxFanout:
		return fmt.Errorf("fan-out must be 1 to %d", maxFanout)
	case r.Batch < 1 || r.Batch > maxBatch:
		return fmt.Errorf("batch must be 1 to %d", maxBatch)
	case r.Payload < minPayload || r.Payload > maxPayload:
		return fmt.Errorf("payload must be %d to %d bytes", minPayload, maxPayload)
	case r.Share < 0 || r.Share > 1:
		return errors.New("share must be 0 to 1")
	}
	return nil
}

// About says what the row is.
func (r *Row) About() string {
	var b strings.Builder
	switch {
	case r.Share > 0:
		fmt.Fprintf(&b, "open loop at %.0f %% of base", 100*r.Share)
	case r.Publishers == 1:
		b.WriteString("1 publisher")
	default:
		fmt.Fprintf(&b, "%d publishers", r.Publishers)
	}
	fmt.Fprintf(&b, ", %s, fan-out %d", sizeText(r.Payload), r.Fanout)
	if r.Batch > 1 {
		fmt.Fprintf(&b, ", batches of %d", r.Batch)
	}
	return b.String()
}

func sizeText(n int) string {
	if n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n/1024)
	}
	return fmt.Sprintf("%d B", n)
}

// DefaultRows vary one dimension of the base at a time.
func DefaultRows() []Row {
	base := Row{Name: Base, Publishers: 256, Payload: 1024, Fanout: 1, Batch: 1}
	vary := func(name string, change func(*Row)) Row {
		r := base
		r.Name = name
		change(&r)
		return r
	}
	return []Row{
		base,
		vary(Half, func(r *Row) { r.Share = 0.5 }),
		vary("p64", func(r *Row) { r.Publishers = 64 }),
		vary("p1", func(r *Row) { r.Publishers = 1 }),
		vary("16k", func(r *Row) { r.Payload = 16 << 10 }),
		vary("fanout", func(r *Row) { r.Fanout = 10 }),
		vary("batch", func(r *Row) { r.Publishers, r.Batch = 16, 100 }),
	}
}

// withBases puts row base before rows that are a share of it.
func withBases(rows []Row) []Row {
	isBase := func(r Row) bool { return r.Name == Base }
	if slices.ContainsFunc(rows, isBase) || !slices.ContainsFunc(rows, func(r Row) bool { return r.Share > 0 }) {
		return rows
	}
	base := DefaultRows()[0]
	base.Publishers = rows[0].Publishers
	return append([]Row{base}, rows...)
}
