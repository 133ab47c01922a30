package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// reasonError is an error whose reason was known where it happened.
type reasonError struct {
	reason hook.Reason
	err    error
}

func (e *reasonError) Error() string { return e.err.Error() }
func (e *reasonError) Unwrap() error { return e.err }

// ReasonOf returns the reason for an error of this package or of the network
// below it, and 0 for nil. It looks at types and error numbers, never at texts.
// What it does not know is a fault of ours.
func ReasonOf(err error) hook.Reason {
	if err == nil {
		return 0
	}
	if reason := knownReason(err); reason != 0 {
		return reason
	}
	return hook.LocalError
}

// knownReason is ReasonOf with 0 for what it does not know.
func knownReason(err error) hook.Reason {
	if known, ok := errors.AsType[*reasonError](err); ok {
		return known.reason
	}
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case is[*BlockedError](err):
		return hook.BlockedAddress
	case isLocalFault(err):
		return hook.LocalError
	case isCertificateError(err):
		return hook.TLSCertificate
	case isHandshakeError(err):
		return hook.TLSHandshake
	case isDNS && dns.IsNotFound:
		return hook.DNSNXDomain
	case isDNS:
		return hook.DNSError
	case errors.Is(err, context.Canceled):
		return hook.Interrupted
	case isTimeout(err):
		return hook.Timeout
	}
	if reason := brokenReason(err); reason != 0 {
		return reason
	}
	if operation(err) == "dial" {
		return hook.Unreachable // the kernel refused to try this address
	}
	return 0
}

// is reports whether there is an error of type E in err.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// operation names what the network was asked for; "" when that is not known.
func operation(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op
	}
	return ""
}

// brokenReason knows the ways in which a connection breaks.
func brokenReason(err error) hook.Reason {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return hook.ConnectRefused
	case isAny(err, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE):
		return hook.ConnectReset
	case isAny(err, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN):
		return hook.Unreachable
	}
	return 0
}

// isShortage reports that the process or the machine has no descriptor left.
func isShortage(err error) bool { return isAny(err, syscall.EMFILE, syscall.ENFILE) }

// isLocalFault reports faults of this machine or of the operator's proxy.
func isLocalFault(err error) bool {
	return isShortage(err) || isAny(err, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL) || operation(err) == "proxyconnect"
}

func isCertificateError(err error) bool {
	return is[*tls.CertificateVerificationError](err) || is[x509.CertificateInvalidError](err) ||
		is[x509.HostnameError](err) || is[x509.UnknownAuthorityError](err)
}

// isHandshakeError also covers alerts that arrive after the handshake, as TLS
// 1.3 sends them when a client certificate is missing.
func isHandshakeError(err error) bool {
	return is[tls.RecordHeaderError](err) || is[tls.AlertError](err) || operation(err) == "remote error"
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return isAny(err, context.DeadlineExceeded, os.ErrDeadlineExceeded) ||
		errors.As(err, &timeout) && timeout.Timeout()
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// explain gives the error of a round trip its reason. The stage the attempt
// had reached decides where the error alone does not: a deadline says nothing
// about what it cut off.
func (a *attempt) explain(h *hop, err error) error {
	switch {
	case h.caller.Err() != nil:
		return &reasonError{hook.Interrupted, err}
	case is[*reasonError](err):
		return err
	case !a.gotConn && h.late():
		return &reasonError{a.stalledReason(h.client.proxied), err}
	case !a.gotConn && stage(a.stage.Load()) == stageHandshaking:
		return &reasonError{handshakeReason(err), err}
	case !a.gotConn && stage(a.stage.Load()) == stageDialled && isTimeout(err):
		return &reasonError{hook.ConnectTimeout, err} // the proxy's CONNECT
	case a.gotConn && knownReason(err) == 0:
		return &reasonError{a.untypedReason(), err}
	}
	return err
}

// untypedReason is the reason of what the transport has no types for once
// there is a connection: a malformed answer, or a connection that was closed
// before the transport expected an answer.
func (a *attempt) untypedReason() hook.Reason {
	if a.gotByte.Load() == 0 {
		return hook.ConnectReset
	}
	return hook.Protocol
}

// stalledReason is the reason when the attempt's time ran out before it had a
// connection.
func (a *attempt) stalledReason(proxied bool) hook.Reason {
	switch s := stage(a.stage.Load()); {
	case proxied && (s == stageResolving || s == stageConnecting):
		return hook.LocalError
	case s == stageResolving:
		return hook.DNSError
	case s == stageConnecting, s == stageDialled:
		return hook.ConnectTimeout
	case s == stageHandshaking:
		return hook.TLSHandshake
	}
	return hook.LocalError // the connections to this host are taken by others
}

// handshakeReason is the reason of an error during the TLS handshake, where a
// reset or a timeout is a failed handshake as well.
func handshakeReason(err error) hook.Reason {
	switch {
	case isLocalFault(err):
		return hook.LocalError
	case isCertificateError(err):
		return hook.TLSCertificate
	}
	return hook.TLSHandshake
}

// texts are what anybody may read about a failure.
var texts = map[hook.Reason]string{
	hook.ConnectRefused: "connection refused",
	hook.ConnectReset:   "connection closed before an answer",
	hook.ConnectTimeout: "no connection in time",
	hook.Unreachable:    "destination is unreachable",
	hook.Timeout:        "no complete answer in time",
	hook.TLSHandshake:   "TLS handshake failed",
	hook.TLSCertificate: "certificate is not valid",
	hook.DNSError:       "name lookup failed",
	hook.DNSNXDomain:    "name does not exist or has no address",
	hook.Protocol:       "answer is not valid HTTP/1.1",
	hook.BlockedAddress: "destination is not allowed",
	hook.Interrupted:    "interrupted on our side",
	hook.LocalError:     "error on our side",
}

// textOf returns the user-safe text of a failure: no address, port, name or
// time in it.
func textOf(reason hook.Reason, err error) string {
	invalid, _ := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case errors.Is(err, errCalledOff):
		return "called off on our side before the request"
	case errors.Is(err, errNoConnection):
		return "no free connection to the host on our side"
	case reason != hook.TLSCertificate:
	case invalid.Reason == x509.Expired:
		return "certificate has expired or is not valid yet"
	case is[x509.HostnameError](err):
		return "certificate is for another name"
	case is[x509.UnknownAuthorityError](err):
		return "certificate is signed by an unknown authority"
	}
	return texts[reason]
}
