package policy_test

import (
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

type meaning struct {
	class  hook.Class
	reason hook.Reason
}

// expectedStatus spells the documented table out, independent of the code.
func expectedStatus(status int, usable bool) meaning {
	special := map[int]meaning{
		408: {hook.Retryable, hook.RequestTimeout},
		410: {hook.Permanent, hook.Gone},
		425: {hook.Retryable, hook.TooEarly},
		429: {hook.Throttle, hook.Throttled},
		501: {hook.Permanent, hook.NotSupported},
		502: {hook.Down, hook.Unavailable},
		503: {hook.Down, hook.Unavailable},
		504: {hook.Down, hook.Unavailable},
		505: {hook.Permanent, hook.NotSupported},
	}
	if status == 503 && usable {
		return meaning{hook.Throttle, hook.Throttled}
	}
	if m, ok := special[status]; ok {
		return m
	}
	switch status / 100 {
	case 2:
		return meaning{hook.Success, hook.OK}
	case 3:
		return meaning{hook.Permanent, hook.Redirect}
	case 4:
		return meaning{hook.Permanent, hook.ClientError}
	case 5:
		return meaning{hook.Retryable, hook.ServerError}
	default:
		return meaning{hook.Retryable, hook.Protocol}
	}
}

func TestEveryStatus(t *testing.T) {
	t.Parallel()
	p := policy.Default()
	for status := -1; status <= 700; status++ {
		if status == 0 {
			continue // no answer: see TestEveryError
		}
		for _, usable := range []bool{false, true} {
			class, reason := p.ClassOf(status, hook.Timeout, usable)
			if got, want := (meaning{class, reason}), expectedStatus(status, usable); got != want {
				t.Errorf("status %d (Retry-After %v) = %v %v, want %v %v", status, usable, class, reason, want.class, want.reason)
			}
		}
	}
}

func TestEveryError(t *testing.T) {
	t.Parallel()
	want := map[hook.Reason]hook.Class{
		hook.ConnectRefused: hook.Down, hook.ConnectReset: hook.Down, hook.ConnectTimeout: hook.Down,
		hook.Unreachable: hook.Down, hook.Timeout: hook.Down, hook.TLSHandshake: hook.Down, hook.DNSError: hook.Down,
		hook.TLSCertificate: hook.Limited, hook.DNSNXDomain: hook.Limited,
		hook.Protocol: hook.Retryable, hook.BlockedAddress: hook.Permanent,
		hook.Interrupted: hook.Local, hook.LocalError: hook.Local,
	}
	p := policy.Default()
	for r := range 256 {
		reason := hook.Reason(r)
		class, got := p.ClassOf(0, reason, false)
		if expected, ok := want[reason]; ok {
			if class != expected || got != reason {
				t.Errorf("%v = %v %v, want %v %v", reason, class, got, expected, reason)
			}
		} else if class != hook.Local || got != hook.LocalError {
			t.Errorf("%v without a status = %v %v, want local local_error: no sender may report it", reason, class, got)
		}
	}
}

func TestOurFaultCannotBeBlamed(t *testing.T) {
	t.Parallel()
	p := policy.Default() // made by hand: Resolve does not let these through
	for _, reason := range []hook.Reason{hook.Interrupted, hook.LocalError} {
		p.Classify.Errors[reason] = policy.ActionPermanent
		p.Classify.Limits[reason] = 1
		if class, got := p.ClassOf(0, reason, false); class != hook.Local || got != reason {
			t.Errorf("%v = %v %v, want local", reason, class, got)
		}
	}
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		doc    string
		status int
		reason hook.Reason
		usable bool
		want   meaning
	}{
		"exact code":                   {`{"classify":{"statuses":{"409":"retry"}}}`, 409, 0, false, meaning{hook.Retryable, hook.ClientError}},
		"class":                        {`{"classify":{"statuses":{"4xx":"retry"}}}`, 418, 0, false, meaning{hook.Retryable, hook.ClientError}},
		"exact beats class":            {`{"classify":{"statuses":{"4xx":"retry","404":"permanent"}}}`, 404, 0, false, meaning{hook.Permanent, hook.ClientError}},
		"class covers special codes":   {`{"classify":{"statuses":{"4xx":"permanent"}}}`, 408, 0, false, meaning{hook.Permanent, hook.RequestTimeout}},
		"vendor code down":             {`{"classify":{"statuses":{"521":"down"}}}`, 521, 0, false, meaning{hook.Down, hook.ServerError}},
		"throttle":                     {`{"classify":{"statuses":{"420":"throttle"}}}`, 420, 0, false, meaning{hook.Throttle, hook.ClientError}},
		"409 is as good as delivered":  {`{"classify":{"statuses":{"409":"success"}}}`, 409, 0, false, meaning{hook.Success, hook.ClientError}},
		"202 is not done":              {`{"classify":{"statuses":{"202":"retry"}}}`, 202, 0, false, meaning{hook.Retryable, hook.OK}},
		"redirect retried":             {`{"classify":{"statuses":{"3xx":"retry"}}}`, 302, 0, false, meaning{hook.Retryable, hook.Redirect}},
		"503 stays down when it asks":  {`{"classify":{"statuses":{"503":"down"}}}`, 503, 0, true, meaning{hook.Down, hook.Throttled}},
		"strict 429":                   {`{"classify":{"statuses":{"429":"permanent"}}}`, 429, 0, true, meaning{hook.Permanent, hook.Throttled}},
		"no class for odd statuses":    {`{"classify":{"statuses":{"5xx":"permanent"}}}`, 600, 0, false, meaning{hook.Retryable, hook.Protocol}},
		"101 by exact code":            {`{"classify":{"statuses":{"101":"permanent"}}}`, 101, 0, false, meaning{hook.Permanent, hook.Protocol}},
		"error permanent":              {`{"classify":{"errors":{"connect_refused":"permanent"}}}`, 0, hook.ConnectRefused, false, meaning{hook.Permanent, hook.ConnectRefused}},
		"error does not touch status":  {`{"classify":{"errors":{"protocol":"permanent"}}}`, 101, 0, false, meaning{hook.Retryable, hook.Protocol}},
		"blocked address retried":      {`{"classify":{"errors":{"blocked_address":"retry"}}}`, 0, hook.BlockedAddress, false, meaning{hook.Retryable, hook.BlockedAddress}},
		"limit beats a retry override": {`{"classify":{"errors":{"dns_nxdomain":"retry"}}}`, 0, hook.DNSNXDomain, false, meaning{hook.Limited, hook.DNSNXDomain}},
		"permanent beats a limit":      {`{"classify":{"errors":{"dns_nxdomain":"permanent"}}}`, 0, hook.DNSNXDomain, false, meaning{hook.Permanent, hook.DNSNXDomain}},
		"limit on a D status":          {`{"classify":{"limits":{"unavailable":4}}}`, 502, 0, false, meaning{hook.Limited, hook.Unavailable}},
		"limit on an E status":         {`{"classify":{"limits":{"server_error":4}}}`, 500, 0, false, meaning{hook.Limited, hook.ServerError}},
		"limit does not touch T":       {`{"classify":{"limits":{"throttled":4}}}`, 429, 0, false, meaning{hook.Throttle, hook.Throttled}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := resolve(t, tc.doc)
			class, reason := r.Policy.ClassOf(tc.status, tc.reason, tc.usable)
			if got := (meaning{class, reason}); got != tc.want {
				t.Errorf("got %v %v, want %v %v", class, reason, tc.want.class, tc.want.reason)
			}
		})
	}
}
