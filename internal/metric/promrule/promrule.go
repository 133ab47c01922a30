// Package promrule writes alert rules for Prometheus: those of the server's own
// table of alerts, and some that watch the server from outside, where it cannot
// watch itself.
//
// It asks for nothing that package metric does not serve, and evaluates nothing.
package promrule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// Config is what the rules depend on. Zero fields mean the defaults given.
type Config struct {
	Thresholds    alert.Thresholds
	LeaseTTL      time.Duration // 15s
	SeverityLabel string        // the label that alerts are routed by; severity
	Job           string        // under which the nodes are scraped; breakwater
	Docs          string        // where the documentation is; DefaultDocs
	Runbook       string        // where the page about alerts is; in Docs
	// Unjudged tells that no node judges alerts: rules that ask whether one is open
	// are left out.
	Unjudged bool
}

// The defaults.
const (
	DefaultSeverityLabel = "severity"
	DefaultJob           = "breakwater"
	DefaultDocs          = "https://github.com/breakwaterhq/breakwater/blob/main"

	defaultTTL = 15 * time.Second
)

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)

// check fills in defaults and refuses what would make no valid rules.
func (c *Config) check() error {
	if c.SeverityLabel == "" {
		c.SeverityLabel = DefaultSeverityLabel
	}
	if c.Job == "" {
		c.Job = DefaultJob
	}
	if c.Docs == "" {
		c.Docs = DefaultDocs
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = defaultTTL
	}
	if !labelName.MatchString(c.SeverityLabel) || strings.HasPrefix(c.SeverityLabel, "__") || c.SeverityLabel == "alertname" || c.SeverityLabel == ruleLabel {
		return fmt.Errorf("severity label %q: must be the name of a label: letters, digits and underscores, at most 64, not %s or alertname", c.SeverityLabel, ruleLabel)
	}
	if len(c.Job) > 256 || strings.ContainsFunc(c.Job, func(r rune) bool { return r < ' ' }) {
		return fmt.Errorf("job %q: must be the name of a scrape job, at most 256 characters", c.Job)
	}
	if u, err := url.Parse(c.Docs); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("address of the documentation %q: must begin with http:// or https://", c.Docs)
	}
	c.Docs = strings.TrimRight(c.Docs, "/")
	if c.Runbook == "" {
		c.Runbook = c.Docs + "/docs/alerts.md"
	}
	return nil
}

// ruleLabel is the label with the name that the rule has on the server.
const ruleLabel = "rule"

// File is a file of rules as Prometheus reads it.
type File struct {
	Groups []Group `yaml:"groups"`
}

// Group is a group of rules, which are evaluated together.
type Group struct {
	Name  string `yaml:"name"`
	Rules []Rule `yaml:"rules"`
}

// Rule is one alert.
type Rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for,omitempty"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// Make returns the rules.
func Make(cfg Config) (File, error) {
	if err := cfg.check(); err != nil {
		return File{}, err
	}
	alerts, self := Group{Name: "breakwater-alerts"}, Group{Name: "breakwater-self"}
	for _, r := range alert.Rules() {
		if cfg.Unjudged && !r.Measured() {
			continue
		}
		for _, c := range r.Conditions(cfg.Thresholds) {
			alerts.Rules = append(alerts.Rules, cfg.rule(r.Name, c, r.Meaning, "Healthy: "+r.Healthy+".", cfg.Runbook+"#"+r.Name))
		}
	}
	for _, s := range selfRules(&cfg) {
		self.Rules = append(self.Rules, cfg.rule(s.Name, s.condition, s.Meaning, s.Do, cfg.Docs+"/"+s.Runbook()))
	}
	return File{Groups: []Group{self, alerts}}, nil
}

func (c *Config) rule(name string, cond alert.Condition, meaning, more, runbook string) Rule {
	r := Rule{
		Alert:  "Breakwater" + camel(name),
		Expr:   c.ofJob(cond.Query),
		Labels: map[string]string{c.SeverityLabel: cond.Severity.String(), ruleLabel: name},
		Annotations: map[string]string{
			"summary": meaning, "description": more + " Now: {{ $value }}.", "runbook_url": runbook,
		},
	}
	if cond.For > 0 {
		r.For = prometheusDuration(cond.For)
	}
	return r
}

var metricName = regexp.MustCompile(`\bbreakwater_[a-z_]+\{?`)

// ofJob makes a query ask the nodes of the job only: a Prometheus may scrape those
// of several databases, whose figures have nothing to do with each other.
func (c *Config) ofJob(query string) string {
	job := fmt.Sprintf("job=%q", c.Job)
	return metricName.ReplaceAllStringFunc(query, func(name string) string {
		if rest, more := strings.CutSuffix(name, "{"); more {
			return rest + "{" + job + ","
		}
		return name + "{" + job + "}"
	})
}

// prometheusDuration writes whole milliseconds the way Prometheus reads them.
func prometheusDuration(d time.Duration) string {
	if d%time.Second != 0 {
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%ds", int64(d.Seconds()))
}

// camel makes RetryStorm of retry_storm.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// Write writes the rules as YAML.
func Write(w io.Writer, cfg Config) error {
	file, err := Make(cfg)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("# Alert rules for Prometheus, made by breakwater rules: make them anew after an upgrade or a change of settings.\n")
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(file); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// WriteJSON writes the same rules as JSON, which Prometheus reads as the YAML it is.
func WriteJSON(w io.Writer, cfg Config) error {
	file, err := Make(cfg)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(file) // its tags have the names
	if err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	var plain any
	if err := yaml.Unmarshal(text, &plain); err != nil {
		return fmt.Errorf("write rules: %w", err)
	}
	return json.NewEncoder(w).Encode(plain)
}

// SelfRule is a rule about the server as it is seen from outside.
type SelfRule struct {
	Name    string
	Meaning string
	Do      string // first, in one line

	condition alert.Condition
}

// Runbook is where the documentation tells what to do.
func (s *SelfRule) Runbook() string { return "docs/operating.md#" + s.Name }

// SelfRules lists the rules about the server itself.
func SelfRules() []SelfRule {
	cfg := Config{}
	_ = cfg.check() // defaults are fine
	return selfRules(&cfg)
}

func selfRules(c *Config) []SelfRule {
	of := func(name, field string) string { return quantity.FormatNumber(c.Thresholds.Get(name, field)) }
	page := func(query string, lasting time.Duration) alert.Condition {
		return alert.Condition{Query: query, Severity: hook.SeverityPage, For: lasting}
	}
	warning := func(query string, lasting time.Duration) alert.Condition {
		return alert.Condition{Query: query, Severity: hook.SeverityWarning, For: lasting}
	}
	return []SelfRule{
		{
			"no_node", "No node of Breakwater answers: nobody accepts events.", "Start a node, or look why none can be reached.",
			page(fmt.Sprintf(`absent(up{job=%q} == 1)`, c.Job), time.Minute),
		},
		{
			"node_down", "A node of Breakwater does not answer.", "Look at its process and its log; with other nodes deliveries go on.",
			warning(fmt.Sprintf(`up{job=%q} == 0`, c.Job), time.Minute),
		},
		{
			"node_restarts", "A node of Breakwater starts again and again.", "Look at the last lines of its log.",
			warning(fmt.Sprintf(`changes(process_start_time_seconds{job=%q}[15m]) >= 3`, c.Job), 0),
		},
		{
			"shards_without_owner", "Some shards have no owner: nobody delivers to their endpoints.", "Look whether all nodes reach the database.",
			page(fmt.Sprintf(`sum(breakwater_shards_owned) < %d`, hook.Shards), max(c.Thresholds.Duration("shard_unowned", "age"), time.Minute)),
		},
		{
			"lease_not_renewed", "A node could not renew its leases and has stopped sending.", "Look whether it reaches the database, and how long commits take.",
			page(`breakwater_lease_age_seconds > `+quantity.FormatNumber(c.LeaseTTL.Seconds()), 0),
		},
		{
			"commits_slow", "The store takes long to commit: accepting and settling wait for it.", "Look at the disk or the database: latency, locks, other load.",
			page(`histogram_quantile(0.99, sum by (instance, le) (rate(breakwater_store_commit_duration_seconds_bucket[5m]))) > `+of("store_slow", "p99"),
				c.Thresholds.Duration("store_slow", "for")),
		},
		{
			"disk_nearly_full", "The store's disk is nearly full; below store.disk_reserve new events are refused.", "Free space, or let retention remove more.",
			page(`breakwater_disk_free_bytes < `+of("disk_low", "factor")+` * breakwater_disk_reserve_bytes`, time.Minute),
		},
		{
			"store_damaged", "A part of the SQLite file cannot be read.", "Stop the server and restore a backup.",
			page(`increase(breakwater_store_damaged_reads_total[15m]) > 0`, 0),
		},
		{
			"events_refused", "Events are refused because of the server, not of the publisher.", "The reason says which bound was reached.",
			page(`sum by (reason) (rate(breakwater_events_refused_total{reason=~"overloaded|store_full|store_unavailable"}[5m])) > 0`, 5*time.Minute),
		},
		{
			"queues_not_counted", "Queues have not been counted for long: their metrics are old.", "Look for the cause in the log.",
			warning(`breakwater_queue_count_age_seconds > 3600`, 0),
		},
	}
}
