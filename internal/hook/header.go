package hook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Limits of custom headers, in bytes.
const (
	MaxHeaderName  = 128
	MaxHeaderValue = 4096
)

// Reasons to refuse a header; both are wrapped with the rule that was broken.
var (
	ErrHeaderReserved  = errors.New("header name is reserved")
	ErrHeaderMalformed = errors.New("header is malformed")
)

// reservedHeaders are set by Breakwater itself or belong to the connection.
// The two idempotency headers would make the HTTP client send a request again
// on its own, behind the back of the attempt count.
var reservedHeaders = []string{
	"accept-encoding", "connection", "content-length", "content-type", "expect", "host",
	"idempotency-key", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
	"user-agent", "x-idempotency-key",
}

var reservedHeaderPrefixes = []string{"breakwater-", "proxy-", "webhook-"}

// CheckHeader validates a custom header of an endpoint. Its errors never hold
// the value, which may be a credential.
func CheckHeader(name, value string) error {
	if err := CheckHeaderName(name); err != nil {
		return err
	}
	return checkHeaderValue(value)
}

// CheckHeaderName validates the name of a custom header, or of the one under
// which an endpoint gets the Stripe-style signature. webhook-signature is
// reserved like all webhook-* names: two formats under one name would break
// every verifier.
func CheckHeaderName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: the name is empty", ErrHeaderMalformed)
	case len(name) > MaxHeaderName:
		return fmt.Errorf("%w: the name is longer than %d bytes", ErrHeaderMalformed, MaxHeaderName)
	case strings.ContainsFunc(name, notTokenChar):
		return fmt.Errorf("%w: the name may hold letters, digits and !#$%%&'*+-.^_`|~ only", ErrHeaderMalformed)
	}
	lower := strings.ToLower(name)
	if slices.Contains(reservedHeaders, lower) {
		return fmt.Errorf("%w: %s", ErrHeaderReserved, lower)
	}
	for _, p := range reservedHeaderPrefixes {
		if strings.HasPrefix(lower, p) {
			return fmt.Errorf("%w: %s*", ErrHeaderReserved, p)
		}
	}
	return nil
}

// checkHeaderValue goes by bytes, not runes: what matters is what is written
// on the wire. Bytes from 0x80 are allowed, as in HTTP itself.
func checkHeaderValue(value string) error {
	if len(value) > MaxHeaderValue {
		return fmt.Errorf("%w: the value is longer than %d bytes", ErrHeaderMalformed, MaxHeaderValue)
	}
	for i := range len(value) {
		if c := value[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return fmt.Errorf("%w: the value holds a line break or another control character", ErrHeaderMalformed)
		}
	}
	return nil
}

// notTokenChar reports whether r may not be part of a header name (a "token"
// of RFC 9110).
func notTokenChar(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	default:
		return !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}
}
