package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

const noticeColumns = `n.channel_id, n.at, n.kind, n.result, n.tries, n.error`

func noticeFields(n *hook.Notification) []any {
	return []any{&n.Channel, Time(&n.At), &n.Kind, &n.Result, &n.Tries, &n.Error}
}

func scanNotification(r Row, n *hook.Notification) error { return r.Scan(noticeFields(n)...) }

const (
	insertNotice = `
INSERT INTO notices (about_id, channel_id, at, kind, result, due_at) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING`

	// skipOldest ends what no channel will ever catch up with. It is read with every
	// round until then, and kept with its alert.
	skipOldest = `
UPDATE notices SET result = 4, error = 'too many notices wait for the channel' WHERE channel_id = $1 AND kind <> 0 AND result = 1
  AND at < (SELECT at FROM notices WHERE channel_id = $1 AND kind <> 0 AND result = 1 ORDER BY at DESC LIMIT 1 OFFSET $2)`

	// skipLost ends the notices of a channel that was deleted while they were decided.
	// The log channel has no row.
	skipLost = `
UPDATE notices SET result = 4 WHERE channel_id = $1 AND kind <> 0 AND result = 1
  AND channel_id <> 1 AND NOT EXISTS (SELECT 1 FROM alert_channels WHERE id = $1)`

	// trimNotices keeps some 200 notices of an alert that lasts, and in any case the
	// latest of every channel and the one that its owner believes.
	trimNotices = `
DELETE FROM notices AS n WHERE n.about_id = $1 AND n.result <> 1
  AND n.at < (SELECT at FROM notices WHERE about_id = $1 ORDER BY at DESC LIMIT 1 OFFSET 200)
  AND EXISTS (SELECT 1 FROM notices o WHERE o.about_id = $1 AND o.channel_id = n.channel_id AND o.at > n.at
    AND (n.kind > 4 OR n.result > 2 OR o.kind = 5 OR o.kind < 5 AND o.result <= 2))`
)

// addNotices stores what was decided last about alerts. It is due at once, also when
// it is of the future by the clock: that was set back.
func addNotices(tx Tx, now time.Time, alerts []hook.Alert) error {
	var insert, trim [][]any
	channels := make(map[hook.ID]bool)
	for i := range alerts {
		a := &alerts[i]
		for _, n := range a.Notifications {
			if !n.At.Equal(a.Memory.NoticeAt) {
				continue
			}
			due := n.At
			if due.After(now) {
				due = now
			}
			insert = append(insert, []any{a.ID, n.Channel, n.At, n.Kind, n.Result, due})
			channels[n.Channel] = true
		}
		if len(a.Notifications) >= 200 {
			trim = append(trim, []any{a.ID})
		}
	}
	var skip, bound [][]any
	for _, id := range slices.Sorted(maps.Keys(channels)) {
		skip, bound = append(skip, []any{id}), append(bound, []any{id, store.MaxWaitingNotices - 1})
	}
	for _, step := range []struct {
		query string
		rows  [][]any
	}{{insertNotice, insert}, {skipLost, skip}, {skipOldest, bound}, {trimNotices, trim}} {
		if err := tx.ExecAll(step.query, step.rows); err != nil {
			return err
		}
	}
	return nil
}

// DueQuery returns the query of the notices that are due. They are few: the
// backlog of a channel is bounded. The sum with 0 keeps a planner without
// statistics from looking for others of the same alert among all that wait for the
// channel.
func DueQuery(d Dialect, f store.Fence, now time.Time, busy []hook.ID, limit int) *Query {
	q := &Query{SQL: `
SELECT n.about_id, n.channel_id, n.at, n.kind, n.tries, n.reached FROM notices n` + d.Hint("notices_due") + `
WHERE n.result = 1 AND n.due_at <= $1
  AND EXISTS (SELECT 1 FROM shards WHERE shard = $2 AND owner_id = $3 AND epoch = $4)
  AND NOT EXISTS (SELECT 1 FROM notices o WHERE o.about_id = n.about_id AND o.channel_id = n.channel_id AND o.result + 0 = 1
    AND (o.at < n.at OR o.at = n.at AND o.kind < n.kind))`, Args: []any{now, f.Shard, f.Node, f.Epoch}}
	if len(busy) > 0 {
		q.And("NOT ("+d.Among("n.channel_id", "?")+")", busy)
	}
	q.SQL += "\nORDER BY n.due_at, n.at, n.about_id LIMIT " + q.Arg(limit)
	return q
}

func scanNotice(r Row, n *store.Notice) error {
	return r.Scan(&n.About, &n.Channel, Time(&n.At), &n.Kind, &n.Tries, Document(&n.Reached))
}

// DueNotices implements store.NoticeQueue.
func (t *Tables) DueNotices(ctx context.Context, f store.Fence, now time.Time, busy []hook.ID, limit int) (due []store.Notice, err error) {
	due, err = list(ctx, t, "read due notices", scanNotice, DueQuery(t.dialect, f, now, busy, limit))
	if err != nil || len(due) == 0 {
		return nil, err
	}
	err = t.dialect.Snapshot(ctx, "read what due notices are about", func(tx Tx) error { return t.fillNotices(tx, due) })
	if err != nil {
		return nil, err
	}
	return due, nil
}

// fillNotices reads what notices are about, and their channels.
func (t *Tables) fillNotices(tx Tx, due []store.Notice) error {
	var about, channels []hook.ID
	for i := range due {
		about, channels = append(about, due[i].About), append(channels, due[i].Channel)
	}
	slices.Sort(channels)
	to := make(map[hook.ID]*store.Channel)
	err := tx.Query(`SELECT `+channelColumns+` FROM alert_channels c WHERE `+t.dialect.Among("c.id", "$1"), []any{slices.Compact(channels)},
		func(r Row) error {
			var c store.Channel
			err := scanChannel(r, &c)
			to[c.ID] = &c
			return err
		})
	if err != nil {
		return err
	}
	for i := range due {
		due[i].To = to[due[i].Channel]
	}
	if err := t.fillAlerts(tx, due, about); err != nil {
		return err
	}
	return t.fillEvents(tx, due, about)
}

func (t *Tables) fillAlerts(tx Tx, due []store.Notice, about []hook.ID) error {
	query := `SELECT ` + alertColumns + `, coalesce(e.url, ''), coalesce(t.name, '') FROM alerts a
LEFT JOIN endpoints e ON e.id = a.endpoint_id LEFT JOIN tenants t ON t.id = a.tenant_id WHERE ` + t.dialect.Among("a.id", "$1")
	return tx.Query(query, []any{about}, func(r Row) error {
		var a hook.Alert
		var endpoint, tenant string
		if err := r.Scan(append(alertFields(&a), &endpoint, &tenant)...); err != nil {
			return err
		}
		for i := range due {
			if n := &due[i]; n.About == a.ID && n.Kind != 0 {
				one := a
				n.Alert, n.Endpoint, n.Tenant = &one, endpoint, tenant
			}
		}
		return nil
	})
}

func (t *Tables) fillEvents(tx Tx, due []store.Notice, about []hook.ID) error {
	query := `SELECT o.id, coalesce(o.tenant_id, 0), coalesce(o.endpoint_id, 0), o.type, o.at, o.detail, coalesce(e.url, ''), coalesce(t.name, '')
FROM operational_events o LEFT JOIN endpoints e ON e.id = o.endpoint_id LEFT JOIN tenants t ON t.id = o.tenant_id
WHERE ` + t.dialect.Among("o.id", "$1")
	return tx.Query(query, []any{about}, func(r Row) error {
		var o hook.OperationalEvent
		var endpoint, tenant string
		if err := r.Scan(&o.ID, &o.TenantID, &o.EndpointID, &o.Type, Time(&o.At), Document(&o.Detail), &endpoint, &tenant); err != nil {
			return err
		}
		for i := range due {
			if n := &due[i]; n.About == o.ID && n.Kind == 0 {
				one := o
				n.Event, n.Endpoint, n.Tenant = &one, endpoint, tenant
			}
		}
		return nil
	})
}

const beginNotice = `
UPDATE notices SET tries = tries + 1, due_at = $6
WHERE about_id = $1 AND channel_id = $2 AND at = $3 AND kind = $4 AND tries = $5 AND result = 1`

// BeginNotice implements store.NoticeQueue.
func (t *Tables) BeginNotice(ctx context.Context, f store.Fence, k store.NoticeKey, tries int, again time.Time) (begun bool, err error) {
	err = t.dialect.Change(ctx, "begin notice", func(tx Tx) error {
		begun = false
		owner, err := fenced(tx, f)
		if err != nil || !owner {
			return err
		}
		n, err := tx.Exec(beginNotice, k.About, k.Channel, k.At, k.Kind, tries, again)
		begun = n == 1
		return err
	})
	return begun && err == nil, err
}

const (
	endNotice = `
UPDATE notices SET result = $5, tries = $6, due_at = coalesce($7, due_at), error = $8, reached = $9
WHERE about_id = $1 AND channel_id = $2 AND at = $3 AND kind = $4 AND result = 1`

	// deleteEventNotice: nobody is shown what became of an operational event.
	deleteEventNotice = `DELETE FROM notices WHERE about_id = $1 AND channel_id = $2 AND at = $3 AND kind = $4 AND result <> 1`

	channelFailed = `
UPDATE alert_channels SET failing_since = coalesce(failing_since, $2), last_error = $3 WHERE id = $1`
	channelWorks = `
UPDATE alert_channels SET failing_since = NULL, last_error = '' WHERE id = $1 AND failing_since IS NOT NULL`
)

// EndNotice implements store.NoticeQueue.
func (t *Tables) EndNotice(ctx context.Context, f store.Fence, k store.NoticeKey, end store.NoticeEnd) error {
	reached, err := document(end.Reached, "[]")
	if err != nil {
		return fmt.Errorf("end notice: %w", err)
	}
	return t.dialect.Change(ctx, "end notice", func(tx Tx) error {
		if end.Result != hook.NoticeSent {
			if owner, err := fenced(tx, f); err != nil || !owner {
				return err
			}
		}
		n, err := tx.Exec(endNotice, k.About, k.Channel, k.At, k.Kind, end.Result, end.Tries, end.Next, end.Error, reached)
		if err != nil || n == 0 {
			return err
		}
		if k.Kind == 0 {
			if _, err := tx.Exec(deleteEventNotice, k.About, k.Channel, k.At, k.Kind); err != nil {
				return err
			}
		}
		switch end.Result {
		case hook.NoticeFailed:
			_, err = tx.Exec(channelFailed, k.Channel, end.Now, end.Error)
		case hook.NoticeSent:
			_, err = tx.Exec(channelWorks, k.Channel)
		case hook.NoticeWaiting, hook.NoticeSkipped: // say nothing about it
		}
		return err
	})
}

const (
	insertEventNotice = `
INSERT INTO notices (about_id, channel_id, at, kind, result, due_at)
SELECT $1, c.id, $3, 0, 1, $3 FROM alert_channels c WHERE c.id = $2 ON CONFLICT DO NOTHING`

	// dropOldest drops what no channel will ever catch up with.
	dropOldest = `
DELETE FROM notices WHERE kind = 0 AND result = 1 AND channel_id = $1 AND about_id IN (
  SELECT about_id FROM notices WHERE kind = 0 AND result = 1 AND channel_id = $1 ORDER BY at DESC, about_id DESC LIMIT 100000 OFFSET $2)`

	countDropped = `UPDATE alert_channels SET dropped = dropped + $2 WHERE id = $1`
)

// TellOperational implements store.NoticeQueue.
func (t *Tables) TellOperational(ctx context.Context, events []hook.OperationalEvent, to []store.EventNotice) (dropped int64, err error) {
	notices, channels := make([][]any, len(to)), make([]hook.ID, len(to))
	for i, n := range to {
		notices[i], channels[i] = []any{n.Event, n.Channel, n.At}, n.Channel
	}
	slices.Sort(channels)
	channels = slices.Compact(channels)
	err = t.dialect.Change(ctx, "write operational events", func(tx Tx) error {
		dropped = 0
		if err := tx.ExecAll(insertOperational, operationalRows(events)); err != nil || len(to) == 0 {
			return err
		}
		if err := tx.Lock(LockChannels, 0); err != nil {
			return err
		}
		if err := tx.ExecAll(insertEventNotice, notices); err != nil {
			return err
		}
		for _, c := range channels {
			n, err := tx.Exec(dropOldest, c, store.MaxWaitingEvents)
			if err == nil && n > 0 {
				_, err = tx.Exec(countDropped, c, n)
			}
			if err != nil {
				return err
			}
			dropped += n
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return dropped, nil
}
