package notify_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
)

// TestAnotherNodeGoesOnWhereThisOneStopped: the ladder is that of the notice, not
// of the process.
func TestAnotherNodeGoesOnWhereThisOneStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(context.Context, string, int) (int, error) { return 500, nil })
		queue := &memory{}
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
		stop := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		time.Sleep(time.Minute) // three tries
		stop()
		time.Sleep(time.Second)
		stop = run(t, newSender(t, notify.Config{Queue: queue, HTTP: out, Poll: time.Second}))
		time.Sleep(5 * time.Minute)
		stop()
		time.Sleep(30 * time.Minute) // the next one is overdue
		defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out, Poll: time.Second}))()
		time.Sleep(6 * time.Hour)
		got := out.times(hookURL)
		if len(got) != notify.MaxTries || !slices.Equal(got[:4], ladder[:4]) {
			t.Fatalf("tries at %v", got)
		}
		if late := 36*time.Minute + time.Second; got[4] != late || got[5] != late+50*time.Minute {
			t.Errorf("tries at %v, want the fifth at %v", got, late)
		}
	})
}

// TestTwoSendersSendOnce: both find the same notices, and whoever says first that
// a try begins makes it.
func TestTwoSendersSendOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(context.Context, string, int) (int, error) {
			time.Sleep(3 * time.Second)
			return 200, nil
		})
		queue := &memory{slow: time.Second}
		for i := range hook.ID(40) {
			queue.add(notice(webhook(1+i%4, hookURL), alert(1+i), hook.NoticeFiring))
		}
		stop1 := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		stop2 := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		time.Sleep(10 * time.Minute)
		stop1()
		stop2()
		if n := len(out.times(hookURL)); n != 40 {
			t.Errorf("%d sent, want 40", n)
		}
	})
}

// TestLostOutcomeIsTriedAgainOnce: a process that died between sending and
// reporting leaves a try of which nobody knows. It is made again after a while,
// with the same id, and not before the first could still be on its way.
func TestLostOutcomeIsTriedAgainOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := &memory{}
		n := notice(webhook(1, hookURL), alert(1), hook.NoticeFiring)
		n.At = time.Now()
		queue.add(n)
		began := time.Now()
		if ok, err := queue.Begin(t.Context(), n.Key(), 0, began.Add(time.Minute)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		out := newAnswers(func(context.Context, string, int) (int, error) { return 200, nil })
		defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))()
		time.Sleep(10 * time.Minute)
		if got := out.times(hookURL); len(got) != 1 || got[0] < time.Minute {
			t.Errorf("tries at %v, want one after a minute", got)
		}
		if got := queue.at(0); got.n.Tries != 2 || got.result != hook.NoticeSent {
			t.Errorf("%v after %d tries", got.result, got.n.Tries)
		}
	})
}

// TestLostLastTryFails: there is no seventh.
func TestLostLastTryFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := &memory{}
		n := notice(webhook(1, hookURL), alert(1), hook.NoticeFiring)
		n.Tries = notify.MaxTries
		queue.add(n)
		out := newAnswers(func(context.Context, string, int) (int, error) { return 200, nil })
		defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))()
		time.Sleep(time.Minute)
		if got := queue.at(0); got.result != hook.NoticeFailed || len(out.times(hookURL)) != 0 {
			t.Errorf("%v, %v", got.result, out.times(hookURL))
		}
	})
}

// TestStopWaitsForTryInFlight: it ends, its result is stored, and nothing new
// begins.
func TestStopWaitsForTryInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(context.Context, string, int) (int, error) {
			time.Sleep(3 * time.Second)
			return 200, nil
		})
		queue := &memory{}
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
		queue.add(notice(webhook(1, hookURL), alert(2), hook.NoticeFiring))
		stop := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if queue.at(0).result != hook.NoticeSent || queue.at(1).n.Tries != 0 {
			t.Errorf("first %v, second tried %d times", queue.at(0).result, queue.at(1).n.Tries)
		}
	})
}

// TestStopCallsOffWhatTakesTooLong: the try does not count, and is due at once
// for the next one to run.
func TestStopCallsOffWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(ctx context.Context, _ string, n int) (int, error) {
			if n > 1 {
				return 200, nil
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		queue := &memory{}
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
		stop := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out, Grace: 4 * time.Second}))
		time.Sleep(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("stopping took %v, want the grace of 4s", took)
		}
		if got := queue.at(0); got.result != hook.NoticeWaiting || got.n.Tries != 0 {
			t.Errorf("%v after %d tries", got.result, got.n.Tries)
		}
		defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))()
		synctest.Wait()
		if got := queue.at(0); got.result != hook.NoticeSent {
			t.Errorf("%v", got.result)
		}
	})
}

// TestStoreThatIsDownSendsNothingTwice: a result that cannot be stored is kept and
// stored later; without a store nothing begins.
func TestStoreThatIsDownSendsNothingTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(context.Context, string, int) (int, error) { return 200, nil })
		queue := &memory{endFail: 50} // for longer than an unreported try waits
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
		stop := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		time.Sleep(10 * time.Minute)
		if n := len(out.times(hookURL)); n != 1 || queue.at(0).result != hook.NoticeSent {
			t.Errorf("%d tries, %v", n, queue.at(0).result)
		}
		queue.mu.Lock()
		queue.down = true
		queue.mu.Unlock()
		queue.add(notice(webhook(1, hookURL), alert(2), hook.NoticeFiring))
		time.Sleep(10 * time.Minute)
		if n := len(out.times(hookURL)); n != 1 {
			t.Errorf("%d tries with the store down", n)
		}
		queue.mu.Lock()
		queue.down = false
		queue.mu.Unlock()
		time.Sleep(time.Minute)
		if n := len(out.times(hookURL)); n != 2 {
			t.Errorf("%d tries with the store back", n)
		}
		stop()
	})
}

// TestStopGivesUpOnAStoreThatIsDown: Run ends all the same.
func TestStopGivesUpOnAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(context.Context, string, int) (int, error) { return 200, nil })
		queue := &memory{endFail: 1 << 30}
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
		stop := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		time.Sleep(time.Minute)
		stop()
	})
}

// TestAnEndNeverOvertakesItsBeginning, and nobody is paged for what is over.
func TestAnEndNeverOvertakesItsBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fail := true
		var types []string
		out := httpFunc(func(_ context.Context, req *notify.Request) (int, []byte, error) {
			if fail {
				return 500, nil, nil
			}
			types = append(types, typeOf(t, req.Body))
			return 200, nil, nil
		})
		queue := &memory{}
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
		other := webhook(2, hookURL)
		other.SendResolved = false
		queue.add(notice(other, alert(1), hook.NoticeFiring))
		stop := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		time.Sleep(3 * time.Minute)
		// It ends while the channel is down; then the channel comes back.
		queue.mu.Lock()
		for _, s := range queue.list {
			s.n.Alert = resolved(1)
		}
		fail = false
		queue.mu.Unlock()
		queue.add(notice(webhook(1, hookURL), resolved(1), hook.NoticeResolved))
		time.Sleep(6 * time.Hour)
		stop()
		if got := []hook.NoticeResult{queue.at(0).result, queue.at(1).result, queue.at(2).result}; !slices.Equal(got,
			[]hook.NoticeResult{hook.NoticeSkipped, hook.NoticeSent, hook.NoticeSent}) {
			t.Errorf("results %v", got)
		}
		// A channel that is told of no ends has heard nothing yet: it gets the one
		// notice, which says that it is over.
		if !slices.Equal(types, []string{"alert.resolved", "alert.resolved"}) {
			t.Errorf("sent %v", types)
		}
	})
}

// TestNeedlessNoticesAreSkipped: without a word to anybody.
func TestNeedlessNoticesAreSkipped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(context.Context, string, int) (int, error) { return 200, nil })
		queue := &memory{}
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeResolved)) // it fires again
		queue.add(notice(webhook(2, hookURL), alert(2), hook.NoticeFolded))
		queue.add(notify.Notice{Channel: slack(3, hookURL), Event: &hook.OperationalEvent{ID: 5, Type: hook.StormStarted}})
		queue.add(notify.Notice{Channel: webhook(4, hookURL)})
		defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))()
		time.Sleep(time.Minute)
		for i := range 4 {
			if got := queue.at(i).result; got != hook.NoticeSkipped {
				t.Errorf("notice %d: %v", i, got)
			}
		}
		if n := len(out.times(hookURL)); n != 0 {
			t.Errorf("%d sent", n)
		}
	})
}

func TestRunRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, notify.Config{})
		stop := run(t, s)
		synctest.Wait()
		if err := s.Run(t.Context()); err == nil {
			t.Error("a second Run runs")
		}
		stop()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Run after Run = %v", err)
		}
	})
}
