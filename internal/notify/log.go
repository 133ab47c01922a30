package notify

import (
	"context"
	"log/slog"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// writeLog writes one line: alert=retry_storm status=firing … It cannot fail.
func (s *Sender) writeLog(ctx context.Context, n *Notice, c *content) {
	a := n.Alert
	level := slog.LevelWarn
	if over(n) || a.Severity == hook.SeverityInfo {
		level = slog.LevelInfo
	}
	status := hook.AlertFiring
	if over(n) {
		status = hook.AlertResolved
	}
	attrs := []slog.Attr{
		slog.String("alert", a.Rule), slog.String("status", status.String()), slog.String("severity", a.Severity.String()),
		slog.String("alert_level", a.Level.String()), slog.String("notice", n.word()),
		slog.String("alert_id", hook.AlertPrefix.Format(a.ID)), slog.String("subject", c.where),
		slog.Float64("value", a.Value), slog.Float64("threshold", a.Threshold), slog.Time("since", a.Since.UTC()),
	}
	if id := a.Subject.Tenant; id != 0 {
		attrs = append(attrs, slog.String("tenant", hook.TenantPrefix.Format(id)))
	}
	if id := a.Subject.Endpoint; id != 0 {
		attrs = append(attrs, slog.String("endpoint", hook.EndpointPrefix.Format(id)))
	}
	if over(n) {
		attrs = append(attrs, slog.Duration("lasted", endOf(n).Sub(a.Since)))
	}
	if c.runbook != "" {
		attrs = append(attrs, slog.String("runbook", c.runbook))
	}
	s.log.LogAttrs(ctx, level, clean(a.Summary, maxSummary), attrs...)
}
