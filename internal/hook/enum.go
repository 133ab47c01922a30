package hook

import (
	"fmt"
	"slices"
	"strings"
)

// The numbers of all enums below are stored. They are never reused and never
// renumbered; new members go to the end.

// DeliveryState is the durable state of a delivery.
type DeliveryState uint8

// A delivery is pending until it ends. In flight is not a state: it is not
// stored, so that a crash leaves nothing stuck.
const (
	Pending   DeliveryState = 0
	Delivered DeliveryState = 1
	Dead      DeliveryState = 2
	Cancelled DeliveryState = 3
)

// EndpointState is what the operator, or a rule on the operator's behalf, wants
// of an endpoint.
type EndpointState uint8

// Paused and disabled endpoints still get deliveries; all of them are held.
const (
	Active   EndpointState = 0
	Paused   EndpointState = 1
	Disabled EndpointState = 2
)

// AttemptKind says why an attempt was made.
type AttemptKind uint8

// The kinds of attempts.
const (
	First  AttemptKind = 0
	Retry  AttemptKind = 1
	Probe  AttemptKind = 2
	Replay AttemptKind = 3
	Manual AttemptKind = 4
)

// Class is what an outcome means: the closed list that the log, the metrics
// and the API share.
type Class uint8

// The classes of outcomes.
const (
	Success   Class = 1 // 2xx
	Down      Class = 2 // the destination is down
	Throttle  Class = 3 // the destination asks for less
	Retryable Class = 4 // this request failed, the destination answers
	Limited   Class = 5 // like Down, with an attempt limit for its reason
	Permanent Class = 6 // refused for good
	Local     Class = 7 // our side; not the destination's doing
)

// Reason is why an attempt ended as it did: a closed list.
type Reason uint8

// The reasons of attempts.
const (
	OK             Reason = 1
	Redirect       Reason = 2
	ClientError    Reason = 3
	Gone           Reason = 4
	RequestTimeout Reason = 5
	TooEarly       Reason = 6
	Throttled      Reason = 7
	ServerError    Reason = 8
	NotSupported   Reason = 9
	Unavailable    Reason = 10
	ConnectRefused Reason = 11
	ConnectReset   Reason = 12
	ConnectTimeout Reason = 13
	Unreachable    Reason = 14
	Timeout        Reason = 15
	TLSHandshake   Reason = 16
	TLSCertificate Reason = 17
	DNSError       Reason = 18
	DNSNXDomain    Reason = 19
	Protocol       Reason = 20
	BlockedAddress Reason = 21
	Interrupted    Reason = 22
	LocalError     Reason = 23
)

// EndReason is why a delivery is dead or cancelled: a closed list.
type EndReason uint8

// The reasons of dead letters, then of cancellations.
const (
	DeadExhausted   EndReason = 1
	DeadLimited     EndReason = 2
	DeadPermanent   EndReason = 3
	DeadGone        EndReason = 4
	DeadExpired     EndReason = 5
	DeadBreakerOpen EndReason = 6

	CancelledByUser          EndReason = 7
	CancelledEndpointDeleted EndReason = 8
)

// DelaySource is what set the wait after an attempt.
type DelaySource uint8

// The sources of delays.
const (
	DelayNone       DelaySource = 0
	DelayBackoff    DelaySource = 1
	DelayRetryAfter DelaySource = 2
	DelayThrottle   DelaySource = 3
	DelayConfirm    DelaySource = 4 // it says that it is gone: is it?
)

// Scheme is a way of signing a request.
type Scheme uint8

// The signature schemes: Standard Webhooks v1 (HMAC) and v1a (ed25519), and
// the header that Stripe made popular.
const (
	SchemeStandard        Scheme = 0
	SchemeStandardEd25519 Scheme = 1
	SchemeStripe          Scheme = 2
)

// BodyMode is the form in which an endpoint gets an event.
type BodyMode uint8

// BodyPayload sends the accepted bytes as they are; BodyEnvelope wraps them as
// {"type","timestamp","data"}. The others are forms that other software knows.
const (
	BodyPayload           BodyMode = 0
	BodyEnvelope          BodyMode = 1
	BodyCloudEvents       BodyMode = 2
	BodyCloudEventsBinary BodyMode = 3
	BodySlack             BodyMode = 4
	BodyDiscord           BodyMode = 5
	BodyTeams             BodyMode = 6
)

// TraceContext says whether an endpoint is told in whose trace an event was sent.
type TraceContext uint8

// TraceOff keeps the trace context of an event; TraceForward sends it along.
const (
	TraceOff     TraceContext = 0
	TraceForward TraceContext = 1
)

// Scope is what an API key may do.
type Scope uint8

// The scopes of API keys.
const (
	ScopeAdmin       Scope = 1
	ScopeAdminRead   Scope = 2
	ScopeTenantWrite Scope = 3
	ScopeTenantRead  Scope = 4
	ScopeTenantSend  Scope = 5
)

var (
	deliveryStates = names[DeliveryState]{"status", []string{"pending", "delivered", "dead", "cancelled"}}
	endpointStates = names[EndpointState]{"status", []string{"active", "paused", "disabled"}}
	attemptKinds   = names[AttemptKind]{"kind", []string{"first", "retry", "probe", "replay", "manual"}}
	classes        = names[Class]{"class", []string{"", "success", "down", "throttle", "retry", "limited", "permanent", "local"}}
	reasons        = names[Reason]{"reason", []string{
		"", "ok", "redirect", "client_error", "gone", "request_timeout", "too_early",
		"throttled", "server_error", "not_supported", "unavailable", "connect_refused", "connect_reset", "connect_timeout",
		"unreachable", "timeout", "tls_handshake", "tls_certificate", "dns_error", "dns_nxdomain", "protocol",
		"blocked_address", "interrupted", "local_error",
	}}
	endReasons = names[EndReason]{"reason", []string{
		"", "exhausted", "limited", "permanent", "gone", "expired", "breaker_open",
		"user", "endpoint_deleted",
	}}
	delaySources  = names[DelaySource]{"delay source", []string{"none", "backoff", "retry_after", "throttle", "confirm"}}
	schemes       = names[Scheme]{"scheme", []string{"standard", "standard_ed25519", "stripe"}}
	bodyModes     = names[BodyMode]{"body", []string{"payload", "envelope", "cloudevents", "cloudevents_binary", "slack", "discord", "teams"}}
	traceContexts = names[TraceContext]{"trace_context", []string{"off", "forward"}}
	scopes        = names[Scope]{"scope", []string{"", "admin", "admin:read", "tenant:write", "tenant:read", "tenant:send"}}
)

// names is the table of one enum: its member's position is its number.
type names[E ~uint8] struct {
	what string
	list []string
}

func (n names[E]) text(e E) string {
	if int(e) < len(n.list) {
		return n.list[e]
	}
	return fmt.Sprintf("%s(%d)", n.what, e)
}

func (n names[E]) parse(s string) (E, error) {
	if i := slices.Index(n.list, s); i >= 0 && s != "" {
		return E(i), nil
	}
	known := slices.DeleteFunc(slices.Clone(n.list), func(s string) bool { return s == "" })
	return 0, fmt.Errorf("unknown %s %q; known: %s", n.what, s, strings.Join(known, ", "))
}

func (n names[E]) all() []E {
	var out []E
	for i, s := range n.list {
		if s != "" {
			out = append(out, E(i))
		}
	}
	return out
}

func (s DeliveryState) String() string { return deliveryStates.text(s) }
func (s EndpointState) String() string { return endpointStates.text(s) }
func (k AttemptKind) String() string   { return attemptKinds.text(k) }
func (c Class) String() string         { return classes.text(c) }
func (r Reason) String() string        { return reasons.text(r) }
func (r EndReason) String() string     { return endReasons.text(r) }
func (d DelaySource) String() string   { return delaySources.text(d) }
func (s Scheme) String() string        { return schemes.text(s) }
func (b BodyMode) String() string      { return bodyModes.text(b) }
func (t TraceContext) String() string  { return traceContexts.text(t) }
func (s Scope) String() string         { return scopes.text(s) }

// ParseDeliveryState reads the name of a delivery state.
func ParseDeliveryState(s string) (DeliveryState, error) { return deliveryStates.parse(s) }

// ParseAttemptKind reads the name of a kind of attempt.
func ParseAttemptKind(s string) (AttemptKind, error) { return attemptKinds.parse(s) }

// ParseClass reads the name of a class.
func ParseClass(s string) (Class, error) { return classes.parse(s) }

// ParseReason reads the name of an attempt reason.
func ParseReason(s string) (Reason, error) { return reasons.parse(s) }

// ParseEndReason reads the name of a dead or cancelled reason.
func ParseEndReason(s string) (EndReason, error) { return endReasons.parse(s) }

// ParseScheme reads the name of a signature scheme.
func ParseScheme(s string) (Scheme, error) { return schemes.parse(s) }

// ParseTraceContext reads the name of what becomes of trace contexts.
func ParseTraceContext(s string) (TraceContext, error) { return traceContexts.parse(s) }

// ParseBodyMode reads the name of a body mode.
func ParseBodyMode(s string) (BodyMode, error) { return bodyModes.parse(s) }

// ParseScope reads the name of an API key scope.
func ParseScope(s string) (Scope, error) { return scopes.parse(s) }

// Classes lists every class.
func Classes() []Class { return classes.all() }

// Reasons lists every attempt reason.
func Reasons() []Reason { return reasons.all() }
