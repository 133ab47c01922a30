package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Statements whose plans are tested.
const (
	ReadAheadSQL        = readAhead
	NewestDueSQL        = newestDue
	NextDueSQL          = nextDue
	ReadDueSQL          = readDue
	PendingEndpointsSQL = pendingEndpoints
	SettleSQL           = settleBatch
	SettleFirstSQL      = settleFirst
	SettleReplaySQL     = settleReplay
	AcceptSQL           = acceptFirst
)

// IsFirst tells which settles the short statement may write.
var IsFirst = isFirst

// What the hint codec is tested through.
var (
	EncodeHint = encodeHint
	DecodeHint = decodeHint
)

// ReaderSettings and CommitterSettings are what the connections set that run
// those statements.
var (
	ReaderSettings    = readers
	LaneSettings      = laneReaders
	CommitterSettings = committers
)

// ListSQL returns the list query of a filter with its parameters written in,
// for EXPLAIN.
func ListSQL(f store.DeliveryFilter) string {
	return written(matching(f, store.Page{Limit: 20}, deliveryFields))
}

// WalkSQL is ListSQL for the next deliveries of a replay.
func WalkSQL(j *hook.ReplayJob) string {
	return written(matching(store.MatchOf(j), store.Page{Limit: 20, After: j.Cursor, Asc: true}, "d.id, d.endpoint_id"))
}

func written(q *query) string {
	for i := len(q.args); i > 0; i-- {
		text := fmt.Sprint(q.args[i-1])
		switch v := q.args[i-1].(type) {
		case []hook.ID:
			text = "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") + "}'"
		case pgtype.Timestamptz:
			text = v.Time.Format("'2006-01-02T15:04:05Z'")
		}
		q.sql = strings.ReplaceAll(q.sql, fmt.Sprintf("$%d", i), text)
	}
	return q.sql
}
