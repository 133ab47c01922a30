package mailer

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxAddress bounds an address: RFC 5321 has a path of 256 with its brackets.
const MaxAddress = 254

const (
	maxLocalPart = 64
	maxDomain    = 253
	maxLabel     = 63
	atomChars    = "!#$%&'*+-/=?^_`{|}~"
)

// CheckAddress validates an e-mail address: a bare name@domain in ASCII,
// without quotes, comments or a display name. What is left can become part of no
// command or header but its own. Errors follow the name of a field.
func CheckAddress(s string) error {
	if len(s) > MaxAddress {
		return fmt.Errorf("must be at most %d bytes long", MaxAddress)
	}
	local, domain, ok := strings.Cut(s, "@")
	if !ok {
		return errors.New("must have the form name@domain")
	}
	return cmp.Or(checkLocalPart(local), checkDomain(domain))
}

func checkLocalPart(s string) error {
	if s == "" || len(s) > maxLocalPart {
		return fmt.Errorf("must have 1 to %d characters before the @", maxLocalPart)
	}
	for atom := range strings.SplitSeq(s, ".") {
		if atom == "" || strings.ContainsFunc(atom, func(r rune) bool {
			return !isLetterOrDigit(r) && !strings.ContainsRune(atomChars, r)
		}) {
			return errors.New("may have letters, digits and " + atomChars + " before the @, joined by single dots")
		}
	}
	return nil
}

// checkDomain takes host names only: an address in brackets would name a
// machine past the DNS.
func checkDomain(s string) error {
	if s == "" || len(s) > maxDomain {
		return fmt.Errorf("must have a domain of 1 to %d characters after the @", maxDomain)
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool { return !isLetterOrDigit(r) && r != '-' }) {
			return errors.New("must have a host name after the @, in ASCII (names in other scripts as xn--…)")
		}
	}
	return nil
}

func isLetterOrDigit(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// CheckLine validates text for people that may become part of a header: one
// line of 1 to most characters. Errors follow the name of a field.
func CheckLine(s string, most int) error {
	switch {
	case strings.TrimSpace(s) == "":
		return errors.New("must not be empty")
	case !utf8.ValidString(s):
		return errors.New("must be valid UTF-8")
	case utf8.RuneCountInString(s) > most:
		return fmt.Errorf("must be at most %d characters long", most)
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("must be one line without control characters")
	}
	return nil
}
