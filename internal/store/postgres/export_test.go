package postgres

import (
	"fmt"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Statements whose plans are tested.
const (
	ReadAheadSQL        = readAhead
	NewestDueSQL        = newestDue
	NextDueSQL          = nextDue
	PendingEndpointsSQL = pendingEndpoints
	SettleSQL           = settleBatch
	AcceptSQL           = acceptFirst
)

// What the hint codec is tested through.
var (
	EncodeHint = encodeHint
	DecodeHint = decodeHint
)

// ReaderSettings and CommitterSettings are what the connections set that run
// those statements.
var (
	ReaderSettings    = readers
	CommitterSettings = committers
)

// ListSQL returns the list query of a filter with its parameters written in,
// for EXPLAIN.
func ListSQL(f store.DeliveryFilter) string {
	q := matching(f, store.Page{Limit: 20}, deliveryFields)
	for i := len(q.args); i > 0; i-- {
		text := fmt.Sprint(q.args[i-1])
		if ids, ok := q.args[i-1].([]hook.ID); ok {
			text = "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]") + "}'"
		}
		q.sql = strings.ReplaceAll(q.sql, fmt.Sprintf("$%d", i), text)
	}
	return q.sql
}
