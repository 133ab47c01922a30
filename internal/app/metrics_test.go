package app_test

import (
	"encoding/base64"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/lab/promtest"
)

// value adds up a metric without labels over nodes; shown is how many show it.
func value(t *testing.T, name string, nodes ...*server) (sum float64, shown int) {
	t.Helper()
	for _, s := range nodes {
		_, text := s.do(http.MethodGet, s.url+"/metrics", "", "")
		if m := regexp.MustCompile(`(?m)^` + name + ` (.*)$`).FindStringSubmatch(text); m != nil {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum, shown = sum+v, shown+1
		}
	}
	return sum, shown
}

// TestMetricsOfTwoNodes: what nodes do adds up, and what is of the fleet is told by
// one of them.
func TestMetricsOfTwoNodes(t *testing.T) {
	t.Parallel()
	settings := []string{
		"BREAKWATER_DATABASE_URL=" + pgtest.DSN(t), "BREAKWATER_ENCRYPTION_KEY=" + base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"BREAKWATER_ADMIN_KEY=an-admin-key-of-two-nodes",
	}
	one := startServer(t, settings...)
	two := startServer(t, settings...)
	one.key = "an-admin-key-of-two-nodes"
	for _, uid := range []string{"a", "b", "c", "d"} {
		one.api(http.MethodPost, "/v1/tenants/default/endpoints", `{"uid":"`+uid+`","url":"http://`+closedPort(t)+`/"}`)
	}
	for range 5 {
		one.api(http.MethodPost, "/v1/tenants/default/events", `{"type":"x","payload":1,"delay":"1h"}`)
	}
	one.eventually("the nodes share the shards", func() bool {
		sum, _ := value(t, "breakwater_shards_owned", one, two)
		mine, _ := value(t, "breakwater_shards_owned", one)
		return sum == 256 && mine > 0 && mine < 256
	})
	one.eventually("one node counts for the fleet", func() bool {
		sum, shown := value(t, "breakwater_pending_deliveries", one, two)
		return sum == 20 && shown == 1
	})
	one.eventually("queues of both nodes add up", func() bool {
		sum, shown := value(t, `breakwater_queue_depth\{state="delayed"\}`, one, two)
		return sum == 20 && shown == 2
	})
	if sum, _ := value(t, "breakwater_events_accepted_total", one, two); sum != 5 {
		t.Errorf("%v events accepted", sum)
	}
	if sum, shown := value(t, "breakwater_lease_age_seconds", one, two); shown != 2 || sum < 0 {
		t.Errorf("lease ages %v of %d nodes", sum, shown)
	}
	if sum, shown := value(t, `breakwater_store_connections\{state="idle"\}`, one, two); shown != 2 || sum < 1 {
		t.Errorf("%v idle connections of %d nodes", sum, shown)
	}
	_, text := one.do(http.MethodGet, one.url+"/metrics", "", "")
	if strings.Contains(text, "breakwater_disk_free_bytes") || strings.Contains(text, "breakwater_store_log_bytes") {
		t.Error("metrics of the embedded store are shown")
	}
	if err := promtest.Find(t).CheckMetrics([]byte(text)); err != nil {
		t.Error(err)
	}
}
