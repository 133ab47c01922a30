package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/sim"
)

// simulationTable shows reports of one kind, a row each.
type simulationTable struct {
	head string
	key  string
	row  func(*sim.Report) []string
}

var (
	oneOutage = simulationTable{
		head: "SCENARIO\tSTRATEGY\tRE-CRASHED\tPEAK\tMAX\tDRAIN\tMAX\tWASTE\tDEAD\tLIVE P99\tDETECT\t429\tBROKEN HOLDS\tWAITING\tABOUT",
		key: `
re-crashed: runs with a crash after the recovery; peak: most arrivals of a second over the capacity; drain: time over
the optimum; waste: failed attempts per event; dead: share given up; live p99: extra delay of new events; detect:
recovery to the first success; 429: per event; broken holds: requests inside a Retry-After, of all runs; waiting: most
events not yet delivered. Medians over the runs, or the worst of them (max, waiting).
`,
		row: oneOutageRow,
	}
	twoOutages = simulationTable{
		head: "SCENARIO\tSTRATEGY\tCRASHES 1\tMAX\tBETWEEN\tCRASHES 2\tMAX\tDRAIN 1\tMAX\tDRAIN 2\tMAX\tWASTE 1\tWASTE 2\tDEAD\tBROKEN HOLDS\tABOUT",
		key: `
Two outages with a restart between them. crashes: by overload, from the recovery until two minutes after the drain;
between: from there to the second outage, worst run; drain: time over the optimum; waste: failed attempts per event
since the outage began; dead: share given up; broken holds: requests inside a Retry-After, of all runs. Medians over the
runs, or the worst of them (max). A run ends at its tenth crash; what it did not come to is "-".
`,
		row: twoOutagesRow,
	}
)

// printTables prints a table per kind of scenario.
func (s *session) printTables(reports []sim.Report) error {
	one, two := splitReports(reports)
	for _, part := range []struct {
		table   *simulationTable
		reports []*sim.Report
	}{{&oneOutage, one}, {&twoOutages, two}} {
		if len(part.reports) == 0 {
			continue
		}
		if err := s.printTable(part.table, part.reports); err != nil {
			return err
		}
	}
	return nil
}

// splitReports tells scenarios with one outage from those with two.
func splitReports(reports []sim.Report) (one, two []*sim.Report) {
	for i := range reports {
		if r := &reports[i]; r.Scenario.Again.After > 0 {
			two = append(two, r)
		} else {
			one = append(one, r)
		}
	}
	return one, two
}

func (s *session) printTable(t *simulationTable, reports []*sim.Report) error {
	var rows [][]string
	if !s.Quiet {
		rows = append(rows, strings.Split(t.head, "\t"))
	}
	for _, r := range reports {
		rows = append(rows, t.row(r))
	}
	if err := s.PrintRows(rows); err != nil {
		return err
	}
	if s.Quiet {
		return nil
	}
	return s.Printf("%s\n", strings.TrimSuffix(t.key, "\n"))
}

func oneOutageRow(r *sim.Report) []string {
	u := &r.Summary
	crashed := 0
	for i := range r.Results {
		if r.Results[i].Crashes > 0 {
			crashed++
		}
	}
	return []string{
		r.Scenario.Name, r.Strategy, fmt.Sprintf("%d/%d", crashed, u.Runs),
		u.Peak.Text(2), u.PeakMax.Text(2), u.Drain.Text(2), u.DrainMax.Text(2), u.Waste.Text(4),
		u.Dead.Text(3), unit(u.LiveP99, "s"), unit(u.Detect, "s"), u.Throttled.Text(4),
		strconv.Itoa(u.BrokenHolds), strconv.Itoa(u.Waiting), r.About,
	}
}

func twoOutagesRow(r *sim.Report) []string {
	u := &r.Summary
	return []string{
		r.Scenario.Name, r.Strategy,
		known(u.First.Crashes, 0), known(u.First.CrashesMax, 0), known(u.Between, 0), known(u.Second.Crashes, 0), known(u.Second.CrashesMax, 0),
		u.First.Drain.Text(2), u.First.DrainMax.Text(2), u.Second.Drain.Text(2), u.Second.DrainMax.Text(2),
		u.First.Waste.Text(4), known(u.Second.Waste, 4), u.Dead.Text(3), strconv.Itoa(u.BrokenHolds), r.About,
	}
}

// known writes a number with so many digits. One that is not known must not read
// as none: "never" would.
func known(m sim.Measure, digits int) string {
	if !m.Known() {
		return "-"
	}
	return m.Text(digits)
}

// unit adds the unit to a number that is there.
func unit(m sim.Measure, name string) string {
	if !m.Known() {
		return m.Text(0)
	}
	return m.Text(1) + name
}
