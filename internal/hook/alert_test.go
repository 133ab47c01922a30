package hook_test

import (
	"fmt"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestAlertNumbersAreStored(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		got  fmt.Stringer
		n    uint8
		text string
	}{
		{hook.LevelEndpoint, uint8(hook.LevelEndpoint), "1 endpoint"},
		{hook.LevelTenant, uint8(hook.LevelTenant), "2 tenant"},
		{hook.LevelSystem, uint8(hook.LevelSystem), "3 system"},

		{hook.SeverityInfo, uint8(hook.SeverityInfo), "1 info"},
		{hook.SeverityWarning, uint8(hook.SeverityWarning), "2 warning"},
		{hook.SeverityPage, uint8(hook.SeverityPage), "3 page"},

		{hook.AlertFiring, uint8(hook.AlertFiring), "1 firing"},
		{hook.AlertResolved, uint8(hook.AlertResolved), "2 resolved"},
		{hook.AlertPending, uint8(hook.AlertPending), "3 pending"},

		{hook.NoticeFiring, uint8(hook.NoticeFiring), "1 firing"},
		{hook.NoticeRepeat, uint8(hook.NoticeRepeat), "2 repeat"},
		{hook.NoticeRaised, uint8(hook.NoticeRaised), "3 raised"},
		{hook.NoticeFlapping, uint8(hook.NoticeFlapping), "4 flapping"},
		{hook.NoticeResolved, uint8(hook.NoticeResolved), "5 resolved"},
		{hook.NoticeFolded, uint8(hook.NoticeFolded), "6 folded"},

		{hook.NoticeWaiting, uint8(hook.NoticeWaiting), "1 waiting"},
		{hook.NoticeSent, uint8(hook.NoticeSent), "2 sent"},
		{hook.NoticeFailed, uint8(hook.NoticeFailed), "3 failed"},
		{hook.NoticeSkipped, uint8(hook.NoticeSkipped), "4 skipped"},

		{hook.ChannelLog, uint8(hook.ChannelLog), "1 log"},
		{hook.ChannelWebhook, uint8(hook.ChannelWebhook), "2 webhook"},
		{hook.ChannelSlack, uint8(hook.ChannelSlack), "3 slack"},
		{hook.ChannelEmail, uint8(hook.ChannelEmail), "4 email"},
	} {
		if got := fmt.Sprintf("%d %s", p.n, p.got); got != p.text {
			t.Errorf("%T is %q, want %q", p.got, got, p.text)
		}
	}
}

func TestAlertNamesRoundTrip(t *testing.T) {
	t.Parallel()
	roundTrip(t, hook.ParseAlertLevel, hook.LevelEndpoint, hook.LevelSystem)
	roundTrip(t, hook.ParseSeverity, hook.SeverityInfo, hook.SeverityPage)
	roundTrip(t, hook.ParseAlertStatus, hook.AlertFiring, hook.AlertPending)
	roundTrip(t, hook.ParseNoticeKind, hook.NoticeFiring, hook.NoticeFolded)
	roundTrip(t, hook.ParseNoticeResult, hook.NoticeWaiting, hook.NoticeSkipped)
	roundTrip(t, hook.ParseChannelKind, hook.ChannelLog, hook.ChannelEmail)
}
