package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestResult is how the test of a channel went.
type TestResult struct {
	OK     bool
	Detail string // what went wrong, or was refused; safe to show
}

// Test sends a notice over a channel that says it is only a test, once and now,
// and waits for the result. The channel need not be stored. An operational event
// takes the same way, so it needs no test of its own.
func (s *Sender) Test(ctx context.Context, ch hook.Channel) TestResult {
	if err := Check(ch); err != nil {
		return TestResult{Detail: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	now := time.Now()
	n := Notice{
		Channel: ch, Kind: hook.NoticeFiring, At: now, test: true,
		Alert: &hook.Alert{
			ID: hook.IDFloor(now), Rule: "test", Level: hook.LevelSystem, Severity: hook.SeverityInfo, Status: hook.AlertFiring,
			Subject: hook.AlertSubject{Tenant: ch.Tenant}, Since: now, LastAt: now, Count: 1,
			Summary: fmt.Sprintf("This is a test of the channel %q. Nothing is wrong.", ch.Name),
		},
	}
	if ch.Tenant != 0 {
		n.Alert.Level = hook.LevelTenant
	}
	_, err := s.send(ctx, &n)
	if err == nil {
		return TestResult{OK: true, Detail: done(ch.Kind)}
	}
	if _, ok := errors.AsType[*partError](err); ok {
		return TestResult{Detail: "not sent to everybody: " + clean(err.Error(), maxSummary)}
	}
	return TestResult{Detail: clean(err.Error(), maxSummary)}
}

func done(k hook.ChannelKind) string {
	switch k {
	case hook.ChannelLog:
		return "written to the log"
	case hook.ChannelEmail:
		return "the mail server took it"
	default:
		return "the receiver took it"
	}
}
