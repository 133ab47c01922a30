package metric_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/metric"
)

var update = flag.Bool("update", false, "rewrite docs/metrics.md")

const referenceHead = `# Metrics

` + "`GET /metrics`" + ` answers in the Prometheus text format. [Operating](operating.md#metrics) says who may read it and how to
scrape it; ` + "`breakwater rules`" + ` prints alert rules over these metrics, ` + "`breakwater dashboard-json`" + ` a Grafana dashboard.

- **Names, types and labels are an interface**: the [changelog](../CHANGELOG.md) names a break first.
- **Labels come from closed lists.** No label carries an id, a URL or anything else that your customers choose, unless you
  ask for the worst endpoints by name (` + "`metrics.worst_endpoints`" + `). The values of ` + "`class`" + ` and ` + "`reason`" + ` of attempts are in
  [policies](policies.md#what-an-answer-means), those of ` + "`alert`" + ` in [alerts](alerts.md#rules).
- **Several nodes**: each reports what it does itself. The column says how to put nodes together. What only the store
  knows of the whole fleet is reported by one node, the owner of shard 0; the others leave it out, so that a ` + "`sum`" + ` is
  right. When that node changes, nobody reports it until the new one has counted. While shards move, the queues of two
  nodes may overlap until both have counted anew.
- **How old**: counters are exact at the moment of the scrape. Lanes (breakers, storms, ratios) are looked at every 15 s.
  Queues, dead letters and what is stored are counted every 30 s, or less often when much waits:
  ` + "`breakwater_queue_count_age_seconds`" + ` says how long ago. Of one endpoint, up to 1,000,000 deliveries that are due and as
  many that are not are counted; whether they were tried before is looked up for the first 20,000 of each.
- **Counters begin at 0** with the process. Kept for good are the figures of ` + "[`…/stats`](api.md#figures)" + `.

This page is generated: ` + "`go test ./internal/metric -run TestReference -update`" + `.
`

const referenceTail = `
## Of the runtime

` + "`go_*`" + ` and ` + "`process_*`" + ` are those of every Go program: goroutines, memory, collections, processor time, descriptors, start
time.
`

func TestReference(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	got.WriteString(referenceHead)
	if err := metric.WriteReference(&got); err != nil {
		t.Fatal(err)
	}
	got.WriteString(referenceTail)
	page := filepath.Join("..", "..", "docs", "metrics.md")
	if *update {
		if err := os.WriteFile(page, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is out of date; run this test with -update", page)
	}
}
