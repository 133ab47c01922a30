package metric

import "github.com/breakwaterhq/breakwater/internal/hook"

// embedded is the collect of a metric that only the embedded store has.
func embedded(value func(e *Embedded) float64) func(*sample, emit) {
	return func(s *sample, out emit) {
		if s.embedded != nil {
			out(value(s.embedded))
		}
	}
}

const onSQLite = "SQLite"

var storeTable = []*Desc{
	{
		Name: commitDuration, Type: Histogram, Unit: Seconds, Over: Max, Buckets: commitBuckets,
		Help:    "Time that commits took, those that failed or had to be run again included. Publishers wait for them.",
		collect: func(s *sample, _ emit) { s.histograms(&s.counts.commits) },
	},
	{
		Name: commitRows, Type: Histogram, Over: Sum, Buckets: rowBuckets,
		Help:    "Events, results and checkpoints in one commit. The slower the store, the more share a commit.",
		collect: func(s *sample, _ emit) { s.histograms(&s.counts.rows) },
	},
	{
		Name: "breakwater_writer_queue_rows", Type: Gauge, Over: Sum,
		Help:    "New events and deliveries that wait for a commit.",
		collect: one(func(s *sample) float64 { return float64(s.node.WaitingRows) }),
	},
	{
		Name: "breakwater_writer_queue_limit_rows", Type: Gauge, Over: Sum,
		Help:    "Events and deliveries that may wait for a commit before new ones are refused (`ingest.queue`).",
		collect: one(func(s *sample) float64 { return float64(s.node.WaitingRowsLimit) }),
	},
	{
		Name: "breakwater_writer_queue_bytes", Type: Gauge, Unit: Bytes, Over: Sum,
		Help:    "Payloads of new events that wait for a commit.",
		collect: one(func(s *sample) float64 { return float64(s.node.WaitingBytes) }),
	},
	{
		Name: "breakwater_writer_queue_results", Type: Gauge, Over: Sum,
		Help:    "Results of attempts that wait for a commit.",
		collect: one(func(s *sample) float64 { return float64(s.node.WaitingResults) }),
	},
	{
		Name: "breakwater_writer_oldest_result_age_seconds", Type: Gauge, Unit: Seconds, Over: Max,
		Help:    "How long the oldest result of an attempt has waited to be stored. After a crash it would be sent again.",
		collect: one(func(s *sample) float64 { return s.node.OldestResult.Seconds() }),
	},
	{
		Name: "breakwater_store_connections", Type: Gauge, Over: Sum,
		Help:   "Open connections to the store, by whether somebody uses them.",
		Labels: []Label{{"state", []string{"in_use", "idle"}}},
		collect: func(s *sample, out emit) {
			out(float64(s.node.ConnsInUse), "in_use")
			out(float64(s.node.ConnsIdle), "idle")
		},
	},
	{
		Name: "breakwater_store_connections_limit", Type: Gauge, Over: Sum,
		Help:    "Connections to the store that may be open.",
		collect: one(func(s *sample) float64 { return float64(s.node.ConnsMax) }),
	},
	{
		Name: "breakwater_store_connection_waits_total", Type: Counter, Over: Sum,
		Help:    "How often somebody had to wait for a connection to the store.",
		collect: one(func(s *sample) float64 { return float64(s.node.ConnWaits) }),
	},
	{
		Name: "breakwater_stats_damaged_rows_total", Type: Counter, Over: Sum,
		Help:    "Stored figures that could not be read and were left out of an answer, each time that they were asked for.",
		collect: one(func(s *sample) float64 { return total(s.node.DamagedFigures) }),
	},
	{
		Name: "breakwater_stored_bytes", Type: Gauge, Unit: Bytes, Over: Fleet,
		Help:    "What tenants have stored, as it counts against their limits.",
		collect: fleet(func(f *hook.FleetFigures) float64 { return float64(f.StoredBytes) }),
	},
	{
		Name: "breakwater_disk_free_bytes", Type: Gauge, Unit: Bytes, Over: Each, Only: onSQLite,
		Help: "Free space on the disk of the store.",
		collect: func(s *sample, out emit) {
			if s.embedded != nil && s.embedded.DiskFree >= 0 {
				out(float64(s.embedded.DiskFree))
			}
		},
	},
	{
		Name: "breakwater_disk_reserve_bytes", Type: Gauge, Unit: Bytes, Over: Each, Only: onSQLite,
		Help:    "Free space below which new events are refused (`store.disk_reserve`).",
		collect: embedded(func(e *Embedded) float64 { return float64(e.DiskReserve) }),
	},
	{
		Name: "breakwater_store_damaged_reads_total", Type: Counter, Over: Each, Only: onSQLite,
		Help:    "Reads that failed because a part of the store is damaged. Any increase needs a person.",
		collect: embedded(func(e *Embedded) float64 { return total(e.DamagedReads) }),
	},
	{
		Name: "breakwater_store_log_bytes", Type: Gauge, Unit: Bytes, Over: Each, Only: onSQLite,
		Help:    "Length of the log beside the database file.",
		collect: embedded(func(e *Embedded) float64 { return float64(e.LogBytes) }),
	},
	{
		Name: "breakwater_store_log_limit_bytes", Type: Gauge, Unit: Bytes, Over: Each, Only: onSQLite,
		Help:    "Length of the log at which new events are refused (`store.log_limit`).",
		collect: embedded(func(e *Embedded) float64 { return float64(e.LogLimit) }),
	},
	{
		Name: "breakwater_store_log_written_bytes_total", Type: Counter, Unit: Bytes, Over: Each, Only: onSQLite,
		Help:    "Bytes written to the log.",
		collect: embedded(func(e *Embedded) float64 { return float64(max(e.LogWritten, 0)) }),
	},
}
