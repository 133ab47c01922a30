package config

import (
	"errors"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
)

// alertSettings are those of alerts, with a row for every threshold of every rule.
func (c *Config) alertSettings() []setting {
	o := &c.Options
	rows := []setting{
		row("public_url", text(&o.PublicURL, "url", "http://… or https://…", checkPublicURL), "",
			"address of this server for people; links in notices start with it, without it there are none"),
		row("alert.enabled", toggle(&o.Alerts), "true",
			"judge the rules of docs/alerts.md and tell of what is wrong; operational events reach their channels all the same"),
		row("alert.interval", span(&o.AlertInterval, alert.MinInterval, alert.MaxInterval), "15s",
			"time between two rounds of judging; shorter ones find states such as an open breaker sooner"),
		row("alert.repeat", span(&o.AlertOptions.Repeat, alert.MinRepeat, alert.MaxRepeat), "4h",
			"time after which an alert that fires and that nobody has acknowledged is told again"),
		row("alert.resolve_after", span(&o.AlertOptions.ResolveAfter, alert.MinResolveAfter, alert.MaxResolveAfter), "5m",
			"how long a condition must be false before its alert is over"),
		row("alert.max_open", whole(&o.AlertOptions.MaxOpen, alert.MinMaxOpen, alert.MaxMaxOpen), strconv.Itoa(alert.DefaultMaxOpen),
			"open alerts of endpoints and tenants; what does not fit is told when there is room"),
		row("alert.runbook_url", text(&o.RunbookURL, "url", "http://… or https://…", checkPublicURL), "",
			"page with a section for each rule that notices link to; docs/alerts.md below public_url when empty"),
		row("smtp.host", text(&o.SMTP.Host, "host", "host name or IP address", checkNothing), "",
			"mail server for channels of kind email, which fail without it"),
		row("smtp.port", whole(&o.SMTP.Port, 1, 65535), "587",
			"port of smtp.host"),
		row("smtp.tls", oneOf(&o.SMTP.TLS, "mode", mailer.StartTLS, mailer.ImplicitTLS, mailer.NoTLS), mailer.StartTLS,
			"starttls: in the clear until TLS begins, and nothing is sent if it does not; implicit: TLS from the first byte, usually on port 465; none: for a relay nearby"),
		row("smtp.username", text(&o.SMTP.Username, "name", "up to 1024 bytes", checkNothing), "",
			"account at smtp.host; empty: no authentication"),
		row("smtp.password", text(&o.SMTP.Password, "password", "up to 1024 bytes", checkNothing), "",
			"its password", secret),
		row("smtp.from", text(&o.SMTP.From, "address", "name@domain or Name <name@domain>", checkNothing), "",
			"sender of e-mails; required with smtp.host"),
	}
	for _, r := range alert.Rules() {
		rows = append(rows, row("alerts."+r.Name+".enabled", c.ruleSwitch(r), "true", "judge the rule "+r.Name))
		for _, f := range r.Fields {
			rows = append(rows, row("alerts."+r.Name+"."+f.Name, c.threshold(r, f), f.Format(f.Default), r.Name+": "+f.Doc))
		}
	}
	return rows
}

// threshold is a threshold of a rule. Its syntax and bounds are the rule's.
func (c *Config) threshold(r *alert.Rule, f alert.Field) value {
	set := &c.Options.AlertThresholds
	words := map[alert.Unit]string{alert.Duration: "duration"}
	word, ok := words[f.Unit]
	if !ok {
		word = "number"
	}
	return value{
		word: word, rule: f.Bounds(),
		show: func() string { return f.Format(set.Get(r.Name, f.Name)) },
		parse: func(text string) error {
			if _, err := f.Parse(text); err != nil {
				return err
			}
			next, err := set.With(r.Name, f.Name, text)
			if err == nil {
				*set = next
			}
			return err
		},
	}
}

// ruleSwitch switches a rule off.
func (c *Config) ruleSwitch(r *alert.Rule) value {
	set := &c.Options.AlertThresholds
	on := true
	v := toggle(&on)
	parse := v.parse
	v.parse = func(text string) error {
		if err := parse(text); err != nil {
			return err
		}
		next, err := set.WithRule(r.Name, on)
		if err == nil {
			*set = next
		}
		return err
	}
	v.show = func() string { return strconv.FormatBool(set.Enabled(r.Name)) }
	return v
}

// checkNothing leaves the check to mailer, which sees the server's settings
// together.
func checkNothing(string) error { return nil }

func checkPublicURL(s string) error {
	if checkProxy(s) != nil || strings.ContainsAny(s, "?#@ ") || len(s) > 2048 {
		return errors.New("must be a URL that starts with http:// or https://, without query, fragment and user")
	}
	return nil
}

// checkAlerts applies the rules that tie settings of alerts together. Errors of the
// packages that know them begin with the key.
func (l *loader) checkAlerts(c *Config) {
	if err := c.Options.AlertThresholds.Check(); err != nil {
		l.named(err, ": ")
	}
	smtp := &c.Options.SMTP
	switch {
	case smtp.Host != "":
		if _, err := mailer.New(*smtp); err != nil {
			l.named(err, " ")
		}
	case smtp.Username != "" || smtp.Password != "" || smtp.From != "":
		l.problem(Problem{
			Key: "smtp.host", Origin: l.origin("smtp.host"),
			Message: "must not be empty when smtp.username, smtp.password or smtp.from is given",
		})
	}
}

// named makes a problem of an error whose text begins with a key.
func (l *loader) named(err error, separator string) {
	key, message, _ := strings.Cut(err.Error(), separator)
	key = strings.TrimSuffix(key, ":")
	l.problem(Problem{Key: key, Origin: l.origin(key), Message: message})
}
