package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// noticeQueue is the stored queue as the sender knows it: with channels in the
// clear, and under the fence of shard 0.
type noticeQueue struct{ a *App }

// fence is this node as the owner of shard 0, if it is.
func (q noticeQueue) fence() (store.Fence, bool) {
	epoch, ok := q.a.dispatcher.Holds(0)
	return store.Fence{Node: q.a.node.ID, Held: store.Held{Shard: 0, Epoch: epoch}}, ok
}

// Due implements notify.Queue. A notice that has lost what it is about, or whose
// channel cannot be opened, ends here.
func (q noticeQueue) Due(ctx context.Context, now time.Time, busy []hook.ID, limit int) ([]notify.Notice, error) {
	f, ok := q.fence()
	if !ok {
		return nil, nil
	}
	due, err := q.a.db.DueNotices(ctx, f, now, busy, limit)
	if err != nil {
		return nil, err
	}
	out := make([]notify.Notice, 0, len(due))
	for i := range due {
		d := &due[i]
		n, err := q.notice(d)
		if err == nil {
			out = append(out, n)
			continue
		}
		end := store.NoticeEnd{Now: now, Result: hook.NoticeFailed, Tries: d.Tries, Error: err.Error(), Reached: d.Reached}
		if errors.Is(err, errNoticeLost) {
			end.Result = hook.NoticeSkipped
		} else {
			q.a.log.Warn("a notice cannot be sent", "channel", hook.ChannelPrefix.Format(d.Channel), "error", err)
		}
		if err := q.a.db.EndNotice(ctx, f, d.NoticeKey, end); err != nil {
			return nil, fmt.Errorf("end a notice that cannot be sent: %w", err)
		}
	}
	return out, nil
}

var (
	errNoticeLost    = errors.New("its channel, or what it was about, is gone")
	errChannelSealed = errors.New("the channel's address or secret cannot be read with the server's encryption keys: set them again")
)

func (q noticeQueue) notice(d *store.Notice) (notify.Notice, error) {
	n := notify.Notice{
		Alert: d.Alert, Event: d.Event, Kind: d.Kind, At: d.At, Tries: d.Tries, Reached: d.Reached, Endpoint: d.Endpoint, Tenant: d.Tenant,
	}
	switch {
	case d.Alert == nil && d.Event == nil:
		return n, errNoticeLost
	case d.To != nil:
		n.Channel = d.To.Channel
		if err := q.a.vault.OpenChannel(&n.Channel, d.To.Sealed); err != nil {
			return n, errChannelSealed
		}
	case d.Channel == alert.LogChannelID:
		n.Channel = alert.LogChannel()
	default:
		return n, errNoticeLost
	}
	return n, nil
}

// Begin implements notify.Queue.
func (q noticeQueue) Begin(ctx context.Context, k notify.Key, tries int, again time.Time) (bool, error) {
	f, ok := q.fence()
	if !ok {
		return false, nil
	}
	return q.a.db.BeginNotice(ctx, f, keyOf(k), tries, again)
}

// End implements notify.Queue. It is stored also by a node that is not the owner any
// more, as far as it says that the notice was sent.
func (q noticeQueue) End(ctx context.Context, k notify.Key, out notify.Outcome) error {
	f, _ := q.fence()
	return q.a.db.EndNotice(ctx, f, keyOf(k), store.NoticeEnd{
		Now: time.Now(), Result: out.Result, Tries: out.Tries, Next: out.Next, Error: out.Error, Reached: out.Reached,
	})
}

func keyOf(k notify.Key) store.NoticeKey {
	about := k.Alert
	if k.Event != 0 {
		about = k.Event
	}
	return store.NoticeKey{About: about, Channel: k.Channel, At: k.At, Kind: k.Kind}
}
