package seed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// copied are the tables whose rows are copied to the hours before, with which of them. Deliveries
// that are pending are not, nor what belongs to them: they wait now.
var copied = []struct{ table, where string }{
	{"events", "id IN (SELECT event_id FROM deliveries WHERE state <> 0 AND id >= %[1]d)"},
	{"attempts", "delivery_id IN (SELECT id FROM deliveries WHERE state <> 0 AND id >= %[1]d)"},
	{"first_attempts", "TRUE"}, // of SQLite; PostgreSQL has them in deliveries
	{"deliveries", "state <> 0 AND id >= %[1]d"},
}

// Columns that hold a moment: ids begin with one.
var (
	idColumns   = []string{"id", "event_id", "delivery_id", "last_attempt_id", "first_attempt_id"}
	timeColumns = []string{
		"created_at", "due_at", "run_due_at", "last_at", "settled_at", "first_delivered_at", "restore_due_at", "started_at", "next_due_at",
	}
)

// earlier writes the columns of a table as they were some time ago. Times are as the database
// has them; document is the name of the column with the JSON of an attempt, and how it is moved.
func earlier(columns []string, ids, micros int64, moved func(column string) (string, bool), timed string) string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c
		if text, ok := moved(c); ok {
			out[i] = text
			continue
		}
		switch {
		case slices.Contains(idColumns, c):
			out[i] = fmt.Sprintf("%s - %d", c, ids)
		case slices.Contains(timeColumns, c):
			out[i] = fmt.Sprintf(timed, c, micros)
		}
	}
	return strings.Join(out, ", ")
}

// shift returns how far ids and times of a copy are from the original.
func shift(n int) (ids, micros int64) {
	ago := time.Duration(n) * span
	return int64(hook.DayOfIDs) / int64(day/time.Millisecond) * ago.Milliseconds(), ago.Microseconds()
}

// copySQLite copies in one large transaction, without a journal: nobody else has the file, and a
// test that fails here begins anew. Indexes are built in the end, at once.
func copySQLite(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, pragma := range []string{"journal_mode=DELETE", "journal_mode=OFF", "synchronous=OFF", "cache_size=-400000", "foreign_keys=OFF", "temp_store=MEMORY"} {
		if _, err := db.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return fmt.Errorf("%s: %w", pragma, err)
		}
	}
	indexes, err := dropIndexes(ctx, db)
	if err != nil {
		return err
	}
	var oldest int64
	if err := db.QueryRowContext(ctx, "SELECT min(id) FROM events").Scan(&oldest); err != nil {
		return err
	}
	for _, t := range copied {
		columns, err := columnsOf(ctx, db, t.table)
		if err != nil {
			return err
		}
		where := t.where
		if strings.Contains(where, "%") {
			where = fmt.Sprintf(where, oldest)
		}
		if t.table == "first_attempts" {
			where = fmt.Sprintf("id >= %d", oldest)
		}
		for n := copies - 1; n > 0; n-- { // the oldest first: rows are in the order of ids, nearly
			ids, micros := shift(n)
			text := earlier(columns, ids, micros, func(column string) (string, bool) {
				return fmt.Sprintf(`json_set(document, '$.id', id - %d, '$.started_us', json_extract(document, '$.started_us') - %d)`, ids, micros), column == "document"
			}, "%s - %d")
			insert := fmt.Sprintf( //nolint:gosec // our own tables
				"INSERT INTO %[1]s (%[2]s) SELECT %[3]s FROM %[1]s WHERE %[4]s", t.table, strings.Join(columns, ", "), text, where)
			if _, err := db.ExecContext(ctx, insert); err != nil {
				return fmt.Errorf("%s: %w", t.table, err)
			}
		}
	}
	for _, text := range append(indexes, "ANALYZE", "PRAGMA journal_mode=WAL") {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// dropIndexes removes the indexes of large tables and returns how to make them again.
func dropIndexes(ctx context.Context, db *sql.DB) (texts []string, err error) {
	rows, err := db.QueryContext(ctx, `SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL
		AND tbl_name IN ('events', 'attempts', 'deliveries')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		names, texts = append(names, name), append(texts, text)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := db.ExecContext(ctx, "DROP INDEX "+name); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

func columnsOf(ctx context.Context, db *sql.DB, table string) ([]string, error) {
	rows, err := db.QueryContext(ctx, "SELECT * FROM "+table+" LIMIT 0") //nolint:gosec // our own tables
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	return columns, errors.Join(err, rows.Err())
}

// copyPostgres copies, a statement for each copy of a table.
func copyPostgres(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, "SET synchronous_commit = off"); err != nil {
		return err
	}
	var oldest int64
	if err := conn.QueryRow(ctx, "SELECT min(id) FROM events").Scan(&oldest); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "ANALYZE deliveries, attempts, events"); err != nil {
		return err
	}
	for _, t := range copied {
		if t.table == "first_attempts" {
			continue
		}
		rows, err := conn.Query(ctx, "SELECT * FROM "+t.table+" LIMIT 0")
		if err != nil {
			return err
		}
		var columns []string
		for _, f := range rows.FieldDescriptions() {
			columns = append(columns, f.Name)
		}
		rows.Close()
		for n := copies - 1; n > 0; n-- {
			ids, micros := shift(n)
			text := earlier(columns, ids, micros, func(column string) (string, bool) {
				return fmt.Sprintf(`(first_attempt::jsonb || jsonb_build_object('id', (first_attempt::jsonb->>'id')::bigint - %d,
					'started_us', (first_attempt::jsonb->>'started_us')::bigint - %d))::text`, ids, micros), column == "first_attempt"
			}, "%s - %d * interval '1 microsecond'")
			insert := fmt.Sprintf(
				"INSERT INTO %[1]s (%[2]s) SELECT %[3]s FROM %[1]s WHERE %[4]s",
				t.table, strings.Join(columns, ", "), text, fmt.Sprintf(t.where, oldest))
			if _, err := conn.Exec(ctx, insert); err != nil {
				return fmt.Errorf("%s: %w", t.table, err)
			}
		}
	}
	return nil
}
