// Package storetest is the contract of package store as a test suite: every
// dialect runs it, so that the rest of the program may forget which database
// it talks to. It also holds Faulty, a store whose commits fail on demand.
//
// It looks at a store through store.DB only. What one dialect alone promises
// (query plans, pragmas, partitions, lease clocks) is tested beside it.
package storetest

import (
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Features is what the suite cannot see through store.DB.
type Features struct {
	// Audits returns all audit records, oldest first.
	Audits func(t testing.TB, db store.DB) []hook.Audit
	// Part of Parts is what is run of the suite: groups that may run beside those
	// of other parts, on another database. 0 parts: all of it.
	Part, Parts int
}

// RunWith runs the contract, or a part of it. open returns a new, empty store with the
// schema in place and closes it when the test ends.
func RunWith(t *testing.T, f Features, open func(t *testing.T) store.DB) {
	t.Helper()
	s := suite{features: f, open: open}
	for i, group := range []struct {
		name  string
		tests []test
	}{
		{"Accept", acceptTests},
		{"Key", idempotencyTests},
		{"Settle", settleTests},
		{"Fence", fenceTests},
		{"Rerun", rerunTests},
		{"LaneReader", laneReaderTests},
		{"Lanes", laneTests},
		{"Leases", leaseTests},
		{"Tenants", tenantTests},
		{"Endpoints", endpointTests},
		{"Secrets", secretTests},
		{"Keys", keyTests},
		{"Events", eventTests},
		{"Deliveries", deliveryTests},
		{"Attempts", attemptLogTests},
		{"Dead", deadTests},
		{"Manual", manualTests},
		{"ManualMeanwhile", manualMeanwhileTests},
		{"Replays", replayTests},
		{"Feed", feedTests},
		{"Missing", missingTests},
		{"ReplayCounts", replayCountTests},
		{"Watch", watchTests},
		{"Usage", usageTests},
		{"Stats", statsTests},
		{"Overview", overviewTests},
		{"Alerts", alertTests},
		{"Notices", noticeTests},
		{"Channels", channelTests},
		{"Policies", policyTests},
		{"EventTypes", eventTypeTests},
		{"Answers", answerTests},
		{"Seals", sealTests},
		{"Queues", queueTests},
		{"Logouts", logoutTests},
		{"Prune", pruneTests},
		{"Audit", auditTests},
		{"Store", storeTests},
	} {
		if f.Parts > 0 && i%f.Parts != f.Part {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, tc := range group.tests {
				t.Run(tc.name, func(t *testing.T) {
					w := newWorld(t, s)
					tc.run(w)
					w.balanced()
				})
			}
		})
	}
}

type suite struct {
	features Features
	open     func(t *testing.T) store.DB
}

// test is one promise, checked in a store of its own.
type test struct {
	name string
	run  func(w *world)
}

// storeTests check what belongs to no role.
var storeTests = []test{
	{"ping answers", func(w *world) {
		if err := w.db.Ping(w.ctx()); err != nil {
			w.t.Errorf("Ping = %v", err)
		}
	}},
	{"the greatest id is at least that of the newest row", func(w *world) {
		ten := w.tenant()
		a := w.stored(ten, w.endpoint(ten))
		got, err := w.db.MaxID(w.ctx())
		w.check(err, "MaxID")
		if newest := a.Deliveries[0].ID; got < newest && !w.db.Shared() {
			w.t.Errorf("MaxID = %d, want at least %d", got, newest)
		}
	}},
	{"the greatest id is at least that of an alert, of a channel and of a policy", func(w *world) {
		for _, draw := range []func() hook.ID{
			func() hook.ID { return w.policy("gold", `{}`).ID },
			func() hook.ID { return w.channel(0).ID },
			func() hook.ID { a := w.alert("disk_low", hook.AlertSubject{}); w.save(a); return a.ID },
		} {
			w.pass(time.Hour) // above the ids of audit records
			newest := draw()
			got, err := w.db.MaxID(w.ctx())
			w.check(err, "MaxID")
			if got < newest && !w.db.Shared() {
				w.t.Errorf("MaxID = %d, want at least %d", got, newest)
			}
		}
	}},
	{"an expanded policy is stored once and may be stored again", func(w *world) {
		hash := hook.PolicyHash{1, 2, 3}
		for range 2 {
			w.check(w.db.SavePolicy(w.ctx(), hash, []byte(`{"retry":{"max":3}}`), w.now), "SavePolicy")
		}
	}},
	{"the first value of a setting stays", func(w *world) {
		for _, value := range []string{"first", "second", "first"} {
			got, err := w.db.ClaimSetting(w.ctx(), "a", value)
			w.check(err, "ClaimSetting")
			w.same(got, "first", "setting")
		}
		got, err := w.db.ClaimSetting(w.ctx(), "b", "other")
		w.check(err, "ClaimSetting")
		w.same(got, "other", "another setting")
	}},
	{"prepare can be repeated", func(w *world) {
		for range 2 {
			w.check(w.db.Prepare(w.ctx(), w.now), "Prepare")
		}
	}},
}
