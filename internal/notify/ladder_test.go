package notify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
)

// answers is a receiver that answers each channel as told, and notes when it was
// asked.
type answers struct {
	mu     sync.Mutex
	began  time.Time
	asked  map[string][]time.Duration // by URL, since began
	answer func(ctx context.Context, url string, n int) (int, error)
}

func newAnswers(answer func(ctx context.Context, url string, n int) (int, error)) *answers {
	return &answers{began: time.Now(), asked: map[string][]time.Duration{}, answer: answer}
}

func (a *answers) Do(ctx context.Context, req *notify.Request) (int, []byte, error) {
	a.mu.Lock()
	a.asked[req.URL] = append(a.asked[req.URL], time.Since(a.began))
	n := len(a.asked[req.URL])
	a.mu.Unlock()
	status, err := a.answer(ctx, req.URL, n)
	return status, nil, err
}

func (a *answers) times(url string) []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked[url])
}

var ladder = []time.Duration{0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}

const hookURL = "https://hooks.example.com/in"

// TestTriesAreOnTheLadder: what fails at once is tried at 0 s, 5 s, 30 s, 2 min,
// 10 min and 1 h, and never again.
func TestTriesAreOnTheLadder(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() (int, error){
		"no connection": func() (int, error) { return 0, errors.New("connection refused") },
		"500":           func() (int, error) { return 500, nil },
		"429":           func() (int, error) { return 429, nil },
		"408":           func() (int, error) { return 408, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				out := newAnswers(func(context.Context, string, int) (int, error) { return answer() })
				queue := &memory{}
				queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
				defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out, Poll: time.Minute}))()
				time.Sleep(6 * time.Hour)
				if got := out.times(hookURL); !slices.Equal(got, ladder) {
					t.Errorf("tries at %v, want %v", got, ladder)
				}
				if got := queue.at(0); got.result != hook.NoticeFailed || got.n.Tries != notify.MaxTries || got.errors[5] == "" {
					t.Errorf("result %v after %d tries, %q", got.result, got.n.Tries, got.errors)
				}
			})
		})
	}
}

// TestWhatIsRefusedForGoodIsNotRepeated: one try, and the channel is failing.
func TestWhatIsRefusedForGoodIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() (int, error){
		"400":              func() (int, error) { return 400, nil },
		"401":              func() (int, error) { return 401, nil },
		"404":              func() (int, error) { return 404, nil },
		"410":              func() (int, error) { return 410, nil },
		"501":              func() (int, error) { return 501, nil },
		"redirect":         func() (int, error) { return 307, nil },
		"refused by guard": func() (int, error) { return 0, fmt.Errorf("no: %w", notify.ErrRefused) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				out := newAnswers(func(context.Context, string, int) (int, error) { return answer() })
				queue := &memory{}
				queue.add(notice(slack(1, hookURL), alert(1), hook.NoticeFiring))
				defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out, Poll: time.Minute}))()
				time.Sleep(6 * time.Hour)
				if n := len(out.times(hookURL)); n != 1 {
					t.Errorf("%d tries, want 1", n)
				}
				if got := queue.at(0); got.result != hook.NoticeFailed {
					t.Errorf("result %v", got.result)
				}
			})
		})
	}
}

// TestRecoveryEndsTheLadder: the try that succeeds is the last one.
func TestRecoveryEndsTheLadder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(_ context.Context, _ string, n int) (int, error) {
			if n < 4 {
				return 503, nil
			}
			return 204, nil
		})
		queue := &memory{}
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
		defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out, Poll: time.Minute}))()
		time.Sleep(6 * time.Hour)
		if got := out.times(hookURL); !slices.Equal(got, ladder[:4]) {
			t.Errorf("tries at %v, want %v", got, ladder[:4])
		}
		if got := queue.at(0); got.result != hook.NoticeSent {
			t.Errorf("result %v", got.result)
		}
	})
}

// TestHangingReceiverIsGivenUp: a try ends with its timeout, and the next wait
// counts from there.
func TestHangingReceiverIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(ctx context.Context, _ string, _ int) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		queue := &memory{}
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
		defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out, Timeout: 10 * time.Second, Poll: time.Minute}))()
		time.Sleep(6 * time.Hour)
		got := out.times(hookURL)
		for i := range got {
			if want := ladder[i] + time.Duration(i)*10*time.Second; got[i] != want {
				t.Errorf("try %d at %v, want %v", i+1, got[i], want)
			}
		}
		if len(got) != notify.MaxTries {
			t.Errorf("%d tries", len(got))
		}
	})
}

// TestSlowChannelHoldsUpNobody: while one channel hangs, another one sends all it
// has, and each channel sends one notice at a time.
func TestSlowChannelHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slowURL, quickURL = "https://slow.example.com", "https://quick.example.com"
		var mu sync.Mutex
		sending, most := map[string]int{}, map[string]int{}
		out := newAnswers(func(ctx context.Context, url string, _ int) (int, error) {
			mu.Lock()
			sending[url]++
			most[url] = max(most[url], sending[url])
			mu.Unlock()
			defer func() {
				mu.Lock()
				sending[url]--
				mu.Unlock()
			}()
			if url == slowURL {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			time.Sleep(10 * time.Millisecond)
			return 200, nil
		})
		queue := &memory{}
		// More than are asked for at once, and the slow ones come first.
		for i := range hook.ID(200) {
			queue.add(notice(webhook(1, slowURL), alert(1000+i), hook.NoticeFiring))
		}
		for i := range hook.ID(200) {
			queue.add(notice(webhook(2, quickURL), alert(2000+i), hook.NoticeFiring))
		}
		stop := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		time.Sleep(10 * time.Second)
		if n := len(out.times(quickURL)); n != 200 {
			t.Errorf("%d notices over the quick channel, want 200", n)
		}
		if n := len(out.times(slowURL)); n != 1 {
			t.Errorf("%d tries over the slow channel, want 1", n)
		}
		stop()
		if most[slowURL] != 1 || most[quickURL] != 1 {
			t.Errorf("at the same time: %v, want 1 each", most)
		}
	})
}

// TestNotMoreChannelsThanAllowedSend at the same time; the others get their turn.
func TestNotMoreChannelsThanAllowedSend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sending, most := 0, 0
		out := newAnswers(func(context.Context, string, int) (int, error) {
			mu.Lock()
			sending++
			most = max(most, sending)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			sending--
			mu.Unlock()
			return 200, nil
		})
		queue := &memory{}
		for i := range hook.ID(50) {
			queue.add(notice(webhook(1+i, hookURL), alert(1+i), hook.NoticeFiring))
		}
		defer run(t, newSender(t, notify.Config{Queue: queue, HTTP: out, Sending: 5}))()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if n := len(out.times(hookURL)); n != 50 || most != 5 {
			t.Errorf("%d sent, %d at the same time; want 50 and 5", n, most)
		}
	})
}

// TestWakeSendsAtOnce: a hint saves the wait for the next look.
func TestWakeSendsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(context.Context, string, int) (int, error) { return http.StatusOK, nil })
		queue := &memory{}
		s := newSender(t, notify.Config{Queue: queue, HTTP: out, Poll: time.Minute})
		defer run(t, s)()
		time.Sleep(10 * time.Second)
		queue.add(notice(webhook(1, hookURL), alert(1), hook.NoticeFiring))
		s.Wake()
		s.Wake() // any number of times
		synctest.Wait()
		if got := out.times(hookURL); !slices.Equal(got, []time.Duration{10 * time.Second}) {
			t.Errorf("tries at %v", got)
		}
		queue.add(notice(webhook(1, hookURL), alert(2), hook.NoticeFiring))
		time.Sleep(2 * time.Minute)
		if got := out.times(hookURL); len(got) != 2 {
			t.Errorf("tries at %v: without a hint it is found at the next look", got)
		}
	})
}

// TestIdleQueueIsRarelyAsked: a look costs a query.
func TestIdleQueueIsRarelyAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		queue := &memory{}
		defer run(t, newSender(t, notify.Config{Queue: queue}))()
		time.Sleep(time.Hour)
		queue.mu.Lock()
		defer queue.mu.Unlock()
		if queue.asked > 3600/5+1 {
			t.Errorf("asked %d times in an hour", queue.asked)
		}
	})
}
