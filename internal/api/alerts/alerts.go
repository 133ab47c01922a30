// Package alerts is the part of the API that is about alerts: what fires, who is
// told over which channels, and the rules with their thresholds.
//
// It judges and sends nothing: package alert does the one, package notify the
// other. It checks and seals what people write, and shows what is stored.
package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Parts are what the routes reach beside the store. Both may be nil.
type Parts struct {
	// Test sends a notice over a channel that says it is a test, and waits for the
	// result. detail is safe to show; nil: this server sends nothing.
	Test func(ctx context.Context, ch hook.Channel) (ok bool, detail string)
	// Unjudged: nobody judges alerts here. Those that fired stay as they were.
	Unjudged bool
	// Thresholds returns those that are in force; nil: the defaults.
	Thresholds func() alert.Thresholds
}

// Store is what the routes ask of the database.
type Store interface {
	store.AlertLog
	store.AlertChannels
	WriteAudit(ctx context.Context, a hook.Audit) error
}

// Config is what AddRoutes needs. All of it is required but Parts.
type Config struct {
	Parts
	Store Store
	Vault *vault.Vault
	IDs   *hook.IDSource
	// CheckURL returns a URL in its normal form, or an error whose text names the
	// rule that it broke.
	CheckURL func(raw string) (string, error)
	// TenantID finds a tenant by id or uid.
	TenantID func(ctx context.Context, text string) (hook.ID, error)
	// EndpointIDs reads the filter query.endpoint.
	EndpointIDs func(ctx context.Context, c *rest.Call, list []string) ([]hook.ID, error)
}

// routes serves all of them.
type routes struct {
	cfg    Config
	server *rest.Server
	tests  recentTests
}

const tenantPath = "/v1/tenants/{tenant}"

// AddRoutes adds the routes of alerts, channels and rules.
func AddRoutes(server *rest.Server, cfg Config) {
	r := &routes{cfg: cfg, server: server}
	g := server.Group("alerts")
	rest.Add(g, rest.NeedAdminRead, "GET /v1/alerts", "list-all-alerts", "List alerts, the whole server's included", r.list)
	rest.Add(g, rest.NeedRead, "GET "+tenantPath+"/alerts", "list-alerts", "List the alerts of a tenant",
		func(ctx context.Context, c *rest.Call, in *tenantAlerts) (*rest.ListOutput[view.Alert], error) {
			return r.list(ctx, c, &in.AlertQuery)
		})
	rest.Add(g, rest.NeedRead, "GET /v1/alerts/{alert}", "get-alert", "Get an alert with its notifications", r.get)
	rest.Add(g, rest.NeedWrite, "POST /v1/alerts/{alert}/ack", "acknowledge-alert", "Acknowledge an alert", r.ack,
		rest.Describe("Repeats stop, or pause for the snooze. Its end is told all the same."))
	rest.Add(g, rest.NeedAdminRead, "GET /v1/alert-rules", "list-alert-rules", "List rules with the thresholds in force", r.rules)
	r.addChannelRoutes()
}

// AlertQuery selects alerts.
type AlertQuery struct {
	rest.PageParams
	Status   []string `query:"status,explode" enum:"firing,resolved" doc:"Repeat for alternatives."`
	Level    []string `query:"level,explode" enum:"endpoint,tenant,system" doc:"Repeat for alternatives."`
	Severity []string `query:"severity,explode" enum:"page,warning,info" doc:"Repeat for alternatives."`
	Rule     []string `query:"rule,explode" doc:"Name of a rule; repeat for alternatives."`
	Endpoint []string `query:"endpoint,explode" doc:"Id or uid; repeat for alternatives."`
}

type tenantAlerts struct {
	rest.TenantPath
	AlertQuery
}

func (r *routes) list(ctx context.Context, c *rest.Call, in *AlertQuery) (*rest.ListOutput[view.Alert], error) {
	read := func(p store.Page) ([]hook.Alert, error) {
		f, err := r.filter(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return r.cfg.Store.ListAlerts(ctx, f, p)
	}
	return rest.ListOf(r.server, c, in.PageParams, read, func(a hook.Alert) hook.ID { return a.ID }, r.view)
}

// view shows an alert, and whether anybody knows that it still fires.
func (r *routes) view(a hook.Alert) view.Alert {
	v := view.OfAlert(a)
	v.Stale = r.cfg.Unjudged && a.Status == hook.AlertFiring
	return v
}

func (r *routes) filter(ctx context.Context, c *rest.Call, in *AlertQuery) (f store.AlertFilter, err error) {
	f.Tenant, f.Rules = c.Tenant, in.Rule
	for _, name := range in.Rule {
		if alert.Lookup(name) == nil {
			return f, rest.BadParameter("query.rule", "names a rule that does not exist; see /v1/alert-rules")
		}
	}
	if f.Statuses, err = parseAll("query.status", in.Status, hook.ParseAlertStatus); err != nil {
		return f, err
	}
	if f.Levels, err = parseAll("query.level", in.Level, hook.ParseAlertLevel); err != nil {
		return f, err
	}
	if f.Severities, err = parseAll("query.severity", in.Severity, hook.ParseSeverity); err != nil {
		return f, err
	}
	f.Endpoints, err = r.cfg.EndpointIDs(ctx, c, in.Endpoint)
	return f, err
}

func parseAll[T any](path string, names []string, parse func(string) (T, error)) (out []T, err error) {
	for _, name := range names {
		v, err := parse(name)
		if err != nil {
			return nil, rest.BadParameter(path, err.Error())
		}
		out = append(out, v)
	}
	return out, nil
}

// AlertPath is an alert of a path.
type AlertPath struct {
	Alert string `path:"alert" maxLength:"64" doc:"alr_…"`
}

// read reads the alert of the path, with what the key may see of its
// notifications: those over an operator's channels are the operator's business.
func (r *routes) read(ctx context.Context, c *rest.Call, text string) (hook.Alert, error) {
	id, err := hook.AlertPrefix.Parse(text)
	if err != nil {
		return hook.Alert{}, hook.ErrNotFound
	}
	a, err := r.cfg.Store.AlertByID(ctx, c.Tenant, id)
	if err != nil || c.Tenant == 0 {
		return a, err
	}
	own, err := r.cfg.Store.ListChannels(ctx, c.Tenant, store.Page{Limit: maxTenantChannels})
	if err != nil {
		return a, fmt.Errorf("read channels: %w", err)
	}
	a.Notifications = slices.DeleteFunc(a.Notifications, func(n hook.Notification) bool {
		return !slices.ContainsFunc(own, func(ch store.Channel) bool { return ch.ID == n.Channel })
	})
	return a, nil
}

func (r *routes) get(ctx context.Context, c *rest.Call, in *AlertPath) (*rest.Output[view.Alert], error) {
	a, err := r.read(ctx, c, in.Alert)
	if err != nil {
		return nil, err
	}
	return &rest.Output[view.Alert]{Body: r.view(a)}, nil
}

type ackInput struct {
	AlertPath
	Body *struct {
		Note   string `json:"note,omitempty" maxLength:"1000" doc:"Shown with the alert."`
		Snooze string `json:"snooze,omitempty" doc:"Repeats go on after this long: 1m to 7d. Absent: not before it is resolved."`
	}
}

func (r *routes) ack(ctx context.Context, c *rest.Call, in *ackInput) (*rest.Output[view.Alert], error) {
	note, snooze, err := in.read()
	if err != nil {
		return nil, err
	}
	a, err := r.read(ctx, c, in.Alert)
	if err != nil {
		return nil, err
	}
	err = alert.Acknowledge(&a, rest.KeyText(c.Key), note, snooze, c.Now)
	if errors.Is(err, hook.ErrStateConflict) {
		return nil, notFiring()
	}
	if err != nil {
		return nil, err
	}
	shown := view.OfAlert(a)
	record := r.server.Audit(c, a.Subject.Tenant, "alert.ack", shown.ID, map[string]any{"note": note, "snoozed_until": shown.SnoozedUntil})
	stored, err := r.cfg.Store.AckAlert(ctx, c.Tenant, a, record)
	switch {
	case errors.Is(err, hook.ErrStateConflict): // it ended just now
		return nil, notFiring()
	case err != nil:
		return nil, fmt.Errorf("acknowledge alert: %w", err)
	}
	stored.Notifications = a.Notifications
	return &rest.Output[view.Alert]{Body: r.view(stored)}, nil
}

func notFiring() error {
	return rest.Conflict(hook.AlertResolved.String(), "the alert is over: there is nothing to acknowledge")
}

func (in *ackInput) read() (note string, snooze time.Duration, err error) {
	if in.Body == nil {
		return "", 0, nil
	}
	bad := &rest.Invalid{}
	bad.CheckText("note", in.Body.Note, alert.MaxAckNote)
	if in.Body.Snooze != "" {
		if snooze, err = quantity.ParseDuration(in.Body.Snooze); err != nil || snooze < alert.MinSnooze || snooze > alert.MaxSnooze {
			bad.Add("snooze", "out_of_range", "must be "+quantity.Between(alert.MinSnooze, alert.MaxSnooze))
		}
	}
	return in.Body.Note, snooze, bad.Err()
}

// units are how the API names those of thresholds.
var units = map[alert.Unit]string{alert.Count: "count", alert.Number: "number", alert.Percent: "percent", alert.Duration: "duration"}

type ruleList struct {
	Data []view.AlertRule `json:"data" nullable:"false"`
}

func (r *routes) rules(context.Context, *rest.Call, *struct{}) (*rest.Output[ruleList], error) {
	var t alert.Thresholds
	if r.cfg.Thresholds != nil {
		t = r.cfg.Thresholds()
	}
	out := ruleList{}
	for _, rule := range alert.Rules() {
		out.Data = append(out.Data, showRule(rule, t))
	}
	return &rest.Output[ruleList]{Body: out}, nil
}

func showRule(rule *alert.Rule, t alert.Thresholds) view.AlertRule {
	v := view.AlertRule{
		Name: rule.Name, Meaning: rule.Meaning, Metric: rule.Metric, Healthy: rule.Healthy, Enabled: t.Enabled(rule.Name),
		Runbook: rule.Runbook(), Thresholds: []view.Threshold{},
	}
	if rule.Window > 0 {
		v.Window = view.Nullable(quantity.FormatDuration(rule.Window))
	}
	for _, at := range rule.At {
		level := view.AlertRuleLevel{Level: at.Level.String()}
		for _, s := range at.Steps {
			level.Severities = append(level.Severities, s.String())
		}
		v.Levels = append(v.Levels, level)
	}
	for _, f := range rule.Fields {
		v.Thresholds = append(v.Thresholds, view.Threshold{
			Name: f.Name, Value: f.Format(t.Get(rule.Name, f.Name)), Default: f.Format(f.Default), Bounds: f.Bounds(), Unit: units[f.Unit], Doc: f.Doc,
		})
	}
	return v
}
