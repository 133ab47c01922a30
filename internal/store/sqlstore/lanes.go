package sqlstore

import (
	"context"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// The three reads below walk deliveries_due and sort nothing. state = 0 is
// written out, not bound: a parameter cannot be proven to match the partial
// index, and the planner would then sort the whole backlog of the endpoint.
const (
	ReadAhead visible.SQL = `
SELECT ` + DeliveryColumns + ` FROM deliveries d
WHERE d.endpoint_id = $1 AND d.state = 0 AND d.due_at <= $2 ORDER BY d.due_at, d.id LIMIT $3`

	NewestDue visible.SQL = `
SELECT ` + DeliveryColumns + ` FROM deliveries d
WHERE d.endpoint_id = $1 AND d.state = 0 AND d.due_at <= $2 ORDER BY d.due_at DESC, d.id DESC LIMIT $3`

	NextDue visible.SQL = `
SELECT d.due_at FROM deliveries d
WHERE d.endpoint_id = $1 AND d.state = 0 AND d.due_at > $2 ORDER BY d.due_at, d.id LIMIT 1`
)

// ReadAhead implements store.LaneReader.
func (t *Tables) ReadAhead(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	return readLane(ctx, t, "read ahead", ScanDelivery, ReadAhead, endpoint, now, limit)
}

// NewestDue implements store.LaneReader.
func (t *Tables) NewestDue(ctx context.Context, endpoint hook.ID, now time.Time, limit int) ([]hook.Delivery, error) {
	return readLane(ctx, t, "read newest due", ScanDelivery, NewestDue, endpoint, now, limit)
}

// NextDue implements store.LaneReader.
func (t *Tables) NextDue(ctx context.Context, endpoint hook.ID, now time.Time) (time.Time, error) {
	due, err := readLane(ctx, t, "read next due", func(r Row, due *time.Time) error { return r.Scan(Time(due)) }, NextDue, endpoint, now)
	if err != nil || len(due) == 0 {
		return time.Time{}, err
	}
	return due[0], nil
}

// readLane reads rows of the lane of an endpoint, which is the first argument.
func readLane[T any](ctx context.Context, t *Tables, doing string, scan func(Row, *T) error, query visible.SQL, endpoint hook.ID, more ...any) ([]T, error) {
	seen, err := t.dialect.MakeLaneVisible(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	var out []T
	err = t.dialect.ReadLane(ctx, doing, &Query{SQL: seen.Text(query), Args: append([]any{endpoint}, more...)}, Collect(&out, scan))
	return out, err
}
