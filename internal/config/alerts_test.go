package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/config"
)

// TestEveryThresholdIsASetting: by the table of rules, from any source.
func TestEveryThresholdIsASetting(t *testing.T) {
	t.Parallel()
	yaml := "alerts:\n  retry_storm:\n    retries: 7\n    enabled: true\n  store_slow: {p99: 250ms, enabled: false}\nalert:\n  repeat: 1h\n"
	c := mustLoad(t, yaml, []string{"BREAKWATER_ALERTS_STORE_SLOW_FOR=1m"}, []string{"--alerts-dead-rate-percent=2.5"})
	set := c.Options.AlertThresholds
	if set.Get("retry_storm", "retries") != 7 || set.Duration("store_slow", "p99") != 250*time.Millisecond ||
		set.Duration("store_slow", "for") != time.Minute || set.Get("dead_rate", "percent") != 2.5 || set.Enabled("store_slow") {
		t.Errorf("thresholds %+v", set)
	}
	if c.Options.AlertOptions.Repeat != time.Hour {
		t.Errorf("repeat %v", c.Options.AlertOptions.Repeat)
	}
	shown := make(map[string]string)
	for _, s := range c.Effective() {
		shown[s.Key] = s.Value
	}
	for _, r := range alert.Rules() {
		if shown["alerts."+r.Name+".enabled"] == "" {
			t.Errorf("%s cannot be switched off", r.Name)
		}
		for _, f := range r.Fields {
			if got, want := shown["alerts."+r.Name+"."+f.Name], f.Format(set.Get(r.Name, f.Name)); got != want {
				t.Errorf("alerts.%s.%s is shown as %q, want %q", r.Name, f.Name, got, want)
			}
		}
	}
}

// TestWrongAlertSettings name the key and the rule.
func TestWrongAlertSettings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		environ []string
		key     string
		want    string
	}{
		"out of bounds":         {[]string{"BREAKWATER_ALERTS_RETRY_STORM_RATIO=0.5"}, "alerts.retry_storm.ratio", "must be 1 to 1000"},
		"no duration":           {[]string{"BREAKWATER_ALERTS_STORE_SLOW_P99=often"}, "alerts.store_slow.p99", "duration"},
		"pages before it warns": {[]string{"BREAKWATER_ALERTS_HOLD_EXPIRING_PERCENT=95"}, "alerts.hold_expiring.page_percent", "must be more than percent"},
		"repeat":                {[]string{"BREAKWATER_ALERT_REPEAT=1m"}, "alert.repeat", "must be 5m to 1d"},
		"no sender":             {[]string{"BREAKWATER_SMTP_HOST=mail.example.com"}, "smtp.from", "must not be empty"},
		"bad sender":            {[]string{"BREAKWATER_SMTP_HOST=mail.example.com", "BREAKWATER_SMTP_FROM=a b"}, "smtp.from", "must have the form"},
		"no host":               {[]string{"BREAKWATER_SMTP_FROM=a@example.com"}, "smtp.host", "must not be empty"},
		"password in the clear": {
			[]string{
				"BREAKWATER_SMTP_HOST=mail.example.com", "BREAKWATER_SMTP_FROM=a@example.com", "BREAKWATER_SMTP_TLS=none",
				"BREAKWATER_SMTP_USERNAME=a", "BREAKWATER_SMTP_PASSWORD=hunter2",
			}, "smtp.tls", "in the clear",
		},
		"public url": {[]string{"BREAKWATER_PUBLIC_URL=hooks.example.com"}, "public_url", "must be a URL"},
	} {
		_, err := load(t, "", tc.environ, nil)
		all, ok := errors.AsType[*config.Error](err)
		if !ok || len(all.Problems) != 1 {
			t.Errorf("%s: %v, want one problem", name, err)
			continue
		}
		if p := all.Problems[0]; p.Key != tc.key || !strings.Contains(p.Message, tc.want) {
			t.Errorf("%s: %+v, want %s %q", name, p, tc.key, tc.want)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the password is shown", name)
		}
	}
}
