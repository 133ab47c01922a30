package promrule_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/lab/promtest"
	"github.com/breakwaterhq/breakwater/internal/metric"
	"github.com/breakwaterhq/breakwater/internal/metric/promrule"
)

func write(t *testing.T, cfg promrule.Config) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := promrule.Write(&b, cfg); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func rulesOf(t *testing.T, cfg promrule.Config) (all []promrule.Rule) {
	t.Helper()
	file, err := promrule.Make(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func TestPrometheusTakesTheRules(t *testing.T) {
	t.Parallel()
	tool := promtest.Find(t)
	custom, err := alert.Thresholds{}.With("delivery_latency_p99", "latency", "1m30s")
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]promrule.Config{
		"defaults": {},
		"others": {
			Thresholds: custom, LeaseTTL: 45 * time.Second, SeverityLabel: "prio", Job: `web "hooks" \o/`, Docs: "http://wiki.example/breakwater/",
		},
	} {
		if err := tool.CheckRules(write(t, cfg)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestABrokenRuleIsFound plants mistakes in the rules: the check must not pass
// because it checks nothing.
func TestABrokenRuleIsFound(t *testing.T) {
	t.Parallel()
	tool := promtest.Find(t)
	file, err := promrule.Make(promrule.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rules := file.Groups[1].Rules
	for name, plant := range map[string]func(r *promrule.Rule){
		"a parenthesis too few": func(r *promrule.Rule) { r.Expr = strings.Replace(r.Expr, ")", "", 1) },
		"a threshold left open": func(r *promrule.Rule) { r.Expr += " and up > {percent}" },
		"a wrong function":      func(r *promrule.Rule) { r.Expr = strings.Replace(r.Expr, "sum(", "summe(", 1) },
		"a wrong time":          func(r *promrule.Rule) { r.For = "5 minutes" },
	} {
		whole := rules[0]
		plant(&rules[0])
		text, err := yaml.Marshal(file)
		rules[0] = whole
		if err != nil {
			t.Fatal(err)
		}
		if tool.CheckRules(text) == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

func TestRulesFollowTheTables(t *testing.T) {
	t.Parallel()
	off, err := alert.Thresholds{}.WithRule("retry_storm", false)
	if err != nil {
		t.Fatal(err)
	}
	off, err = off.With("store_slow", "p99", "250ms")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rulesOf(t, promrule.Config{Thresholds: off, SeverityLabel: "prio", Docs: "https://docs.example/", Job: "hooks"}) {
		switch r.Alert {
		case "BreakwaterRetryStorm":
			t.Error("a rule that is switched off is there")
		case "BreakwaterCommitsSlow":
			if !strings.HasSuffix(r.Expr, "> 0.25") || r.For != "300s" {
				t.Errorf("commits slow: %s for %s", r.Expr, r.For)
			}
		case "BreakwaterNodeDown":
			if r.Expr != `up{job="hooks"} == 0` {
				t.Errorf("node down: %s", r.Expr)
			}
		}
		if r.Labels["prio"] == "" || r.Labels["rule"] == "" || !strings.HasPrefix(r.Annotations["runbook_url"], "https://docs.example/docs/") {
			t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
		}
	}
	seen := map[string]bool{}
	for _, r := range rulesOf(t, promrule.Config{}) {
		seen[r.Labels["rule"]] = true
	}
	for _, r := range alert.Rules() {
		if !seen[r.Name] {
			t.Errorf("there is no rule %s", r.Name)
		}
	}
}

// TestRulesWithoutAJudge: where nobody judges alerts, nobody asks whether one is
// open.
func TestRulesWithoutAJudge(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range rulesOf(t, promrule.Config{Unjudged: true, Runbook: "https://wiki.example/alerts"}) {
		if strings.Contains(r.Expr, "breakwater_alerts_open") {
			t.Errorf("%s asks for open alerts", r.Alert)
		}
		seen[r.Alert] = true
		if r.Alert == "BreakwaterRetryStorm" && r.Annotations["runbook_url"] != "https://wiki.example/alerts#retry_storm" {
			t.Errorf("runbook %s", r.Annotations["runbook_url"])
		}
	}
	if !seen["BreakwaterRetryStorm"] || !seen["BreakwaterNoNode"] {
		t.Errorf("rules %v", seen)
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]promrule.Config{
		"severity label": {SeverityLabel: "a-b"},
		"severity":       {SeverityLabel: "__name__"},
		"alertname":      {SeverityLabel: "alertname"},
		"job":            {Job: "a\nb"},
		"documentation":  {Docs: "docs"},
	} {
		if _, err := promrule.Make(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRunbooksExist: every rule links to a heading of ours.
func TestRunbooksExist(t *testing.T) {
	t.Parallel()
	for _, r := range rulesOf(t, promrule.Config{}) {
		file, anchor, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"], promrule.DefaultDocs+"/"), "#")
		text, err := os.ReadFile(filepath.Join("..", "..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?m)^#+ ` + anchor + `$`).Match(text) {
			t.Errorf("%s: %s has no heading %s", r.Alert, file, anchor)
		}
	}
}

// TestRulesAskForWhatIsServed: every metric that a rule names is in the table.
func TestRulesAskForWhatIsServed(t *testing.T) {
	t.Parallel()
	for _, r := range rulesOf(t, promrule.Config{}) {
		for _, name := range regexp.MustCompile(`breakwater_[a-z_]+`).FindAllString(r.Expr, -1) {
			if metric.Lookup(name) == nil && metric.Lookup(regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")) == nil {
				t.Errorf("%s asks for %s", r.Alert, name)
			}
		}
	}
}

// TestRulesFireAndAreSilent lets Prometheus judge series for every rule: it fires
// when it should, and is silent at the healthy edge and below its least sample.
func TestRulesFireAndAreSilent(t *testing.T) {
	t.Parallel()
	tool := promtest.Find(t)
	var tests []ruleTest
	var fire, calm ruleTest // of those that ask whether an alert is open, all together
	var elsewhere ruleTest  // what happens to another job is none of ours
	known := map[string]bool{}
	for _, r := range rulesOf(t, promrule.Config{}) {
		name := r.Labels["rule"]
		known[name] = true
		if selector := openAlert.FindString(r.Expr); selector != "" {
			fire.join(openAlertOf(selector, "0x4 2x20", true).test(r))
			calm.join(openAlertOf(selector, "0x24", false).test(r))
			continue
		}
		cases := recipes[name]
		if !slices.ContainsFunc(cases, func(c recipe) bool { return c.fires }) || !slices.ContainsFunc(cases, func(c recipe) bool { return !c.fires }) {
			t.Errorf("%s: there must be a case in which it fires and one in which it is silent", r.Alert)
		}
		for _, c := range cases {
			tests = append(tests, c.test(r))
		}
		if slices.Contains([]string{"retry_storm", "dead_rate", "breakers_many", "shards_without_owner", "commits_slow", "node_down"}, name) {
			elsewhere.join(cases[0].elsewhere().test(r))
		}
	}
	for name := range recipes {
		if !known[name] {
			t.Errorf("there are cases for %s, which is no rule", name)
		}
	}
	if len(fire.Expect) < 20 {
		t.Errorf("only %d rules ask whether an alert is open", len(fire.Expect))
	}
	rules := write(t, promrule.Config{})
	if err := tool.TestRules(rules, testFile(t, append(tests, fire, calm, elsewhere)...)); err != nil {
		t.Error(err)
	}
	// The judge must see a rule that does something else.
	broken := bytes.Replace(rules, []byte(`sum(breakwater_storms_active{job="breakwater"}) > 0`),
		[]byte(`sum(breakwater_storms_active{job="breakwater"}) > 1`), 1)
	storms := slices.DeleteFunc(tests, func(c ruleTest) bool { return !strings.HasPrefix(c.Name, "BreakwaterRetryStorm ") })
	if bytes.Equal(broken, rules) || len(storms) < 2 || tool.TestRules(broken, testFile(t, storms...)) == nil {
		t.Error("a rule with another threshold passes")
	}
}

func testFile(t *testing.T, tests ...ruleTest) []byte {
	t.Helper()
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{"rules.yml"}, "evaluation_interval": "15s", "tests": tests})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var openAlert = regexp.MustCompile(`breakwater_alerts_open\{.*\}`)

// openAlertOf: one node judges alerts, the other reports none.
func openAlertOf(selector, values string, fires bool) recipe {
	labelled := func(instance string) string {
		return strings.TrimSuffix(selector, "}") + fmt.Sprintf(",instance=%q}", instance)
	}
	return recipe{fires: fires, series: map[string]string{labelled("a"): values, labelled("b"): "0x24"}}
}

type ruleTest struct {
	Name     string              `yaml:"name"`
	Interval string              `yaml:"interval"`
	Series   []map[string]string `yaml:"input_series"`
	Expect   []map[string]any    `yaml:"promql_expr_test"`
}

// join makes one test of two.
func (a *ruleTest) join(b ruleTest) {
	a.Name, a.Interval = b.Name+" and others", b.Interval
	a.Series, a.Expect = append(a.Series, b.Series...), append(a.Expect, b.Expect...)
}

// recipe is series every 15 s, and whether a rule fires at a moment.
type recipe struct {
	series map[string]string
	at     time.Duration // 5m
	fires  bool
}

func (c recipe) test(r promrule.Rule) ruleTest {
	if c.at == 0 {
		c.at = 5 * time.Minute
	}
	want := 0
	if c.fires {
		want = 1
	}
	out := ruleTest{Name: fmt.Sprintf("%s fires: %v", r.Alert, c.fires), Interval: "15s"}
	for series, values := range c.series {
		out.Series = append(out.Series, map[string]string{"series": ofJob(series, "breakwater"), "values": values})
	}
	out.Expect = []map[string]any{{
		"expr":      fmt.Sprintf(`(count(ALERTS{alertname=%q,alertstate="firing",severity=%q}) > bool 0) or vector(0)`, r.Alert, r.Labels["severity"]),
		"eval_time": fmt.Sprintf("%ds", int(c.at.Seconds())), "exp_samples": []map[string]any{{"labels": "{}", "value": want}},
	}}
	return out
}

// elsewhere is the same happening to another job.
func (c recipe) elsewhere() recipe {
	moved := recipe{at: c.at, series: map[string]string{`up{job="breakwater"}`: "1x60"}}
	for series, values := range c.series {
		moved.series[strings.Replace(ofJob(series, "another"), `job="breakwater"`, `job="another"`, 1)] = values
	}
	return moved
}

// ofJob gives a series of ours the label of its job.
func ofJob(series, job string) string {
	if strings.Contains(series, "job=") {
		return series
	}
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	return name + "{" + strings.TrimPrefix(labels+",", ",") + fmt.Sprintf("job=%q}", job)
}
