package promtest_test

import (
	"testing"

	"github.com/breakwaterhq/breakwater/internal/lab/promtest"
)

const good = `groups:
  - name: g
    rules:
      - alert: Many
        expr: sum(depth) > 10
        labels: {severity: page}
`

func TestRulesAreJudged(t *testing.T) {
	t.Parallel()
	tool := promtest.Find(t)
	if err := tool.CheckRules([]byte(good)); err != nil {
		t.Errorf("good rules: %v", err)
	}
	for name, bad := range map[string]string{
		"a query that is none": "groups: [{name: g, rules: [{alert: A, expr: 'sum(depth > 10'}]}]",
		"an unknown field":     "groups: [{name: g, rules: [{alert: A, expr: 'up', severity: page}]}]",
		"a wrong duration":     "groups: [{name: g, rules: [{alert: A, expr: 'up', for: soon}]}]",
		"a label that is none": "groups: [{name: g, rules: [{alert: A, expr: 'up', labels: {'a b': c}}]}]",
		"a broken template":    "groups: [{name: g, rules: [{alert: A, expr: 'up', annotations: {a: '{{ $value'}}]}]",
		"no YAML":              "groups: [",
	} {
		if err := tool.CheckRules([]byte(bad)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestWhatRulesDoIsJudged(t *testing.T) {
	t.Parallel()
	tool := promtest.Find(t)
	tests := func(depth, fires string) []byte {
		return []byte(`rule_files: [rules.yml]
evaluation_interval: 15s
tests:
  - interval: 15s
    input_series: [{series: depth, values: '` + depth + `x10'}]
    alert_rule_test: [{eval_time: 1m, alertname: Many, exp_alerts: ` + fires + `}]
`)
	}
	const firing = "[{exp_labels: {severity: page}}]"
	for _, c := range []struct {
		depth, fires string
		ok           bool
	}{
		{"11", firing, true}, {"10", "[]", true}, {"11", "[]", false}, {"10", firing, false},
	} {
		if err := tool.TestRules([]byte(good), tests(c.depth, c.fires)); (err == nil) != c.ok {
			t.Errorf("depth %s, expecting %s: %v", c.depth, c.fires, err)
		}
	}
}

func TestMetricsAreJudged(t *testing.T) {
	t.Parallel()
	tool := promtest.Find(t)
	if err := tool.CheckMetrics([]byte("# HELP a_total All.\n# TYPE a_total counter\na_total 1\n")); err != nil {
		t.Errorf("good metrics: %v", err)
	}
	for name, bad := range map[string]string{
		"a counter without its suffix": "# HELP a All.\n# TYPE a counter\na 1\n",
		"no help":                      "# TYPE a_total counter\na_total 1\n",
		"no metric":                    "what is this\n",
	} {
		if err := tool.CheckMetrics([]byte(bad)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
