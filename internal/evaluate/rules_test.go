package evaluate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lane"
	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// scene sets up stored facts. over is set when a rule is to fire, else they are at
// its healthy edge. What it returns is called while the evaluator runs; nil: one
// minute passes.
type scene func(r *rig, e hook.Endpoint, over bool) func()

// pick is x when a rule is to fire, else y.
func pick[T any](over bool, x, y T) T {
	if over {
		return x
	}
	return y
}

// counting makes figures of all levels up. pairs are a counter, its figure over the
// threshold, and at it.
func counting(triples ...any) scene {
	return func(r *rig, e hook.Endpoint, over bool) func() {
		// A failure brings the subject to attention, and is too little by itself.
		pairs := []any{stats.Failed(hook.ServerError), 1}
		for i := 0; i < len(triples); i += 3 {
			pairs = append(pairs, triples[i], pick(over, triples[i+1], triples[i+2]))
		}
		for _, s := range []stats.Subject{ofEndpoint(e), r.ofTenant(), {}} {
			r.count(s, pairs...)
		}
		return nil
	}
}

// noticed brings an endpoint to the evaluator's attention.
func noticed(r *rig, e hook.Endpoint) { r.count(ofEndpoint(e), stats.Failed(hook.ServerError), 1) }

// laneOf stores a checkpoint.
func laneOf(at func(now time.Time, over bool) lane.Checkpoint) scene {
	return func(r *rig, e hook.Endpoint, over bool) func() {
		noticed(r, e)
		r.checkpoint(e, at(time.Now(), over))
		return nil
	}
}

// healthy is what a node tells of itself.
func healthy(says func(over bool) hook.NodeHealth) scene {
	return func(r *rig, _ hook.Endpoint, over bool) func() {
		r.health = says(over)
		return func() { r.pass(7 * time.Minute) }
	}
}

// nodes is what the rows of nodes say, round by round.
func nodes(span time.Duration, row func(r *rig, minute int, over bool) hook.NodeWatch) scene {
	return func(r *rig, _ hook.Endpoint, over bool) func() {
		return func() {
			began := time.Now()
			r.every(span, func() { r.saved(row(r, int(time.Since(began)/time.Minute), over)) })
		}
	}
}

var scenes = map[string]scene{
	"retry_storm": counting(stats.Attempts(hook.Retry), 101, 100),
	"retry_queue_growing": func(r *rig, e hook.Endpoint, over bool) func() {
		depth := int64(10)
		return func() {
			r.every(2*time.Minute, func() {
				r.watched(e, hook.Storm{}, hook.RetryQueue{Depth: depth, Since: time.Now()})
				depth = pick(over, int64(111), 110)
			})
		}
	},
	"endpoint_errors": counting(stats.Attempts(hook.First), 20, 20, stats.FailedFirst, 5, 4),
	"endpoint_failing": laneOf(func(now time.Time, over bool) lane.Checkpoint {
		return lane.Checkpoint{FailingSince: now, FailingAttempts: pick(over, 5, 4)}
	}),
	"breaker_open": laneOf(func(now time.Time, over bool) lane.Checkpoint {
		return lane.Checkpoint{Open: over, OpenedAt: now.Add(-3 * time.Minute), ClosedAt: now.Add(-2 * time.Minute)}
	}),
	"breaker_open_long": laneOf(func(now time.Time, over bool) lane.Checkpoint {
		return lane.Checkpoint{Open: true, OpenedAt: now.Add(-pick(over, 30*time.Minute, 28*time.Minute))}
	}),
	"hold_expiring": func(r *rig, e hook.Endpoint, over bool) func() {
		r.accept(e, 1)
		r.open(e)
		r.pass(pick(over, 36*time.Hour, 35*time.Hour)) // of 72
		return nil
	},
	"endpoint_disabled": func(r *rig, e hook.Endpoint, over bool) func() {
		r.halt(e, hook.Disabled, pick(over, "gone", "manual"))
		return nil
	},
	"dead_letters_growing": counting(stats.Dead(hook.DeadExhausted), 1, 0),
	"retry_rate":           counting(stats.Delivered(1), 89, 90, stats.Delivered(2), 11, 10),
	"dead_rate":            counting(stats.Delivered(1), 98, 99, stats.Dead(hook.DeadExhausted), 2, 1),
	"success_rate":         counting(stats.Delivered(1), 98, 99, stats.Dead(hook.DeadExhausted), 2, 1),
	"attempts_to_success":  counting(stats.Delivered(3), 100, 100, stats.TriesOfDelivered, 201, 200),
	"second_attempt_success": counting(
		stats.SecondTries, 50, 50, stats.Delivered(2), 29, 30, stats.Delivered(3), 21, 20),
	"delivery_latency_p99": func(r *rig, e hook.Endpoint, over bool) func() {
		took := stats.DeliveryTook(pick(over, 10*time.Minute, 3*time.Minute))
		return counting(took, 100, 100)(r, e, over)
	},
	"long_retry": func(r *rig, e hook.Endpoint, over bool) func() {
		all := r.accept(e, pick(over, 101, 100))
		for _, d := range all[:50] { // some are held, others were tried and wait
			r.settle(d, false)
		}
		r.pass(24*time.Hour + time.Minute)
		return nil
	},
	"replay_paused": func(r *rig, e hook.Endpoint, over bool) func() {
		now := time.Now()
		r.must(r.db.CreateReplay(r.t.Context(), hook.ReplayJob{
			ID: r.id(), TenantID: e.TenantID, EndpointID: e.ID, State: hook.ReplayPaused, PauseReason: pick(over, hook.PausedByErrors, hook.PausedByUser),
			PerMinute: 100, CurrentPerMinute: 100, Ramp: 2, MaxMultiple: 10, PauseErrorPercent: 50, Total: 10,
			CreatedBy: "test", CreatedAt: now, UpdatedAt: now, PausedAt: now, Version: 1,
		}, r.audit()))
		return nil
	},
	"dead_letters_expiring": func(r *rig, e hook.Endpoint, over bool) func() {
		r.settle(r.accept(e, 1)[0], true)
		r.pass(retention - pick(over, 48*time.Hour, 49*time.Hour))
		return nil
	},
	"retry_queue_growing_system": nodes(12*time.Minute, func(r *rig, minute int, over bool) hook.NodeWatch {
		return hook.NodeWatch{NodeID: r.node.ID, Depth: 200 + int64(pick(over, minute, -minute))}
	}),
	"breakers_many": nodes(time.Minute, func(r *rig, _ int, over bool) hook.NodeWatch {
		return hook.NodeWatch{NodeID: r.node.ID, Lanes: 50, Opened: pick(over, int64(5), 4)}
	}),
	"local_errors": func(r *rig, _ hook.Endpoint, over bool) func() {
		r.count(stats.Subject{}, stats.Failed(hook.LocalError), pick(over, 3, 2))
		return nil
	},
	"store_slow": healthy(func(over bool) hook.NodeHealth {
		return hook.NodeHealth{CommitP99: pick(over, 1100*time.Millisecond, time.Second)}
	}),
	"disk_low": healthy(func(over bool) hook.NodeHealth {
		return hook.NodeHealth{DiskReserve: 1 << 30, DiskFree: pick(over, int64(2<<30-1), 2<<30)}
	}),
	"shard_unowned": func(r *rig, _ hook.Endpoint, over bool) func() {
		release := func() {
			r.must(r.db.ReleaseShards(r.t.Context(), r.node.ID, []store.Held{{Shard: 7, Epoch: r.held[7]}}))
		}
		return func() {
			r.pass(20 * time.Second)
			release()
			r.pass(pick(over, time.Minute, 30*time.Second))
			r.take(r.node)
			r.pass(time.Minute)
		}
	},
	"settle_stalled": healthy(func(over bool) hook.NodeHealth {
		return hook.NodeHealth{OldestResult: pick(over, 11*time.Second, 10*time.Second)}
	}),
	"clock_skew": nodes(3*time.Minute, func(r *rig, _ int, over bool) hook.NodeWatch {
		return hook.NodeWatch{NodeID: r.node.ID + 1, Health: hook.NodeHealth{Name: "two", ClockOffset: -pick(over, 2100*time.Millisecond, 2*time.Second)}}
	}),
	"channel_failing": func(r *rig, e hook.Endpoint, over bool) func() {
		ch := r.channel(hook.Channel{Kind: hook.ChannelSlack})
		storm(r, e)
		return func() {
			r.pass(30 * time.Second)
			f := store.Fence{Node: r.node.ID, Held: store.Held{Epoch: r.held[0]}}
			due, err := r.db.DueNotices(r.t.Context(), f, time.Now(), nil, 10)
			r.must(err)
			for _, n := range due {
				if n.Channel == ch.ID {
					r.must(r.db.EndNotice(r.t.Context(), f, n.NoticeKey, store.NoticeEnd{
						Now: time.Now(), Result: pick(over, hook.NoticeFailed, hook.NoticeSent), Tries: 6, Error: "answered 404",
					}))
				}
			}
			r.pass(time.Minute)
		}
	},
	"too_many_alerts": func(r *rig, _ hook.Endpoint, over bool) func() {
		r.options.MaxOpen = alert.MinMaxOpen
		for range pick(over, alert.MinMaxOpen, 2) {
			storm(r, r.endpoint())
		}
		return nil
	},
}

// TestEveryRuleFiresFromStoredFacts at each of its levels, and is silent at its
// healthy edge.
func TestEveryRuleFiresFromStoredFacts(t *testing.T) {
	t.Parallel()
	for _, rule := range alert.Rules() {
		scene := scenes[rule.Name]
		if scene == nil {
			t.Errorf("%s is not tried", rule.Name)
			continue
		}
		for name, over := range map[string]bool{"fires": true, "is silent": false} {
			t.Run(rule.Name+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { play(t, rule, scene, over) })
			})
		}
	}
}

// play runs a scene and looks at the levels of a rule.
func play(t *testing.T, rule *alert.Rule, scene scene, over bool) {
	t.Helper()
	r := newRig(t)
	defer r.close()
	run := scene(r, r.endpoint(), over)
	if run == nil {
		run = func() { r.pass(time.Minute) }
	}
	v := r.evaluate()
	defer v.stop()
	run()
	found := make(map[hook.AlertLevel]hook.Alert)
	for _, a := range r.alerts(rule.Name) {
		found[a.Level] = a
	}
	if !over && len(found) > 0 {
		t.Errorf("%+v", found)
	}
	for _, at := range rule.At {
		a, ok := found[at.Level]
		switch {
		case over && !ok:
			t.Errorf("no alert of level %v\n%s", at.Level, r.log)
		case over && (a.Severity != at.Steps[0] || len(told(a, alert.LogChannelID)) == 0):
			t.Errorf("severity %v, want %v; told %v", a.Severity, at.Steps[0], a.Notifications)
		}
	}
}

// TestYoungLettersOfOldEventsExpire: a replay may create a delivery long after its event
// was accepted. It leaves with the event.
func TestYoungLettersOfOldEventsExpire(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]bool{"fires": true, "is silent": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				play(t, ruleNamed(t, "dead_letters_expiring"), func(r *rig, e hook.Endpoint, over bool) func() {
					r.pass(20 * 24 * time.Hour)
					d := r.accept(e, 2)[0]
					rev, err := r.db.ConfigRev(t.Context(), e.TenantID)
					r.must(err)
					d.ID, d.EventID = r.id(), hook.IDFloor(time.Now().Add(-20*24*time.Hour))+7
					r.must(r.db.Commit(t.Context(), &store.Batch{Node: r.node.ID, Now: time.Now(), Accepts: []*store.Accept{{
						Event:     hook.Event{ID: d.EventID, TenantID: e.TenantID, Type: "a", CreatedAt: d.EventID.Time(), ContentType: "application/json", Payload: []byte("{}")},
						ConfigRev: rev, Deliveries: []hook.Delivery{d},
					}}}))
					r.settle(d, true)
					r.pass(retention - 20*24*time.Hour - pick(over, 48*time.Hour, 49*time.Hour))
					return nil
				}, over)
			})
		})
	}
}

func ruleNamed(t *testing.T, name string) *alert.Rule {
	t.Helper()
	for _, r := range alert.Rules() {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no rule %s", name)
	return nil
}

// TestAFailingChannelIsOverOnceItIsMended: by a test that gets through, a change, or
// its end.
func TestAFailingChannelIsOverOnceItIsMended(t *testing.T) {
	t.Parallel()
	for name, mend := range map[string]func(r *rig, ch store.Channel){
		"test": func(r *rig, ch store.Channel) { r.must(r.db.ChannelWorked(r.t.Context(), ch.ID)) },
		"change": func(r *rig, ch store.Channel) {
			_, err := r.db.UpdateChannel(r.t.Context(), ch, r.audit())
			r.must(err)
		},
		"end": func(r *rig, ch store.Channel) { r.must(r.db.DeleteChannel(r.t.Context(), 0, ch.ID, r.audit())) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				defer r.close()
				run := scenes["channel_failing"](r, r.endpoint(), true)
				v := r.evaluate()
				defer v.stop()
				run()
				if a := r.one("channel_failing"); a.Status != hook.AlertFiring {
					t.Fatalf("the alert is %v", a.Status)
				}
				channels, err := r.db.Channels(t.Context())
				r.must(err)
				mend(r, channels[0])
				r.pass(10 * time.Minute)
				if a := r.one("channel_failing"); a.Status != hook.AlertResolved {
					t.Errorf("after its %s the alert is %v", name, a.Status)
				}
			})
		})
	}
}
