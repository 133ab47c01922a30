package notify_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
)

// TestTenantsWhoseReceiversHangHoldUpNobodyElse: all channels of some tenants never
// answer, and have much more to tell than they can. The operator and another tenant,
// whose notices come later, are told at once.
func TestTenantsWhoseReceiversHangHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const operatorURL, otherURL = "https://ops.example.com", "https://other.example.com"
		out := newAnswers(func(ctx context.Context, url string, _ int) (int, error) {
			if strings.Contains(url, "hang") {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return 200, nil
		})
		queue := &memory{}
		for i := range hook.ID(40) {
			ch := webhook(100+i, fmt.Sprintf("https://hang.example.com/%d", i))
			ch.Tenant = 11 + i%2
			for j := range hook.ID(50) {
				queue.add(notice(ch, alert(1000+100*i+j), hook.NoticeFiring))
			}
		}
		stop := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		defer stop()
		time.Sleep(time.Minute)
		for i := range hook.ID(5) {
			queue.add(notice(webhook(1, operatorURL), alert(1+i), hook.NoticeFiring))
			other := webhook(2, otherURL)
			other.Tenant = 99
			queue.add(notice(other, alert(50+i), hook.NoticeFiring))
		}
		time.Sleep(20 * time.Second)
		if n, m := len(out.times(operatorURL)), len(out.times(otherURL)); n != 5 || m != 5 {
			t.Errorf("%d notices for the operator and %d for the other tenant, want 5 of each", n, m)
		}
		if n := len(out.times("https://hang.example.com/0")); n == 0 {
			t.Error("a channel that hangs has no turn")
		}
	})
}

// TestABacklogIsReadInBatches: not once for each notice.
func TestABacklogIsReadInBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := newAnswers(func(context.Context, string, int) (int, error) {
			time.Sleep(time.Millisecond)
			return 200, nil
		})
		queue := &memory{}
		for i := range hook.ID(500) {
			queue.add(notice(webhook(1+i%2, hookURL), alert(1000+i), hook.NoticeFiring))
		}
		stop := run(t, newSender(t, notify.Config{Queue: queue, HTTP: out}))
		defer stop()
		time.Sleep(3 * time.Second)
		queue.mu.Lock()
		defer queue.mu.Unlock()
		if n := len(out.times(hookURL)); n != 500 || queue.asked > 100 {
			t.Errorf("%d notices sent with %d looks, want 500 with few", n, queue.asked)
		}
	})
}
