package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

func TestReasonOf(t *testing.T) {
	t.Parallel()
	dial := func(err error) error {
		return fmt.Errorf("connect: %w", &net.OpError{Op: "dial", Net: "tcp4", Err: os.NewSyscallError("connect", err)})
	}
	read := func(err error) error {
		return &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
	}
	for name, tc := range map[string]struct {
		err  error
		want hook.Reason
	}{
		"nil":                   {nil, 0},
		"refused":               {dial(syscall.ECONNREFUSED), hook.ConnectRefused},
		"reset":                 {read(syscall.ECONNRESET), hook.ConnectReset},
		"broken pipe":           {read(syscall.EPIPE), hook.ConnectReset},
		"EOF":                   {fmt.Errorf("x: %w", io.EOF), hook.ConnectReset},
		"unexpected EOF":        {io.ErrUnexpectedEOF, hook.ConnectReset},
		"no route to network":   {dial(syscall.ENETUNREACH), hook.Unreachable},
		"no route to host":      {dial(syscall.EHOSTUNREACH), hook.Unreachable},
		"dial not permitted":    {dial(syscall.EACCES), hook.Unreachable},
		"descriptors":           {dial(syscall.EMFILE), hook.LocalError},
		"descriptors of all":    {dial(syscall.ENFILE), hook.LocalError},
		"local ports":           {dial(syscall.EADDRNOTAVAIL), hook.LocalError},
		"proxy":                 {&net.OpError{Op: "proxyconnect", Err: io.EOF}, hook.LocalError},
		"kernel gave up":        {read(syscall.ETIMEDOUT), hook.Timeout},
		"deadline":              {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, hook.Timeout},
		"context deadline":      {context.DeadlineExceeded, hook.Timeout},
		"cancelled":             {fmt.Errorf("x: %w", context.Canceled), hook.Interrupted},
		"no such host":          {&net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}, hook.DNSNXDomain},
		"DNS timeout":           {&net.DNSError{IsTimeout: true}, hook.DNSError},
		"server misbehaving":    {&net.DNSError{Err: "server misbehaving", IsTemporary: true}, hook.DNSError},
		"unverified":            {&tls.CertificateVerificationError{Err: errors.New("x")}, hook.TLSCertificate},
		"unknown authority":     {x509.UnknownAuthorityError{}, hook.TLSCertificate},
		"wrong name":            {x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}, hook.TLSCertificate},
		"expired":               {x509.CertificateInvalidError{Reason: x509.Expired}, hook.TLSCertificate},
		"not TLS":               {tls.RecordHeaderError{Msg: "x"}, hook.TLSHandshake},
		"alert":                 {&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, hook.TLSHandshake},
		"blocked":               {&net.OpError{Op: "dial", Err: &egress.BlockedError{Rule: "x"}}, hook.BlockedAddress},
		"whatever it may be":    {errors.New("odd"), hook.LocalError},
		"text is not a reason":  {errors.New("connection refused"), hook.LocalError},
		"refused in other text": {fmt.Errorf("EOF: %w", syscall.ECONNREFUSED), hook.ConnectRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := egress.ReasonOf(tc.err); got != tc.want {
				t.Errorf("ReasonOf(%v) = %v, want %v", tc.err, got, tc.want)
			}
		})
	}
}
