package policy

import (
	"strconv"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// ClassOf says what an attempt's end means: its status, or its reason when
// there was none (status 0). usableRetryAfter tells a 503 that asks for a pause
// from one that is down. The result is always within the closed lists; a reason
// that a sender cannot have is taken as our own fault.
func (p *Policy) ClassOf(status int, reason hook.Reason, usableRetryAfter bool) (hook.Class, hook.Reason) {
	var class hook.Class
	if status == 0 {
		class, reason = errorClass(reason)
		if class != hook.Local {
			class = p.Classify.Errors[reason].class(class)
		}
	} else {
		class, reason = statusClass(status, usableRetryAfter)
		class = p.statusAction(status).class(class)
	}
	if _, ok := p.Classify.Limits[reason]; ok && (class == hook.Down || class == hook.Retryable) {
		class = hook.Limited
	}
	return class, reason
}

// statusAction returns the override of a status, "" when there is none.
func (p *Policy) statusAction(status int) Action {
	if len(p.Classify.Statuses) == 0 || status < 100 || status > 599 {
		return ""
	}
	code := strconv.Itoa(status)
	if a, ok := p.Classify.Statuses[code]; ok {
		return a
	}
	return p.Classify.Statuses[code[:1]+"xx"]
}

// class returns the class an override stands for, or the given one.
func (a Action) class(otherwise hook.Class) hook.Class {
	switch a {
	case ActionRetry:
		return hook.Retryable
	case ActionDown:
		return hook.Down
	case ActionThrottle:
		return hook.Throttle
	case ActionPermanent:
		return hook.Permanent
	case ActionSuccess:
		return hook.Success
	default:
		return otherwise
	}
}

// statusClass is the built-in meaning of a final status.
func statusClass(status int, usableRetryAfter bool) (hook.Class, hook.Reason) {
	switch {
	case status < 200 || status > 599:
		return hook.Retryable, hook.Protocol
	case status < 300:
		return hook.Success, hook.OK
	case status < 400:
		return hook.Permanent, hook.Redirect
	case status < 500:
		return clientClass(status)
	default:
		return serverClass(status, usableRetryAfter)
	}
}

func clientClass(status int) (hook.Class, hook.Reason) {
	switch status {
	case 408:
		return hook.Retryable, hook.RequestTimeout
	case 410:
		return hook.Permanent, hook.Gone
	case 425:
		return hook.Retryable, hook.TooEarly
	case 429:
		return hook.Throttle, hook.Throttled
	default:
		return hook.Permanent, hook.ClientError
	}
}

func serverClass(status int, usableRetryAfter bool) (hook.Class, hook.Reason) {
	switch status {
	case 501, 505:
		return hook.Permanent, hook.NotSupported
	case 502, 504:
		return hook.Down, hook.Unavailable
	case 503:
		if usableRetryAfter {
			return hook.Throttle, hook.Throttled
		}
		return hook.Down, hook.Unavailable
	default:
		return hook.Retryable, hook.ServerError
	}
}

// errorClass is the built-in meaning of an attempt without a status.
func errorClass(reason hook.Reason) (hook.Class, hook.Reason) {
	switch reason {
	case hook.ConnectRefused, hook.ConnectReset, hook.ConnectTimeout, hook.Unreachable, hook.Timeout,
		hook.TLSHandshake, hook.TLSCertificate, hook.DNSError, hook.DNSNXDomain:
		return hook.Down, reason
	case hook.Protocol:
		return hook.Retryable, reason
	case hook.BlockedAddress:
		return hook.Permanent, reason
	case hook.Interrupted:
		return hook.Local, reason
	default: // LocalError, and those that only an answer has
		return hook.Local, hook.LocalError
	}
}
