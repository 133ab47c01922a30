package promrule_test

import "time"

// The series of the recipes, by their names in short.
const (
	once      = `breakwater_deliveries_settled_total{state="delivered",attempts="1"}`
	twice     = `breakwater_deliveries_settled_total{state="delivered",attempts="2"}`
	dead      = `breakwater_deliveries_settled_total{state="dead",attempts="3+"}`
	cancelled = `breakwater_deliveries_settled_total{state="cancelled",attempts="1"}`
	opened    = `breakwater_breaker_transitions_total{to="open"}`
	open      = `breakwater_breakers{state="open"}`
	closed    = `breakwater_breakers{state="closed"}`
	local     = `breakwater_attempts_total{kind="first",class="local",reason="local_error"}`
)

// latency makes series of a histogram: of 100 values each 15 s so many are at most
// the bound before the limit and at most the limit.
func latency(name, before, limit, after, below, within string) map[string]string {
	return map[string]string{
		name + `_bucket{instance="a",le="` + before + `"}`: "0+" + below + "x60",
		name + `_bucket{instance="a",le="` + limit + `"}`:  "0+" + within + "x60",
		name + `_bucket{instance="a",le="` + after + `"}`:  "0+100x60",
		name + `_bucket{instance="a",le="+Inf"}`:           "0+100x60",
		name + `_count{instance="a"}`:                      "0+100x60",
	}
}

// recipes of the rules that Prometheus measures by itself.
var recipes = map[string][]recipe{
	"retry_storm": {
		{fires: true, series: map[string]string{`breakwater_storms_active{instance="a"}`: "0x10 1x20", `breakwater_storms_active{instance="b"}`: "0x30"}},
		{series: map[string]string{`breakwater_storms_active{instance="a"}`: "0x30"}},
	},
	"retry_queue_growing": {
		{fires: true, series: map[string]string{"breakwater_retry_queue_warnings": "0x10 1x20"}},
		{series: map[string]string{"breakwater_retry_queue_warnings": "0x30"}},
	},
	"dead_letters_growing": {
		{fires: true, series: map[string]string{`breakwater_dead_letters_total{reason="exhausted"}`: "0x10 1x20"}},
		{series: map[string]string{`breakwater_dead_letters_total{reason="exhausted"}`: "500x30"}},
	},
	"retry_rate": {
		{fires: true, series: map[string]string{once: "0+89x30", twice: "0+11x30"}},
		{series: map[string]string{once: "0+91x30", twice: "0+9x30"}},
		{series: map[string]string{once: "0x30", twice: "0+1x30"}}, // few
	},
	"dead_rate": {
		{fires: true, series: map[string]string{once: "0+98x30", dead: "0+2x30"}},
		{series: map[string]string{once: "0+199x30", dead: "0+1x30"}},
		{series: map[string]string{once: "0x30", dead: "0+1x30"}}, // few
		{fires: true, series: map[string]string{once: "0+98x30", dead: "0+2x30", cancelled: "0+900x30"}},
	},
	"success_rate": {
		{fires: true, series: map[string]string{once: "0+98x30", dead: "0+2x30"}},
		{series: map[string]string{once: "0+199x30", dead: "0+1x30"}},
		{series: map[string]string{once: "0x30", dead: "0+1x30"}}, // few
		{series: map[string]string{once: "0+199x30", dead: "0+1x30", cancelled: "0+900x30"}},
	},
	"delivery_latency_p99": {
		{fires: true, series: latency("breakwater_delivery_latency_seconds", "120", "300", "600", "90", "95")},
		{series: latency("breakwater_delivery_latency_seconds", "120", "300", "600", "90", "100")},
		{series: map[string]string{ // few
			`breakwater_delivery_latency_seconds_bucket{le="300"}`: "0x30", `breakwater_delivery_latency_seconds_bucket{le="600"}`: "0+1x30",
			`breakwater_delivery_latency_seconds_bucket{le="+Inf"}`: "0+1x30", "breakwater_delivery_latency_seconds_count": "0+1x30",
		}},
	},
	"breakers_many": {
		{fires: true, series: map[string]string{opened: "0x10 5x20", open: "0x10 5x20", closed: "50x10 45x20"}},
		{series: map[string]string{opened: "0x10 4x20", open: "0x10 4x20", closed: "10x10 6x20"}},
		{series: map[string]string{opened: "0x10 5x20", open: "0x10 5x20", closed: "500x10 495x20"}},
	},
	"local_errors": {
		{fires: true, at: 165 * time.Second, series: map[string]string{local: "0x9 3x20"}},
		{at: 165 * time.Second, series: map[string]string{local: "0x9 2x20"}},
	},

	"no_node": {
		{fires: true, series: map[string]string{`up{job="another"}`: "1x30"}},
		{fires: true, series: map[string]string{`up{job="breakwater",instance="a"}`: "0x30"}},
		{series: map[string]string{`up{job="breakwater",instance="a"}`: "0x30", `up{job="breakwater",instance="b"}`: "1x30"}},
	},
	"node_down": {
		{fires: true, series: map[string]string{`up{job="breakwater",instance="a"}`: "0x30", `up{job="breakwater",instance="b"}`: "1x30"}},
		{series: map[string]string{`up{job="breakwater",instance="a"}`: "1x17 0x1 1x20", `up{job="another"}`: "0x30"}},
	},
	"node_restarts": {
		{fires: true, series: map[string]string{`process_start_time_seconds{job="breakwater"}`: "1x5 2x5 3x5 4x5"}},
		{series: map[string]string{`process_start_time_seconds{job="breakwater"}`: "1x5 2x5 3x15"}},
	},
	"shards_without_owner": {
		{fires: true, series: map[string]string{`breakwater_shards_owned{instance="a"}`: "128x30", `breakwater_shards_owned{instance="b"}`: "127x30"}},
		{series: map[string]string{`breakwater_shards_owned{instance="a"}`: "128x30", `breakwater_shards_owned{instance="b"}`: "128x30"}},
	},
	"lease_not_renewed": {
		{fires: true, series: map[string]string{"breakwater_lease_age_seconds": "1x10 16x20"}},
		{series: map[string]string{"breakwater_lease_age_seconds": "15x30"}},
	},
	"commits_slow": {
		{fires: true, at: 12 * time.Minute, series: latency("breakwater_store_commit_duration_seconds", "0.5", "1", "2.5", "90", "95")},
		{at: 12 * time.Minute, series: latency("breakwater_store_commit_duration_seconds", "0.5", "1", "2.5", "90", "100")},
		{at: 4 * time.Minute, series: latency("breakwater_store_commit_duration_seconds", "0.5", "1", "2.5", "90", "95")},
	},
	"disk_nearly_full": {
		{fires: true, series: map[string]string{`breakwater_disk_free_bytes{instance="a"}`: "199x30", `breakwater_disk_reserve_bytes{instance="a"}`: "100x30"}},
		{series: map[string]string{`breakwater_disk_free_bytes{instance="a"}`: "200x30", `breakwater_disk_reserve_bytes{instance="a"}`: "100x30"}},
	},
	"store_damaged": {
		{fires: true, series: map[string]string{"breakwater_store_damaged_reads_total": "0x10 1x20"}},
		{series: map[string]string{"breakwater_store_damaged_reads_total": "1x30"}},
	},
	"events_refused": {
		{fires: true, at: 10 * time.Minute, series: map[string]string{`breakwater_events_refused_total{reason="store_full"}`: "0+1x60"}},
		{at: 10 * time.Minute, series: map[string]string{
			`breakwater_events_refused_total{reason="store_full"}`: "3x60", `breakwater_events_refused_total{reason="rate_limited"}`: "0+100x60",
		}},
	},
	"queues_not_counted": {
		{fires: true, series: map[string]string{"breakwater_queue_count_age_seconds": "3601x30"}},
		{series: map[string]string{"breakwater_queue_count_age_seconds": "3600x30"}},
	},
}
