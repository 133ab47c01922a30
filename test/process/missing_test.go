package process_test

import (
	"fmt"
	"testing"
	"time"
)

// publishNumbered sends n events of a type, numbered from 0 and in one batch, some of
// them for named endpoints, and returns their ids.
func (s *server) publishNumbered(eventType string, n int, endpoints ...string) []string {
	s.t.Helper()
	number, events := batches.Add(1), make([]object, n)
	for i := range events {
		events[i] = object{"type": eventType, "payload": object{"n": i}, "idempotency_key": fmt.Sprintf("batch-%d-%d", number, i)}
		if len(endpoints) > 0 {
			events[i]["endpoints"] = endpoints
		}
	}
	var out struct {
		Results []struct{ ID string }
	}
	s.api("POST", "/events/batch", object{"events": events}, &out)
	if len(out.Results) != n {
		s.t.Fatalf("%d of %d events accepted", len(out.Results), n)
	}
	ids := make([]string, n)
	for i := range ids {
		ids[i] = out.Results[i].ID
	}
	return ids
}

// TestLateEndpointGetsWhatItMissed: an endpoint is created after 1,000 events, and a
// replay brings it those that it asks for by type and content, and no others. The
// server is killed on the way: none is left out, and nothing comes again but what had
// no answer.
func TestLateEndpointGetsWhatItMissed(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, args ...string) {
		const pace, kills = 1500, 2
		s := serve(t, append(args, "--dispatch-max-in-flight", fmt.Sprint(replayInFlight))...)
		d := startSink(t)
		early, _ := s.endpoint(d.url+"/early", nil)
		want := map[string]int{}
		for i, id := range s.publishNumbered("order.paid", 600) {
			if i%2 == 0 {
				want[id] = 0
			}
		}
		s.publishNumbered("refund.made", 300)
		s.publishNumbered("order.paid", 100, early) // nobody else's
		late, _ := s.endpoint(d.url+"/late", object{"types": []string{"order.*"}, "filter": "payload.n % 2 == 0"})

		r := &replays{t: t, s: s, d: d, endpoint: late, letters: int64(len(want))}
		settings := object{"since": "1h", "include_missing": true, "per_minute": pace, "max_multiple": 1}
		r.estimate(settings)
		id := r.begin(settings)
		for part := range int64(kills) {
			r.wait(id, 3*time.Minute, "running", (part+1)*r.letters/(kills+2))
			before := r.view(id).Progress
			s.kill()
			s.start()
			if after := r.view(id).Progress; after.Fed < before.Fed || after.Delivered < before.Delivered {
				t.Errorf("after the kill %+v, was %+v", after, before)
			}
		}
		v := r.wait(id, 5*time.Minute, "done", 0)
		if p := v.Progress; p.Total != r.letters || p.Fed != r.letters || p.Delivered != r.letters || p.Failed != 0 || p.Skipped != 0 {
			t.Errorf("in the end %+v, want all %d fed once and delivered", p, r.letters)
		}
		again := 0
		for _, a := range d.arrivals() {
			if a.Path != "/late" {
				continue
			}
			n, wanted := want[a.Event]
			if !wanted {
				t.Errorf("event %s arrived, which the endpoint did not miss", a.Event)
			}
			if want[a.Event]++; n > 0 {
				again++
			}
		}
		for id, n := range want {
			if n == 0 {
				t.Errorf("event %s never arrived", id)
			}
		}
		if again > kills*replayInFlight {
			t.Errorf("%d arrived again after %d kills", again, kills)
		}
		t.Logf("%d arrived again after %d kills", again, kills)
		var count struct{ Count int64 }
		s.api("GET", "/deliveries/count?endpoint="+late, nil, &count)
		if count.Count != r.letters {
			t.Errorf("%d deliveries, want %d", count.Count, r.letters)
		}
		// There is nothing left to bring.
		r.letters = 0
		r.estimate(settings)
	})
}
