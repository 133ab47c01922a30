package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// value is the type of a setting: how its text is read into a Config and
// written back.
type value interface {
	// parse checks text and stores it. Errors state the rule; they never
	// repeat the value, which may be a secret.
	parse(c *Config, text string) error
	show(c *Config) string
	// placeholder is the word for the value in help texts; empty for switches.
	placeholder() string
	// bounds states the rule for the documentation, or is empty.
	bounds() string
}

// between is an ordered value within bounds. Field says where it goes.
type between[T cmp.Ordered] struct {
	field  func(*Config) *T
	lo, hi T
	read   func(string) (T, error)
	write  func(T) string
	word   string
}

func (v between[T]) parse(c *Config, text string) error {
	n, err := v.read(text)
	if err != nil {
		return err
	}
	if n < v.lo || n > v.hi {
		return fmt.Errorf("must be %s", v.bounds())
	}
	*v.field(c) = n
	return nil
}

func (v between[T]) show(c *Config) string { return v.write(*v.field(c)) }
func (v between[T]) placeholder() string   { return v.word }
func (v between[T]) bounds() string        { return v.write(v.lo) + " to " + v.write(v.hi) }

func whole(field func(*Config) *int, lo, hi int) value {
	return between[int]{
		field: field, lo: lo, hi: hi, word: "number",
		read: func(s string) (int, error) {
			n, err := quantity.ParseWhole(s)
			return int(n), err
		},
		write: strconv.Itoa,
	}
}

func whole64(field func(*Config) *int64, lo, hi int64) value {
	return between[int64]{field: field, lo: lo, hi: hi, read: quantity.ParseWhole, write: formatWhole, word: "number"}
}

func formatWhole(n int64) string { return strconv.FormatInt(n, 10) }

func number(field func(*Config) *float64, lo, hi float64) value {
	return between[float64]{field: field, lo: lo, hi: hi, read: quantity.ParseNumber, write: quantity.FormatNumber, word: "number"}
}

func size(field func(*Config) *int64, lo, hi int64) value {
	return between[int64]{field: field, lo: lo, hi: hi, read: quantity.ParseSize, write: quantity.FormatSize, word: "size"}
}

func smallSize(field func(*Config) *int, lo, hi int) value {
	return between[int]{
		field: field, lo: lo, hi: hi, word: "size",
		read: func(s string) (int, error) {
			n, err := quantity.ParseSize(s)
			return int(n), err
		},
		write: func(n int) string { return quantity.FormatSize(int64(n)) },
	}
}

func span(field func(*Config) *time.Duration, lo, hi time.Duration) value {
	return between[time.Duration]{
		field: field, lo: lo, hi: hi, read: quantity.ParseDuration, write: quantity.FormatDuration, word: "duration",
	}
}

// text is a string that passes check; nil means anything goes.
type text struct {
	field func(*Config) *string
	check func(string) error
	word  string
	rule  string
}

func (v text) parse(c *Config, s string) error {
	if v.check != nil {
		if err := v.check(s); err != nil {
			return err
		}
	}
	*v.field(c) = s
	return nil
}

func (v text) show(c *Config) string { return *v.field(c) }
func (v text) placeholder() string   { return cmp.Or(v.word, "text") }
func (v text) bounds() string        { return v.rule }

// toggle is a yes or no.
type toggle struct{ field func(*Config) *bool }

func (v toggle) parse(c *Config, s string) error {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("must be true or false")
	}
	*v.field(c) = b
	return nil
}

func (v toggle) show(c *Config) string { return strconv.FormatBool(*v.field(c)) }
func (v toggle) placeholder() string   { return "" }
func (v toggle) bounds() string        { return "" }

// many is a list, separated by commas or given several times.
type many[T any] struct {
	field func(*Config) *[]T
	read  func(string) (T, error)
	write func(T) string
	word  string
	rule  string
}

func (v many[T]) parse(c *Config, s string) error {
	var out []T
	for item := range strings.SplitSeq(s, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		t, err := v.read(item)
		if err != nil {
			return err
		}
		out = append(out, t)
	}
	if len(out) == 0 {
		return fmt.Errorf("must be a comma-separated list: %s", v.rule)
	}
	*v.field(c) = out
	return nil
}

func (v many[T]) show(c *Config) string {
	items := make([]string, len(*v.field(c)))
	for i, t := range *v.field(c) {
		items[i] = v.write(t)
	}
	return strings.Join(items, ",")
}
func (v many[T]) placeholder() string { return v.word }
func (v many[T]) bounds() string      { return v.rule }

// isList marks the types whose flags may be repeated.
func (v many[T]) isList() {}

func prefixes(field func(*Config) *[]netip.Prefix) value {
	return many[netip.Prefix]{
		field: field, read: parsePrefix, write: netip.Prefix.String,
		word: "cidr,…", rule: "CIDR blocks such as 10.0.0.0/8",
	}
}

// parsePrefix reads a CIDR block. A single address stands for itself; host
// bits are refused, because they usually mean a wrong mask.
func parsePrefix(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a CIDR block such as 10.0.0.0/8", s)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q has host bits set; the block is %s", s, p.Masked())
	}
	return p, nil
}

func ports(field func(*Config) *[]uint16) value {
	return many[uint16]{
		field: field,
		read: func(s string) (uint16, error) {
			n, err := strconv.ParseUint(s, 10, 16)
			if err != nil || n == 0 {
				return 0, fmt.Errorf("%q is not a port between 1 and 65535", s)
			}
			return uint16(n), nil
		},
		write: func(p uint16) string { return strconv.Itoa(int(p)) },
		word:  "port,…", rule: "ports between 1 and 65535",
	}
}

// oneOf returns a check for a closed list of words.
func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
	}
}
