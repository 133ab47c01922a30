package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// day numbers the partitions: all ids drawn on one UTC day since 2024-01-01.
type day int64

// daysAhead is how far Prepare looks: a node whose maintenance stands still
// has two weeks before accepts fail.
const daysAhead = 14

// partitioned are the tables that leave by whole days.
var partitioned = [...]string{"events", "attempts"}

func dayOf(id hook.ID) day { return day(id / hook.DayOfIDs) }

func (d day) from() hook.ID { return hook.ID(d) * hook.DayOfIDs }
func (d day) to() hook.ID   { return hook.ID(d+1) * hook.DayOfIDs }

// suffix is the day as partitions carry it, such as 20261115.
func (d day) suffix() string { return d.from().Time().Format("20060102") }

func (d day) String() string { return d.from().Time().Format(time.DateOnly) }

// partition names the day's partition of a table.
func (d day) partition(table string) string { return table + "_" + d.suffix() }

// dayFromPartition reads the day back from a partition's name.
func dayFromPartition(name string) (day, bool) {
	_, suffix, ok := strings.Cut(name, "_")
	if !ok {
		return 0, false
	}
	t, err := time.Parse("20060102", suffix)
	if err != nil {
		return 0, false
	}
	d := dayOf(hook.IDFloor(t))
	return d, d.suffix() == suffix // false before 2024
}

// Prepare creates the partitions of yesterday, for a node whose clock is
// behind, today and the coming days. Any number of nodes may do so at once.
func (d *DB) Prepare(ctx context.Context, now time.Time) error {
	days := preparedDays(now)
	return d.alone(ctx, func(conn *pgx.Conn) error { return createPartitions(ctx, conn, days) })
}

func preparedDays(now time.Time) []day {
	today := dayOf(hook.IDFloor(now))
	var days []day
	for n := max(today-1, 0); n <= today+daysAhead; n++ {
		days = append(days, n)
	}
	return days
}

// missingPartitions is asked under the lock, so its answer stays true.
const missingPartitions = `SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(name) IS NULL`

// createPartition makes the table first and attaches it then: ATTACH waits for
// nobody who reads or writes, while CREATE … PARTITION OF would wait for every
// running statement and hold up all that come after it.
const createPartition = `
CREATE TABLE %[1]s (LIKE %[2]s INCLUDING ALL);
ALTER TABLE %[2]s ATTACH PARTITION %[1]s FOR VALUES FROM (%[3]d) TO (%[4]d);`

// createPartitions creates what is missing of the given days, all or nothing.
func createPartitions(ctx context.Context, conn *pgx.Conn, days []day) error {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1, 0)`, lockPartitions); err != nil {
			return err
		}
		statements := map[string]string{} // by partition
		var names []string
		for _, day := range days {
			for _, table := range partitioned {
				name := day.partition(table)
				names = append(names, name)
				statements[name] = fmt.Sprintf(createPartition, name, table, day.from(), day.to())
			}
		}
		rows, err := tx.Query(ctx, missingPartitions, names)
		if err != nil {
			return err
		}
		missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(missing) == 0 {
			return err
		}
		var script strings.Builder
		for _, name := range missing {
			script.WriteString(statements[name])
		}
		_, err = tx.Exec(ctx, script.String(), pgx.QueryExecModeSimpleProtocol)
		return err
	})
	return failed("create partitions", err)
}
