package uitest

import (
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Alert stores a firing alert of an endpoint, told over channels. change may be nil.
func (w *World) Alert(rule string, s hook.AlertSubject, change func(*hook.Alert), channels ...hook.ID) string {
	w.T.Helper()
	now := w.Clock.Now()
	a := hook.Alert{
		ID: w.ID(), Rule: rule, Level: hook.LevelEndpoint, Severity: hook.SeverityWarning, Status: hook.AlertFiring, Subject: s,
		Summary: "505 retries for 53 first attempts.", Value: 9.5, Threshold: 5, Since: now, LastAt: now, Count: 1,
		Memory: hook.AlertMemory{TrueSince: now, NoticeAt: now},
	}
	if change != nil {
		change(&a)
	}
	for _, c := range channels {
		a.Notifications = append(a.Notifications, hook.Notification{Channel: c, At: now, Kind: hook.NoticeFiring, Result: hook.NoticeWaiting})
	}
	w.OK(w.DB.SaveAlerts(w.T.Context(), w.Fence(0), store.AlertStep{Now: now, Save: []hook.Alert{a}}))
	return hook.AlertPrefix.Format(a.ID)
}
