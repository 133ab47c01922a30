package app

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// TestDetailsOfWhatOthersFoundOut: alerts about dead letters, nodes and endpoints that
// fail are told with the few facts that each type has; other alerts are not events.
func TestDetailsOfWhatOthersFoundOut(t *testing.T) {
	t.Parallel()
	var got []string
	record := func(_, _ hook.ID, kind hook.OperationalType, detail any) {
		text, err := json.Marshal(detail)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(kind)+" "+string(text))
	}
	c := changes{record: record}
	c.fired(&hook.Alert{ID: 5, Rule: "dead_letters_growing", Value: 7, Threshold: 1, Summary: "a sentence"})
	c.fired(&hook.Alert{ID: 5, Rule: "dead_letters_expiring", Value: 9, Threshold: 2})
	c.fired(&hook.Alert{ID: 5, Rule: "breaker_open"})
	for _, kind := range []hook.OperationalType{hook.NodeJoined, hook.NodeLeft, hook.NodeLeaseLost} {
		record(0, 0, kind, nodeDetail(&dispatch.NodeNews{Node: hook.Node{ID: 5, Name: "n", Addr: "10.0.0.1"}, Type: kind}))
	}
	(&disabler{record: record}).Failing(dispatch.Failing{Since: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), Percent: 50})
	id := hook.NodePrefix.Format(5)
	alert := hook.AlertPrefix.Format(5)
	for i, want := range []string{
		string(hook.DeadLettersGrowing) + ` {"alert":"` + alert + `","threshold":1,"value":7}`,
		string(hook.DeadLettersExpiring) + ` {"alert":"` + alert + `","threshold":2,"value":9}`,
		`node.joined {"node":"` + id + `","name":"n"}`,
		`node.left {"node":"` + id + `","name":"n"}`,
		`node.lease_lost {"node":"` + id + `","name":"n","shards":0}`,
		string(hook.EndpointFailing) + ` {"percent_of_disable_after":50,"since":"2026-03-04T05:06:07Z"}`,
	} {
		if i >= len(got) || got[i] != want {
			t.Errorf("told %q, want %q", got, want)
			break
		}
	}
	if len(got) != 6 {
		t.Errorf("%d told, want 6", len(got))
	}
}
