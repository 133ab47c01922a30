package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
	"github.com/breakwaterhq/breakwater/internal/store/visible"
)

// Statements whose plans are tested.
const (
	ReadAheadSQL        = string(sqlstore.ReadAhead)
	NewestDueSQL        = string(sqlstore.NewestDue)
	NextDueSQL          = string(sqlstore.NextDue)
	ReadDueSQL          = string(readDue)
	PendingEndpointsSQL = string(pendingEndpoints)
	CountDueSQL         = string(countDue)
	SettleSQL           = string(settleBatch)
	SettleReplaySQL     = string(settleReplay)
	InsertDeliveredSQL  = string(insertDelivered)
	WithRowSQL          = string(withRow)
	AcceptSQL           = string(acceptFirst)
)

// IsFirst tells which settles may come with their row.
var IsFirst = isFirst

// ReaderSettings and CommitterSettings are what the connections set that run
// those statements.
var (
	ReaderSettings    = readers
	LaneSettings      = laneReaders
	CommitterSettings = committers
)

// WalkSQL returns the two queries of a walk: the one that finds where to stop
// and the one that reads, which are parts of every list, count and replay.
func WalkSQL(w store.Walk, f *store.DeliveryFilter, asc bool) (stop, read *Statement) {
	r := f.Range(store.Page{})
	p := store.Page{Limit: 20, Asc: asc}
	return (*Statement)(dialect{}.StopQuery(visible.Made(), w, f, r, asc, 1000)), (*Statement)(dialect{}.WalkQuery(visible.Made(), w, f, r, p, sqlstore.DeliveryColumns+", "+sqlstore.TypeOfEvent))
}

// MissingSQL returns the two queries of a search for events without a delivery.
func MissingSQL(j *hook.ReplayJob) (stop, read *Statement) {
	r := store.MissingRange(j, store.Page{})
	return (*Statement)(sqlstore.MissingStop(dialect{}, j, r, 1000)), (*Statement)(sqlstore.MissingQuery(dialect{}, j, r, 20))
}

// Statement is a query with its parameters.
type Statement sqlstore.Query

// Text is its text, Parameters how many there are, Written the text with them
// written in, for EXPLAIN.
func (s *Statement) Text() string    { return s.SQL }
func (s *Statement) Parameters() int { return len(s.Args) }
func (s *Statement) Written() string { return written((*sqlstore.Query)(s)) }

func written(q *sqlstore.Query) string {
	args, sql := values(q.Args), q.SQL
	for i := len(args); i > 0; i-- {
		text := fmt.Sprint(args[i-1])
		switch v := args[i-1].(type) {
		case string:
			text = "'" + v + "'"
		case []byte:
			text = fmt.Sprintf(`'\x%x'`, v)
		case []hook.ID:
			text = "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") + "}'"
		case []int16:
			text = "'{" + strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ","), "[]") + "}'"
		case []string:
			text = "'{" + strings.Join(v, ",") + "}'"
		case pgtype.Timestamptz:
			text = v.Time.Format("'2006-01-02T15:04:05Z'")
		}
		sql = strings.ReplaceAll(sql, fmt.Sprintf("$%d", i), text)
	}
	return sql
}

// EventReadsSQL are the statements that read events of the day of an id, with the
// number of their parameters.
func EventReadsSQL(id hook.ID) map[string]int {
	events := dayOf(id).partition("events")
	return map[string]int{fmt.Sprintf(announcedEvents, events): 2, fmt.Sprintf(eventsByID, events): 1}
}
