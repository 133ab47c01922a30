package hook_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// The numbers are stored and the names are in logs, metrics and the API. This
// table only ever grows: a line that changes breaks every existing database.
func TestEnumsArePinned(t *testing.T) {
	t.Parallel()
	pinned := []struct {
		name string
		got  fmt.Stringer
		n    uint8
		text string
	}{
		{"Pending", hook.Pending, uint8(hook.Pending), "0 pending"},
		{"Delivered", hook.Delivered, uint8(hook.Delivered), "1 delivered"},
		{"Dead", hook.Dead, uint8(hook.Dead), "2 dead"},
		{"Cancelled", hook.Cancelled, uint8(hook.Cancelled), "3 cancelled"},

		{"Active", hook.Active, uint8(hook.Active), "0 active"},
		{"Paused", hook.Paused, uint8(hook.Paused), "1 paused"},
		{"Disabled", hook.Disabled, uint8(hook.Disabled), "2 disabled"},

		{"First", hook.First, uint8(hook.First), "0 first"},
		{"Retry", hook.Retry, uint8(hook.Retry), "1 retry"},
		{"Probe", hook.Probe, uint8(hook.Probe), "2 probe"},
		{"Replay", hook.Replay, uint8(hook.Replay), "3 replay"},
		{"Manual", hook.Manual, uint8(hook.Manual), "4 manual"},

		{"Success", hook.Success, uint8(hook.Success), "1 success"},
		{"Down", hook.Down, uint8(hook.Down), "2 down"},
		{"Throttle", hook.Throttle, uint8(hook.Throttle), "3 throttle"},
		{"Retryable", hook.Retryable, uint8(hook.Retryable), "4 retry"},
		{"Limited", hook.Limited, uint8(hook.Limited), "5 limited"},
		{"Permanent", hook.Permanent, uint8(hook.Permanent), "6 permanent"},
		{"Local", hook.Local, uint8(hook.Local), "7 local"},

		{"OK", hook.OK, uint8(hook.OK), "1 ok"},
		{"Redirect", hook.Redirect, uint8(hook.Redirect), "2 redirect"},
		{"ClientError", hook.ClientError, uint8(hook.ClientError), "3 client_error"},
		{"Gone", hook.Gone, uint8(hook.Gone), "4 gone"},
		{"RequestTimeout", hook.RequestTimeout, uint8(hook.RequestTimeout), "5 request_timeout"},
		{"TooEarly", hook.TooEarly, uint8(hook.TooEarly), "6 too_early"},
		{"Throttled", hook.Throttled, uint8(hook.Throttled), "7 throttled"},
		{"ServerError", hook.ServerError, uint8(hook.ServerError), "8 server_error"},
		{"NotSupported", hook.NotSupported, uint8(hook.NotSupported), "9 not_supported"},
		{"Unavailable", hook.Unavailable, uint8(hook.Unavailable), "10 unavailable"},
		{"ConnectRefused", hook.ConnectRefused, uint8(hook.ConnectRefused), "11 connect_refused"},
		{"ConnectReset", hook.ConnectReset, uint8(hook.ConnectReset), "12 connect_reset"},
		{"ConnectTimeout", hook.ConnectTimeout, uint8(hook.ConnectTimeout), "13 connect_timeout"},
		{"Unreachable", hook.Unreachable, uint8(hook.Unreachable), "14 unreachable"},
		{"Timeout", hook.Timeout, uint8(hook.Timeout), "15 timeout"},
		{"TLSHandshake", hook.TLSHandshake, uint8(hook.TLSHandshake), "16 tls_handshake"},
		{"TLSCertificate", hook.TLSCertificate, uint8(hook.TLSCertificate), "17 tls_certificate"},
		{"DNSError", hook.DNSError, uint8(hook.DNSError), "18 dns_error"},
		{"DNSNXDomain", hook.DNSNXDomain, uint8(hook.DNSNXDomain), "19 dns_nxdomain"},
		{"Protocol", hook.Protocol, uint8(hook.Protocol), "20 protocol"},
		{"BlockedAddress", hook.BlockedAddress, uint8(hook.BlockedAddress), "21 blocked_address"},
		{"Interrupted", hook.Interrupted, uint8(hook.Interrupted), "22 interrupted"},
		{"LocalError", hook.LocalError, uint8(hook.LocalError), "23 local_error"},

		{"DeadExhausted", hook.DeadExhausted, uint8(hook.DeadExhausted), "1 exhausted"},
		{"DeadLimited", hook.DeadLimited, uint8(hook.DeadLimited), "2 limited"},
		{"DeadPermanent", hook.DeadPermanent, uint8(hook.DeadPermanent), "3 permanent"},
		{"DeadGone", hook.DeadGone, uint8(hook.DeadGone), "4 gone"},
		{"DeadExpired", hook.DeadExpired, uint8(hook.DeadExpired), "5 expired"},
		{"DeadBreakerOpen", hook.DeadBreakerOpen, uint8(hook.DeadBreakerOpen), "6 breaker_open"},
		{"CancelledByUser", hook.CancelledByUser, uint8(hook.CancelledByUser), "7 user"},
		{"CancelledEndpointDeleted", hook.CancelledEndpointDeleted, uint8(hook.CancelledEndpointDeleted), "8 endpoint_deleted"},

		{"DelayNone", hook.DelayNone, uint8(hook.DelayNone), "0 none"},
		{"DelayBackoff", hook.DelayBackoff, uint8(hook.DelayBackoff), "1 backoff"},
		{"DelayRetryAfter", hook.DelayRetryAfter, uint8(hook.DelayRetryAfter), "2 retry_after"},
		{"DelayThrottle", hook.DelayThrottle, uint8(hook.DelayThrottle), "3 throttle"},

		{"SchemeStandard", hook.SchemeStandard, uint8(hook.SchemeStandard), "0 standard"},
		{"SchemeStandardEd25519", hook.SchemeStandardEd25519, uint8(hook.SchemeStandardEd25519), "1 standard_ed25519"},
		{"SchemeStripe", hook.SchemeStripe, uint8(hook.SchemeStripe), "2 stripe"},

		{"BodyPayload", hook.BodyPayload, uint8(hook.BodyPayload), "0 payload"},
		{"BodyEnvelope", hook.BodyEnvelope, uint8(hook.BodyEnvelope), "1 envelope"},
		{"BodyCloudEvents", hook.BodyCloudEvents, uint8(hook.BodyCloudEvents), "2 cloudevents"},
		{"BodyCloudEventsBinary", hook.BodyCloudEventsBinary, uint8(hook.BodyCloudEventsBinary), "3 cloudevents_binary"},
		{"BodySlack", hook.BodySlack, uint8(hook.BodySlack), "4 slack"},
		{"BodyDiscord", hook.BodyDiscord, uint8(hook.BodyDiscord), "5 discord"},
		{"BodyTeams", hook.BodyTeams, uint8(hook.BodyTeams), "6 teams"},
		{"TraceOff", hook.TraceOff, uint8(hook.TraceOff), "0 off"},
		{"TraceForward", hook.TraceForward, uint8(hook.TraceForward), "1 forward"},

		{"ScopeAdmin", hook.ScopeAdmin, uint8(hook.ScopeAdmin), "1 admin"},
		{"ScopeAdminRead", hook.ScopeAdminRead, uint8(hook.ScopeAdminRead), "2 admin:read"},
		{"ScopeTenantWrite", hook.ScopeTenantWrite, uint8(hook.ScopeTenantWrite), "3 tenant:write"},
		{"ScopeTenantRead", hook.ScopeTenantRead, uint8(hook.ScopeTenantRead), "4 tenant:read"},
		{"ScopeTenantSend", hook.ScopeTenantSend, uint8(hook.ScopeTenantSend), "5 tenant:send"},
	}
	for _, p := range pinned {
		if got := fmt.Sprintf("%d %s", p.n, p.got); got != p.text {
			t.Errorf("%s is %q, want %q", p.name, got, p.text)
		}
	}
}

func TestClosedListsAreComplete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ got, want []uint8 }{
		"7 classes":     {numbers(hook.Classes()), upTo(7)},
		"23 reasons":    {numbers(hook.Reasons()), upTo(23)},
		"8 end reasons": {numbers(hook.EndReasons()), upTo(8)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("numbers differ (-want +got):\n%s", diff)
			}
		})
	}
}

func numbers[E ~uint8](list []E) []uint8 {
	var out []uint8
	for _, e := range list {
		out = append(out, uint8(e))
	}
	return out
}

func upTo(n uint8) []uint8 {
	var out []uint8
	for i := range n {
		out = append(out, i+1)
	}
	return out
}

func TestNamesRoundTrip(t *testing.T) {
	t.Parallel()
	roundTrip(t, hook.ParseDeliveryState, hook.Pending, hook.Cancelled)
	roundTrip(t, hook.ParseReason, hook.OK, hook.LocalError)
	roundTrip(t, hook.ParseEndReason, hook.DeadExhausted, hook.CancelledEndpointDeleted)
	roundTrip(t, hook.ParseScheme, hook.SchemeStandard, hook.SchemeStripe)
	roundTrip(t, hook.ParseBodyMode, hook.BodyPayload, hook.BodyTeams)
	roundTrip(t, hook.ParseTraceContext, hook.TraceOff, hook.TraceForward)
	roundTrip(t, hook.ParseScope, hook.ScopeAdmin, hook.ScopeTenantSend)
}

// roundTrip checks the members from first to last, and that nothing else has a
// name that could be read back.
func roundTrip[E interface {
	~uint8
	fmt.Stringer
}](t *testing.T, parse func(string) (E, error), first, last E) {
	t.Helper()
	seen := map[string]E{}
	for e := first; e <= last; e++ {
		name := e.String()
		if other, taken := seen[name]; taken {
			t.Errorf("%T: %d and %d are both called %q", e, other, e, name)
		}
		seen[name] = e
		if got, err := parse(name); err != nil || got != e {
			t.Errorf("%T: parse(%q) = %d, %v, want %d", e, name, got, err, e)
		}
	}
	for _, bad := range []string{"", " ", strings.ToUpper(first.String()), (last + 1).String(), "nonsense"} {
		got, err := parse(bad)
		if err == nil {
			t.Errorf("%T: parse(%q) = %d, want an error", first, bad, got)
			continue
		}
		if !strings.Contains(err.Error(), last.String()) {
			t.Errorf("%T: error %q does not list the known names", first, err)
		}
	}
}

func TestUnknownNumbersAreVisible(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]fmt.Stringer{
		"class(200)":  hook.Class(200),
		"reason(24)":  hook.Reason(24),
		"status(4)":   hook.DeliveryState(4),
		"status(3)":   hook.EndpointState(3),
		"kind(5)":     hook.AttemptKind(5),
		"scheme(255)": hook.Scheme(255),
	} {
		if got := e.String(); got != want {
			t.Errorf("%T prints %q, want %q", e, got, want)
		}
	}
}
