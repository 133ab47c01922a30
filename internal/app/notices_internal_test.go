package app

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// TestNoticesAreOpenedForTheSender: with the secrets of their channel in the clear,
// the log without a row, and nothing that is gone or cannot be opened.
func TestNoticesAreOpenedForTheSender(t *testing.T) {
	t.Parallel()
	keys, err := vault.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open(keys)
	if err != nil {
		t.Fatal(err)
	}
	q := noticeQueue{&App{vault: v}}
	channel := hook.Channel{ID: 7, Tenant: 3, Kind: hook.ChannelSlack, URL: "https://chat.example.com/secret"}
	sealed, err := v.SealChannel(&channel)
	if err != nil {
		t.Fatal(err)
	}
	closed := channel
	closed.URL = ""
	stored := &store.Channel{Channel: closed, Sealed: sealed}
	moved := &store.Channel{Channel: closed, Sealed: sealed}
	moved.ID = 8 // sealed for another channel
	a := &hook.Alert{ID: 5}
	for name, tc := range map[string]struct {
		in   store.Notice
		want hook.Channel
		err  error
	}{
		"a chat":                {store.Notice{NoticeKey: store.NoticeKey{Channel: 7, Kind: hook.NoticeFiring}, Alert: a, To: stored}, channel, nil},
		"the log":               {store.Notice{NoticeKey: store.NoticeKey{Channel: hook.LogChannelID, Kind: hook.NoticeFiring}, Alert: a}, hook.Channel{ID: hook.LogChannelID}, nil},
		"a channel that went":   {store.Notice{NoticeKey: store.NoticeKey{Channel: 7, Kind: hook.NoticeFiring}, Alert: a}, hook.Channel{}, errNoticeLost},
		"an alert that went":    {store.Notice{NoticeKey: store.NoticeKey{Channel: 7, Kind: hook.NoticeFiring}, To: stored}, hook.Channel{}, errNoticeLost},
		"secrets of another":    {store.Notice{NoticeKey: store.NoticeKey{Channel: 8, Kind: hook.NoticeFiring}, Alert: a, To: moved}, hook.Channel{}, errChannelSealed},
		"an operational event":  {store.Notice{NoticeKey: store.NoticeKey{Channel: 7}, Event: &hook.OperationalEvent{ID: 9}, To: stored}, channel, nil},
		"an event that expired": {store.Notice{NoticeKey: store.NoticeKey{Channel: 7}, To: stored}, hook.Channel{}, errNoticeLost},
	} {
		got, err := q.notice(&tc.in)
		if !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, want %v", name, err, tc.err)
		}
		if err == nil && (got.Channel.ID != tc.want.ID || got.Channel.URL != tc.want.URL) {
			t.Errorf("%s: channel %+v, want %+v", name, got.Channel, tc.want)
		}
		if about := keyOf(got.Key()).About; err == nil && about != 5 && about != 9 {
			t.Errorf("%s: about %v", name, about)
		}
	}
}

// TestKeysOfNoticesComeBack: what the sender names is what is stored.
func TestKeysOfNoticesComeBack(t *testing.T) {
	t.Parallel()
	at := time.Now()
	alert := notify.Key{Alert: 1, Channel: 2, Kind: hook.NoticeResolved, At: at}
	if got, want := keyOf(alert), (store.NoticeKey{About: 1, Channel: 2, Kind: hook.NoticeResolved, At: at}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	event := notify.Key{Event: 3, Channel: 2, At: at}
	if got, want := keyOf(event), (store.NoticeKey{About: 3, Channel: 2, At: at}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
