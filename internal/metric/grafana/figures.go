package grafana

// figure is a number that everybody understands, with the value from which on it
// is bad.
type figure struct {
	title, expr, unit string
	warn, bad         float64
	below             bool // it is bad below, not above
}

// figures are the first line of the dashboard.
var figures = []figure{
	{title: "Events accepted", unit: "cps", expr: `sum(rate(breakwater_events_accepted_total` + selector + `[` + rate + `]))`},
	{title: "Delivered", unit: "cps", expr: `sum(rate(breakwater_deliveries_settled_total{state="delivered",` + inSelector + `}[` + rate + `]))`},
	{
		title: "Arrives, last hour", unit: "percent", warn: 99.5, bad: 99, below: true,
		expr: `100 * sum(increase(breakwater_deliveries_settled_total{state="delivered",` + inSelector + `}[1h]))` +
			` / sum(increase(breakwater_deliveries_settled_total{state=~"delivered|dead",` + inSelector + `}[1h]))`,
	},
	{
		title: "99 % arrive within", unit: "s", warn: 60, bad: 300,
		expr: `histogram_quantile(0.99, sum by (le) (rate(breakwater_delivery_latency_seconds_bucket` + selector + `[1h])))`,
	},
	{title: "Pending", unit: "short", expr: `sum(breakwater_pending_deliveries` + selector + `)`},
	{
		title: "Oldest held", unit: "s", warn: 3600, bad: 24 * 3600,
		expr: `max(breakwater_queue_oldest_age_seconds{state="held",` + inSelector + `})`,
	},
	{title: "Open breakers", unit: "short", warn: 1, bad: 5, expr: `sum(breakwater_breakers{state="open",` + inSelector + `})`},
	{title: "Retry storms", unit: "short", warn: 1, bad: 1, expr: `sum(breakwater_storms_active` + selector + `)`},
	{title: "New dead letters, last hour", unit: "short", warn: 1, bad: 100, expr: `sum(increase(breakwater_dead_letters_total` + selector + `[1h]))`},
	{title: "Open pages", unit: "short", warn: 1, bad: 1, expr: `sum(breakwater_alerts_open{severity="page",` + inSelector + `})`},
	{
		title: "Commits, 99 %", unit: "s", warn: 0.1, bad: 1,
		expr: `max(histogram_quantile(0.99, sum by (instance, le) (rate(breakwater_store_commit_duration_seconds_bucket` + selector + `[` + rate + `]))))`,
	},
	{title: "Shards with an owner", unit: "short", warn: 256, bad: 256, below: true, expr: `sum(breakwater_shards_owned` + selector + `)`},
}

func (f *figure) panel() Panel {
	steps := []step{{Color: "green"}}
	switch {
	case f.below:
		steps = []step{{Color: "red"}, {"orange", &f.bad}, {"green", &f.warn}}
	case f.bad > 0:
		steps = append(steps, step{"orange", &f.warn}, step{"red", &f.bad})
	}
	return Panel{
		Type: "stat", Title: f.title, Targets: []Target{{Expr: f.expr}},
		FieldConfig: &fieldConfig{
			Defaults: fieldDefaults{Unit: f.unit, Thresholds: &thresholds{"absolute", steps}}, Overrides: []any{},
		},
		Options: map[string]any{
			"colorMode": "value", "graphMode": "area", "reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
		},
	}
}

// runtimeChart draws a metric that every Go program has.
type runtimeChart struct{ title, expr, unit string }

var runtimeCharts = []runtimeChart{
	{"Processor", `rate(process_cpu_seconds_total` + selector + `[` + rate + `])`, "short"},
	{"Memory", `process_resident_memory_bytes` + selector, "bytes"},
	{"Heap", `go_memstats_heap_inuse_bytes` + selector, "bytes"},
	{"Goroutines", `go_goroutines` + selector, "short"},
	{"Open descriptors", `process_open_fds` + selector, "short"},
	{"Collections", `rate(go_gc_duration_seconds_count` + selector + `[` + rate + `])`, "cps"},
}

func (c runtimeChart) panel() Panel {
	return newChart(c.title, "", c.unit, Target{Expr: c.expr, LegendFormat: "{{instance}}"})
}
