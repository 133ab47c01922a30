package receiver_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/receiver"
)

func TestHandlerGivesTheVerifiedEvent(t *testing.T) {
	t.Parallel()
	var got receiver.Event
	answer := serve(receiver.HandlerOptions{}, func(_ context.Context, e receiver.Event) error {
		got = e
		return nil
	})
	want := receiver.Event{ID: id, Type: "order.paid", Timestamp: sentAt, Body: []byte(body)}
	if diff := cmp.Diff(want, got); diff != "" || answer.Code != http.StatusNoContent || answer.Body.Len() != 0 {
		t.Errorf("answer %d %q, event (-want +got):\n%s", answer.Code, answer.Body, diff)
	}
}

func TestHandlerRefusesWhatIsNotSigned(t *testing.T) {
	t.Parallel()
	handler := newVerifier(t, nil).Handler(receiver.HandlerOptions{
		OnError: func(receiver.Event, error) { t.Error("OnError was told") },
	}, func(context.Context, receiver.Event) error {
		t.Error("the function ran")
		return nil
	})
	r := signedRequest(t.Context())
	r.Header = headers(v1B)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("answer %d, want 401", w.Code)
	}
}

// TestHandlerKeepsErrorsToItself: the sender learns what to do, the owner why.
func TestHandlerKeepsErrorsToItself(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fn   func(context.Context, receiver.Event) error
		code int
		told string
	}{
		"error":     {func(context.Context, receiver.Event) error { return errWork }, 500, "s3cret_orders"},
		"permanent": {func(context.Context, receiver.Event) error { return receiver.Permanent(errWork) }, 422, "s3cret_orders"},
		"panic":     {func(context.Context, receiver.Event) error { panic("s3cret") }, 500, "handler_test.go"},
		"range":     {func(_ context.Context, e receiver.Event) error { _ = e.Body[len(e.Body)]; return nil }, 500, "out of range"},
		"abort":     {func(context.Context, receiver.Event) error { panic(http.ErrAbortHandler) }, 500, "abort"},
		"goexit":    {func(context.Context, receiver.Event) error { runtime.Goexit(); return nil }, 500, "without a result"},
		"none":      {nil, 500, "nil pointer"},
	} {
		for with, dedupe := range map[string]receiver.Deduper{"alone": nil, "deduplicated": receiver.NewMemory(0, 0)} {
			t.Run(name+" "+with, func(t *testing.T) {
				t.Parallel()
				var told error
				answer := serve(receiver.HandlerOptions{Dedupe: dedupe, OnError: func(e receiver.Event, err error) {
					if told = err; e.ID != id {
						t.Errorf("told of event %q", e.ID)
					}
				}}, tc.fn)
				if answer.Code != tc.code || strings.Contains(answer.Body.String(), "s3cret") {
					t.Errorf("answer %d %q, want %d without details", answer.Code, answer.Body, tc.code)
				}
				if told == nil || !strings.Contains(told.Error(), tc.told) {
					t.Errorf("OnError was told %v, want %q", told, tc.told)
				}
			})
		}
	}
}

// TestHandlerLogsWithoutOnError is not parallel: it looks at the default logger.
func TestHandlerLogsWithoutOnError(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	serve(receiver.HandlerOptions{}, func(context.Context, receiver.Event) error { return errWork })
	if !strings.Contains(log.String(), id) || !strings.Contains(log.String(), errWork.Error()) {
		t.Errorf("log %q, want the id and the error", log.String())
	}
}

func TestHandlerAnswers503WhenTheTimeIsUp(t *testing.T) {
	t.Parallel()
	hangUp := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	ignoreIt := func(context.Context) error { time.Sleep(time.Hour); return nil }
	for name, tc := range map[string]struct {
		fn      func(context.Context) error
		timeout time.Duration
		want    int
		at      time.Duration
	}{
		"the default is 10 s":             {hangUp, 0, 503, 10 * time.Second},
		"negative is the default":         {hangUp, -1, 503, 10 * time.Second},
		"another one":                     {hangUp, time.Minute, 503, time.Minute},
		"a function that does not listen": {ignoreIt, time.Minute, 503, time.Minute + 100*time.Millisecond},
		"done before":                     {func(context.Context) error { time.Sleep(59 * time.Second); return nil }, time.Minute, 204, 59 * time.Second},
		"what the function says holds":    {func(ctx context.Context) error { <-ctx.Done(); return receiver.Permanent(ctx.Err()) }, time.Minute, 422, time.Minute},
		"it may say so before":            {func(context.Context) error { return receiver.Permanent(nil) }, time.Minute, 422, 0},
	} {
		for with, dedupe := range map[string]bool{"alone": false, "deduplicated": true} {
			t.Run(name+" "+with, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					o := receiver.HandlerOptions{Timeout: tc.timeout, OnError: ignore}
					if dedupe {
						o.Dedupe = receiver.NewMemory(0, 0)
					}
					begun := time.Now()
					answer := serve(o, func(ctx context.Context, _ receiver.Event) error { return tc.fn(ctx) })
					took := time.Since(begun)
					if answer.Code != tc.want || took != tc.at {
						t.Errorf("answer %d after %v, want %d after %v", answer.Code, took, tc.want, tc.at)
					}
					time.Sleep(2 * time.Hour) // all goroutines must end
				})
			})
		}
	}
}

func TestHandlerAnswers503WhenTheSenderHangsUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	handler := newVerifier(t, nil).Handler(receiver.HandlerOptions{OnError: ignore}, func(ctx context.Context, _ receiver.Event) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, signedRequest(ctx))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("answer %d, want 503", w.Code)
	}
}

// TestHandlerAnswersCopiesThatMeetWorkInHand: 503 with Retry-After 5 while the
// first is at work, 204 once it is done.
func TestHandlerAnswersCopiesThatMeetWorkInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := receiver.HandlerOptions{Dedupe: receiver.NewMemory(0, 0), Timeout: 10 * time.Second, OnError: ignore}
		ran := 0
		slow := func(context.Context, receiver.Event) error {
			ran++
			time.Sleep(25 * time.Second)
			return nil
		}
		var all sync.WaitGroup
		all.Go(func() { serve(o, slow) })
		synctest.Wait()
		second := serve(o, slow) // gives up after 10 s
		if second.Code != 503 || second.Header().Get("Retry-After") != "5" {
			t.Errorf("copy: %d, Retry-After %q; want 503 and 5", second.Code, second.Header().Get("Retry-After"))
		}
		time.Sleep(9 * time.Second) // 19 s
		if third := serve(o, slow); third.Code != 204 {
			t.Errorf("copy that waited for the end: %d, want 204", third.Code)
		}
		all.Wait()
		if ran != 1 {
			t.Errorf("ran %d times, want once", ran)
		}
	})
}

func TestHandlerRunsAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	o := receiver.HandlerOptions{Dedupe: receiver.NewMemory(0, 0), OnError: ignore}
	results := []error{errWork, receiver.Later(nil, time.Second), nil, errors.New("must not run")}
	var codes []int
	for range 5 {
		codes = append(codes, serve(o, func(context.Context, receiver.Event) error {
			err := results[0]
			results = results[1:]
			return err
		}).Code)
	}
	if diff := cmp.Diff([]int{500, 503, 204, 204, 204}, codes); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}
