package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

// fresh is the progress of a run that was first due an hour before noon.
func fresh() hook.Progress {
	return hook.Progress{Run: 1, RunDueAt: noon.Add(-time.Hour)}
}

// answer is an ordinary attempt on a closed lane, answered at noon.
func answer(status int, retryAfter ...string) policy.Outcome {
	return policy.Outcome{Kind: hook.Retry, LaneClosed: true, Status: status, RetryAfter: retryAfter, At: noon, U: 0.5}
}

func failure(reason hook.Reason) policy.Outcome {
	return policy.Outcome{Kind: hook.Retry, LaneClosed: true, Reason: reason, At: noon, U: 0.5}
}

func with(o policy.Outcome, change func(*policy.Outcome)) policy.Outcome {
	change(&o)
	return o
}

func kind(k hook.AttemptKind) func(*policy.Outcome) {
	return func(o *policy.Outcome) { o.Kind = k; o.LaneClosed = k != hook.Probe }
}

func TestJudge(t *testing.T) {
	t.Parallel()
	due := noon.Add(-time.Minute)
	after := func(d time.Duration) time.Time { return noon.Add(d) }
	start := fresh().RunDueAt
	for name, tc := range map[string]struct {
		prog    hook.Progress
		outcome policy.Outcome
		want    policy.Verdict
	}{
		"delivered": {
			prog:    hook.Progress{RunDueAt: start, Charged: 2, BackoffSteps: 2, FailedAttempts: 2},
			outcome: answer(204),
			want: policy.Verdict{
				Class: hook.Success, Reason: hook.OK, State: hook.Delivered, Charged: true,
				Progress: hook.Progress{RunDueAt: start, Charged: 3, BackoffSteps: 2, FailedAttempts: 2},
			},
		},
		"success ignores Retry-After": {
			outcome: answer(200, "60"),
			want:    policy.Verdict{Class: hook.Success, Reason: hook.OK, State: hook.Delivered, Charged: true, Progress: hook.Progress{Charged: 1}},
		},
		"first failure": {
			prog:    fresh(),
			outcome: with(answer(500), kind(hook.First)),
			want: policy.Verdict{
				Class: hook.Retryable, Reason: hook.ServerError, DueAt: after(seconds(15.5)), Charged: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, Charged: 1, BackoffSteps: 1, FailedAttempts: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: seconds(15.5), Source: hook.DelayBackoff,
			},
		},
		"third failure, after a probe and a throttle": {
			prog:    hook.Progress{RunDueAt: start, Charged: 1, BackoffSteps: 2, FailedAttempts: 3, Throttles: 1},
			outcome: failure(hook.ConnectRefused),
			want: policy.Verdict{
				Class: hook.Down, Reason: hook.ConnectRefused, DueAt: after(seconds(135.5)), Charged: true,
				Progress: hook.Progress{RunDueAt: start, Charged: 2, BackoffSteps: 3, FailedAttempts: 4},
				RetryN:   3, Ceiling: 270 * time.Second, Delay: seconds(135.5), Source: hook.DelayBackoff,
			},
		},
		"a replay is charged": {
			prog:    fresh(),
			outcome: with(answer(502), kind(hook.Replay)),
			want: policy.Verdict{
				Class: hook.Down, Reason: hook.Unavailable, DueAt: after(seconds(15.5)), Charged: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, Charged: 1, BackoffSteps: 1, FailedAttempts: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: seconds(15.5), Source: hook.DelayBackoff,
			},
		},
		"not charged unless the lane was closed": {
			prog:    fresh(),
			outcome: with(answer(500), func(o *policy.Outcome) { o.LaneClosed = false }),
			want: policy.Verdict{
				Class: hook.Retryable, Reason: hook.ServerError, DueAt: after(seconds(15.5)),
				Progress: hook.Progress{Run: 1, RunDueAt: start, BackoffSteps: 1, FailedAttempts: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: seconds(15.5), Source: hook.DelayBackoff,
			},
		},
		"last attempt": {
			prog:    hook.Progress{RunDueAt: start, Charged: 7, BackoffSteps: 7, FailedAttempts: 7},
			outcome: answer(500),
			want: policy.Verdict{
				Class: hook.Retryable, Reason: hook.ServerError, State: hook.Dead, End: hook.DeadExhausted, Charged: true,
				Progress: hook.Progress{RunDueAt: start, Charged: 8, BackoffSteps: 8, FailedAttempts: 8},
			},
		},
		"last attempt still holds the lane": {
			prog:    hook.Progress{RunDueAt: start, Charged: 7},
			outcome: answer(500, "60"),
			want: policy.Verdict{
				Class: hook.Retryable, Reason: hook.ServerError, State: hook.Dead, End: hook.DeadExhausted, Charged: true,
				Progress: hook.Progress{RunDueAt: start, Charged: 8, BackoffSteps: 1, FailedAttempts: 1},
				Hold:     seconds(60.5), RetryAfter: time.Minute,
			},
		},
		"throttled with header": {
			prog:    hook.Progress{RunDueAt: start, Charged: 7},
			outcome: answer(429, "60"),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, DueAt: after(66 * time.Second),
				Progress: hook.Progress{RunDueAt: start, Charged: 7, BackoffSteps: 1, FailedAttempts: 1, Throttles: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: 66 * time.Second, Source: hook.DelayRetryAfter,
				Hold: seconds(60.5), RetryAfter: time.Minute,
			},
		},
		"503 with header is a throttle": {
			prog:    fresh(),
			outcome: answer(503, "3"),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, DueAt: after(seconds(3.5)),
				Progress: hook.Progress{Run: 1, RunDueAt: start, BackoffSteps: 1, FailedAttempts: 1, Throttles: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: seconds(3.5), Source: hook.DelayRetryAfter,
				Hold: seconds(3.15), RetryAfter: 3 * time.Second,
			},
		},
		"503 with a useless header is down": {
			prog:    fresh(),
			outcome: answer(503, "0"),
			want: policy.Verdict{
				Class: hook.Down, Reason: hook.Unavailable, DueAt: after(seconds(15.5)), Charged: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, Charged: 1, BackoffSteps: 1, FailedAttempts: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: seconds(15.5), Source: hook.DelayBackoff,
			},
		},
		"throttled without header waits twice as long": {
			prog:    hook.Progress{RunDueAt: start, BackoffSteps: 1, FailedAttempts: 1, Throttles: 1},
			outcome: answer(429),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, DueAt: after(91 * time.Second),
				Progress: hook.Progress{RunDueAt: start, BackoffSteps: 2, FailedAttempts: 2, Throttles: 2},
				RetryN:   2, Ceiling: 90 * time.Second, Delay: 91 * time.Second, Source: hook.DelayThrottle,
			},
		},
		"patience not yet over": {
			prog:    hook.Progress{RunDueAt: start, BackoffSteps: 8, Throttles: 8},
			outcome: answer(429, "1"),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, DueAt: after(seconds(1.5)),
				Progress: hook.Progress{RunDueAt: start, BackoffSteps: 9, FailedAttempts: 1, Throttles: 9},
				RetryN:   9, Ceiling: 6 * time.Hour, Delay: seconds(1.5), Source: hook.DelayRetryAfter,
				Hold: seconds(1.05), RetryAfter: time.Second,
			},
		},
		"patience over: own backoff too": {
			prog:    hook.Progress{RunDueAt: start, BackoffSteps: 9, Throttles: 9},
			outcome: answer(429, "1"),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, DueAt: after(seconds(10800.5)),
				Progress: hook.Progress{RunDueAt: start, BackoffSteps: 10, FailedAttempts: 1, Throttles: 10},
				RetryN:   10, Ceiling: 6 * time.Hour, Delay: seconds(10800.5), Source: hook.DelayBackoff,
				Hold: seconds(1.05), RetryAfter: time.Second,
			},
		},
		"patience over: a longer wish still counts": {
			prog:    hook.Progress{RunDueAt: start, BackoffSteps: 9, Throttles: 9},
			outcome: answer(429, "36000"),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, DueAt: after(11 * time.Hour),
				Progress: hook.Progress{RunDueAt: start, BackoffSteps: 10, FailedAttempts: 1, Throttles: 10},
				RetryN:   10, Ceiling: 6 * time.Hour, Delay: 11 * time.Hour, Source: hook.DelayRetryAfter,
				Hold: 10*time.Hour + seconds(0.5), RetryAfter: 10 * time.Hour,
			},
		},
		"wish above the maximum": {
			prog:    fresh(),
			outcome: answer(429, "99999999999999999999"),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, DueAt: after(95040 * time.Second),
				Progress: hook.Progress{Run: 1, RunDueAt: start, BackoffSteps: 1, FailedAttempts: 1, Throttles: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: 95040 * time.Second, Source: hook.DelayRetryAfter,
				Hold: 24*time.Hour + seconds(0.5), RetryAfter: 24 * time.Hour, RetryAfterCapped: true,
			},
		},
		"500 with header is charged and holds the lane": {
			prog:    fresh(),
			outcome: answer(500, "60"),
			want: policy.Verdict{
				Class: hook.Retryable, Reason: hook.ServerError, DueAt: after(66 * time.Second), Charged: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, Charged: 1, BackoffSteps: 1, FailedAttempts: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: 66 * time.Second, Source: hook.DelayRetryAfter,
				Hold: seconds(60.5), RetryAfter: time.Minute,
			},
		},
		"refused for good": {
			prog:    fresh(),
			outcome: answer(413, "60"),
			want: policy.Verdict{
				Class: hook.Permanent, Reason: hook.ClientError, State: hook.Dead, End: hook.DeadPermanent, Charged: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, Charged: 1, BackoffSteps: 1, FailedAttempts: 1},
			},
		},
		"redirect": {
			outcome: answer(301, "60"),
			want: policy.Verdict{
				Class: hook.Permanent, Reason: hook.Redirect, State: hook.Dead, End: hook.DeadPermanent, Charged: true,
				Progress: hook.Progress{Charged: 1, BackoffSteps: 1, FailedAttempts: 1},
			},
		},
		"gone is asked once more": {
			prog:    fresh(),
			outcome: answer(410),
			want: policy.Verdict{
				Class: hook.Permanent, Reason: hook.Gone, DueAt: after(5 * time.Second), Charged: true, SaysGone: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, Charged: 1, FailedAttempts: 1, Limited: hook.Tally{hook.Gone: 1}},
				Delay:    5 * time.Second, Source: hook.DelayConfirm, Hold: 5 * time.Second,
			},
		},
		"gone": {
			prog:    hook.Progress{Run: 1, RunDueAt: start, Charged: 1, FailedAttempts: 1, Limited: hook.Tally{hook.Gone: 1}},
			outcome: answer(410),
			want: policy.Verdict{
				Class: hook.Permanent, Reason: hook.Gone, State: hook.Dead, End: hook.DeadGone, Charged: true, SaysGone: true, Sure: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, Charged: 2, BackoffSteps: 1, FailedAttempts: 2, Limited: hook.Tally{hook.Gone: 2}},
			},
		},
		"407 of the proxy is ours": {
			prog:    fresh(),
			outcome: with(answer(407, "60"), func(o *policy.Outcome) { o.Reason = hook.LocalError }),
			want: policy.Verdict{
				Class: hook.Local, Reason: hook.LocalError, DueAt: after(time.Second), Delay: time.Second,
				Progress: fresh(),
			},
		},
		"407 without a proxy is the endpoint's": {
			outcome: answer(407),
			want: policy.Verdict{
				Class: hook.Permanent, Reason: hook.ClientError, State: hook.Dead, End: hook.DeadPermanent, Charged: true,
				Progress: hook.Progress{Charged: 1, BackoffSteps: 1, FailedAttempts: 1},
			},
		},
		"local trouble costs nothing": {
			prog:    hook.Progress{RunDueAt: start, Charged: 7, BackoffSteps: 3, FailedAttempts: 3, Throttles: 2},
			outcome: failure(hook.LocalError),
			want: policy.Verdict{
				Class: hook.Local, Reason: hook.LocalError, DueAt: after(time.Second), Delay: time.Second,
				Progress: hook.Progress{RunDueAt: start, Charged: 7, BackoffSteps: 3, FailedAttempts: 3, Throttles: 2},
			},
		},
		"local trouble expires": {
			prog:    hook.Progress{RunDueAt: noon.Add(-168 * time.Hour)},
			outcome: failure(hook.LocalError),
			want: policy.Verdict{
				Class: hook.Local, Reason: hook.LocalError, State: hook.Dead, End: hook.DeadExpired, Delay: time.Second,
				Progress: hook.Progress{RunDueAt: noon.Add(-168 * time.Hour)},
			},
		},
		"an interruption never kills": {
			prog:    hook.Progress{RunDueAt: noon.Add(-500 * time.Hour)},
			outcome: failure(hook.Interrupted),
			want: policy.Verdict{
				Class: hook.Local, Reason: hook.Interrupted, DueAt: after(time.Second), Delay: time.Second,
				Progress: hook.Progress{RunDueAt: noon.Add(-500 * time.Hour)},
			},
		},
		"limited, not yet over": {
			prog:    hook.Progress{RunDueAt: start, Charged: 3, BackoffSteps: 3, FailedAttempts: 3, Limited: hook.Tally{hook.DNSNXDomain: 1, hook.TLSCertificate: 2}},
			outcome: failure(hook.DNSNXDomain),
			want: policy.Verdict{
				Class: hook.Limited, Reason: hook.DNSNXDomain, DueAt: after(seconds(405.5)), Charged: true,
				Progress: hook.Progress{
					RunDueAt: start, Charged: 4, BackoffSteps: 4, FailedAttempts: 4,
					Limited: hook.Tally{hook.DNSNXDomain: 2, hook.TLSCertificate: 2},
				},
				RetryN: 4, Ceiling: 810 * time.Second, Delay: seconds(405.5), Source: hook.DelayBackoff, LastChance: true,
			},
		},
		"limited, over": {
			prog:    hook.Progress{RunDueAt: start, Charged: 2, BackoffSteps: 2, FailedAttempts: 2, Limited: hook.Tally{hook.TLSCertificate: 2}},
			outcome: failure(hook.TLSCertificate),
			want: policy.Verdict{
				Class: hook.Limited, Reason: hook.TLSCertificate, State: hook.Dead, End: hook.DeadLimited, Charged: true,
				Progress: hook.Progress{RunDueAt: start, Charged: 3, BackoffSteps: 3, FailedAttempts: 3, Limited: hook.Tally{hook.TLSCertificate: 3}},
			},
		},
		"limited as first attempt": {
			prog:    fresh(),
			outcome: with(failure(hook.DNSNXDomain), kind(hook.First)),
			want: policy.Verdict{
				Class: hook.Limited, Reason: hook.DNSNXDomain, DueAt: after(seconds(15.5)), Charged: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, Charged: 1, BackoffSteps: 1, FailedAttempts: 1, Limited: hook.Tally{hook.DNSNXDomain: 1}},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: seconds(15.5), Source: hook.DelayBackoff,
			},
		},
		"expired at once": {
			prog:    hook.Progress{RunDueAt: noon.Add(-168*time.Hour + seconds(15.4)), Charged: 1},
			outcome: answer(500),
			want: policy.Verdict{
				Class: hook.Retryable, Reason: hook.ServerError, State: hook.Dead, End: hook.DeadExpired, Charged: true,
				Progress: hook.Progress{RunDueAt: noon.Add(-168*time.Hour + seconds(15.4)), Charged: 2, BackoffSteps: 1, FailedAttempts: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: seconds(15.5), Source: hook.DelayBackoff,
			},
		},
		"the last moment itself is allowed": {
			prog:    hook.Progress{RunDueAt: noon.Add(-168*time.Hour + seconds(15.5))},
			outcome: answer(500),
			want: policy.Verdict{
				Class: hook.Retryable, Reason: hook.ServerError, DueAt: after(seconds(15.5)), Charged: true,
				Progress: hook.Progress{RunDueAt: noon.Add(-168*time.Hour + seconds(15.5)), Charged: 1, BackoffSteps: 1, FailedAttempts: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: seconds(15.5), Source: hook.DelayBackoff,
			},
		},
		"throttles expire too": {
			prog:    hook.Progress{RunDueAt: noon.Add(-160 * time.Hour)},
			outcome: answer(429, "86400"),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, State: hook.Dead, End: hook.DeadExpired,
				Progress: hook.Progress{RunDueAt: noon.Add(-160 * time.Hour), BackoffSteps: 1, FailedAttempts: 1, Throttles: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: 95040 * time.Second, Source: hook.DelayRetryAfter,
				Hold: 24*time.Hour + seconds(0.5), RetryAfter: 24 * time.Hour,
			},
		},
		"lowered budget: a throttle kills nothing": {
			prog:    hook.Progress{RunDueAt: start, Charged: 12},
			outcome: answer(429, "60"),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, DueAt: after(66 * time.Second),
				Progress: hook.Progress{RunDueAt: start, Charged: 12, BackoffSteps: 1, FailedAttempts: 1, Throttles: 1},
				RetryN:   1, Ceiling: 30 * time.Second, Delay: 66 * time.Second, Source: hook.DelayRetryAfter,
				Hold: seconds(60.5), RetryAfter: time.Minute,
			},
		},
		"lowered budget: the next failure ends it": {
			prog:    hook.Progress{RunDueAt: start, Charged: 12},
			outcome: answer(500),
			want: policy.Verdict{
				Class: hook.Retryable, Reason: hook.ServerError, State: hook.Dead, End: hook.DeadExhausted, Charged: true,
				Progress: hook.Progress{RunDueAt: start, Charged: 13, BackoffSteps: 1, FailedAttempts: 1},
			},
		},
		"probe succeeds": {
			prog:    fresh(),
			outcome: with(answer(200), kind(hook.Probe)),
			want:    policy.Verdict{Class: hook.Success, Reason: hook.OK, State: hook.Delivered, Progress: fresh()},
		},
		"probe fails": {
			prog:    hook.Progress{RunDueAt: start, Charged: 7, BackoffSteps: 2, FailedAttempts: 2, Throttles: 1},
			outcome: with(failure(hook.Timeout), kind(hook.Probe)),
			want: policy.Verdict{
				Class: hook.Down, Reason: hook.Timeout, DueAt: due, Unchanged: true,
				Progress: hook.Progress{RunDueAt: start, Charged: 7, BackoffSteps: 2, FailedAttempts: 3, Throttles: 1},
			},
		},
		"probe of a closed lane is not charged": {
			prog:    fresh(),
			outcome: with(answer(500), func(o *policy.Outcome) { o.Kind = hook.Probe }),
			want: policy.Verdict{
				Class: hook.Retryable, Reason: hook.ServerError, DueAt: due, Unchanged: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, FailedAttempts: 1},
			},
		},
		"probe throttled": {
			prog:    fresh(),
			outcome: with(answer(429, "60"), kind(hook.Probe)),
			want: policy.Verdict{
				Class: hook.Throttle, Reason: hook.Throttled, DueAt: due, Unchanged: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, FailedAttempts: 1},
				Hold:     seconds(60.5), RetryAfter: time.Minute,
			},
		},
		"probe refused": {
			prog:    fresh(),
			outcome: with(answer(404), kind(hook.Probe)),
			want: policy.Verdict{
				Class: hook.Permanent, Reason: hook.ClientError, DueAt: due, Unchanged: true,
				Progress: hook.Progress{Run: 1, RunDueAt: start, FailedAttempts: 1},
			},
		},
		"probe gone": {
			prog:    fresh(),
			outcome: with(answer(410), kind(hook.Probe)),
			want: policy.Verdict{
				Class: hook.Permanent, Reason: hook.Gone, DueAt: due, Unchanged: true, SaysGone: true, Hold: 5 * time.Second,
				Progress: hook.Progress{Run: 1, RunDueAt: start, FailedAttempts: 1, Limited: hook.Tally{hook.Gone: 1}},
			},
		},
		"probe limited": {
			prog:    hook.Progress{RunDueAt: start, Limited: hook.Tally{hook.DNSNXDomain: 2}},
			outcome: with(failure(hook.DNSNXDomain), kind(hook.Probe)),
			want: policy.Verdict{
				Class: hook.Limited, Reason: hook.DNSNXDomain, DueAt: due, Unchanged: true,
				Progress: hook.Progress{RunDueAt: start, FailedAttempts: 1, Limited: hook.Tally{hook.DNSNXDomain: 2}},
			},
		},
		"probe interrupted": {
			prog:    fresh(),
			outcome: with(failure(hook.Interrupted), kind(hook.Probe)),
			want:    policy.Verdict{Class: hook.Local, Reason: hook.Interrupted, DueAt: due, Unchanged: true, Progress: fresh()},
		},
		"probe beyond the last moment": {
			prog:    hook.Progress{RunDueAt: noon.Add(-500 * time.Hour)},
			outcome: with(failure(hook.Timeout), kind(hook.Probe)),
			want: policy.Verdict{
				Class: hook.Down, Reason: hook.Timeout, DueAt: due, Unchanged: true,
				Progress: hook.Progress{RunDueAt: noon.Add(-500 * time.Hour), FailedAttempts: 1},
			},
		},
		"manual succeeds": {
			prog:    hook.Progress{RunDueAt: start, Charged: 8, BackoffSteps: 8, FailedAttempts: 8},
			outcome: with(answer(200), kind(hook.Manual)),
			want: policy.Verdict{
				Class: hook.Success, Reason: hook.OK, State: hook.Delivered,
				Progress: hook.Progress{RunDueAt: start, Charged: 8, BackoffSteps: 8, FailedAttempts: 8},
			},
		},
		"manual fails": {
			prog:    hook.Progress{RunDueAt: start, Charged: 7, BackoffSteps: 7, FailedAttempts: 7},
			outcome: with(answer(404), kind(hook.Manual)),
			want: policy.Verdict{
				Class: hook.Permanent, Reason: hook.ClientError, DueAt: due, Unchanged: true,
				Progress: hook.Progress{RunDueAt: start, Charged: 7, BackoffSteps: 7, FailedAttempts: 8},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy.Default()
			if tc.want.State != hook.Delivered {
				tc.want.U = tc.outcome.U
			}
			if tc.prog.RunDueAt.IsZero() { // outcomes that end the run do not look at it
				tc.prog.RunDueAt, tc.want.Progress.RunDueAt = start, start
			}
			if diff := cmp.Diff(tc.want, p.Judge(tc.prog, due, tc.outcome)); diff != "" {
				t.Errorf("Judge (-want +got):\n%s", diff)
			}
		})
	}
}

func TestJudgeFollowsThePolicy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		doc     string
		prog    hook.Progress
		outcome policy.Outcome
		check   func(policy.Verdict) bool
	}{
		"gone at the last attempt": {
			`{}`,
			hook.Progress{Run: 1, RunDueAt: noon, Charged: 7, FailedAttempts: 7},
			answer(410),
			func(v policy.Verdict) bool { return v.End == hook.DeadGone && v.SaysGone && !v.Sure },
		},
		"gone without disabling": {
			`{"classify":{"on_gone":"dead_letter"}}`, fresh(), answer(410),
			func(v policy.Verdict) bool {
				return v.State == hook.Dead && v.End == hook.DeadGone && !v.SaysGone
			},
		},
		"gone mapped to retry is not gone": {
			`{"classify":{"statuses":{"410":"retry"}}}`, fresh(), answer(410),
			func(v policy.Verdict) bool {
				return v.State == hook.Pending && v.Class == hook.Retryable && !v.SaysGone
			},
		},
		"honor false: 503 is down": {
			`{"retry_after":{"honor":false}}`, fresh(), answer(503, "60"),
			func(v policy.Verdict) bool {
				return v.Class == hook.Down && v.Charged && v.Hold == 0 && v.RetryAfter == 0 && v.Source == hook.DelayBackoff
			},
		},
		"honor false: 429 doubles": {
			`{"retry_after":{"honor":false}}`, fresh(), answer(429, "60"),
			func(v policy.Verdict) bool { return v.Source == hook.DelayThrottle && v.Delay == 31*time.Second },
		},
		"409 taken as success": {
			`{"classify":{"statuses":{"409":"success"}}}`, fresh(), answer(409),
			func(v policy.Verdict) bool { return v.State == hook.Delivered },
		},
		"302 retried ignores the header": {
			`{"classify":{"statuses":{"302":"retry"}}}`, fresh(), answer(302, "60"),
			func(v policy.Verdict) bool { return v.Hold == 0 && v.Source == hook.DelayBackoff },
		},
		"wish below the floor": {
			`{"retry":{"min_delay":"1h"}}`, fresh(), answer(429, "2"),
			func(v policy.Verdict) bool { return v.Delay == time.Hour && v.Hold == seconds(2.1) },
		},
		"own maximum": {
			`{"retry_after":{"max":"30s","late_percent":0,"late_min":"0s"}}`, fresh(), answer(429, "31"),
			func(v policy.Verdict) bool {
				return v.Delay == 30*time.Second && v.RetryAfterCapped && v.RetryAfter == 30*time.Second
			},
		},
		"exactly the maximum is not capped": {
			`{"retry_after":{"max":"30s"}}`, fresh(), answer(429, "30"),
			func(v policy.Verdict) bool { return !v.RetryAfterCapped },
		},
		"limit and budget at once: the limit is named": {
			`{"retry":{"max_attempts":3}}`,
			hook.Progress{RunDueAt: noon, Charged: 2, Limited: hook.Tally{hook.DNSNXDomain: 2}},
			failure(hook.DNSNXDomain),
			func(v policy.Verdict) bool { return v.End == hook.DeadLimited },
		},
		"limited by one": {
			`{"classify":{"limits":{"server_error":1}}}`, fresh(), answer(500),
			func(v policy.Verdict) bool { return v.End == hook.DeadLimited },
		},
		"single attempt": {
			`{"retry":{"max_attempts":1}}`, fresh(), answer(500),
			func(v policy.Verdict) bool { return v.End == hook.DeadExhausted },
		},
		"decorrelated remembers its draw, not the wish": {
			`{"preset":"quick"}`,
			hook.Progress{RunDueAt: noon, PrevDelay: 2 * time.Second},
			answer(503, "600"),
			func(v policy.Verdict) bool {
				return v.Delay == 660*time.Second && v.Progress.PrevDelay == seconds(3.5) && v.Ceiling == 6*time.Second
			},
		},
		"decorrelated throttle doubles after the draw": {
			`{"preset":"quick"}`,
			hook.Progress{RunDueAt: noon, PrevDelay: 2 * time.Second},
			answer(429),
			func(v policy.Verdict) bool {
				return v.Delay == 7*time.Second && v.Progress.PrevDelay == seconds(3.5)
			},
		},
		"other jitter remembers nothing": {
			`{}`, fresh(), answer(500),
			func(v policy.Verdict) bool { return v.Progress.PrevDelay == 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := resolve(t, tc.doc)
			if v := r.Policy.Judge(tc.prog, noon, tc.outcome); !tc.check(v) {
				t.Errorf("verdict %+v", v)
			}
		})
	}
}

func TestLateSpread(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]struct{ delay, hold [3]float64 }{
		"1":     {[3]float64{1, 1.5, 1.999}, [3]float64{1, 1.05, 1.0999}},
		"3":     {[3]float64{3, 3.5, 3.999}, [3]float64{3, 3.15, 3.2997}},
		"60":    {[3]float64{60, 66, 71.988}, [3]float64{60, 60.5, 60.999}},
		"86400": {[3]float64{86400, 95040, 103662.72}, [3]float64{86400, 86400.5, 86400.999}},
	} {
		for i, u := range []float64{0, 0.5, 0.999} {
			p := policy.Default()
			o := answer(429, asked)
			o.U = u
			if got := p.Judge(fresh(), noon, o); (got.Hold-seconds(want.hold[i])).Abs() > time.Millisecond || got.Delay != seconds(want.delay[i]) {
				t.Errorf("asked %ss, u=%v: hold %v, delay %v, want %vs and %vs", asked, u, got.Hold, got.Delay, want.hold[i], want.delay[i])
			}
		}
	}
}

func TestDateBetweenTicksIsNotSentEarly(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	o := answer(429, minuteLater)
	o.At = noon.Add(123456 * time.Nanosecond)
	o.U = 0
	v := p.Judge(fresh(), noon, o)
	if asked := noon.Add(time.Minute); v.DueAt.Before(asked) || v.DueAt.Sub(asked) > time.Millisecond {
		t.Errorf("due %v, asked for %v", v.DueAt, asked)
	}
}

func TestJudgeLeavesTheTallyAlone(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	prog := fresh()
	prog.Limited = hook.Tally{hook.DNSNXDomain: 1}
	p.Judge(prog, noon, failure(hook.DNSNXDomain))
	if prog.Limited[hook.DNSNXDomain] != 1 {
		t.Error("Judge changed the caller's tally")
	}
}

func ExamplePolicy_Judge() {
	p := policy.Default()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	v := p.Judge(hook.Progress{Run: 1, RunDueAt: start}, start, policy.Outcome{
		Kind: hook.First, LaneClosed: true, Status: 502, At: start, U: 0.5,
	})
	fmt.Println(v.Class, v.Reason, v.State, v.Delay, v.Charged)
	// Output: down unavailable pending 15.5s true
}
