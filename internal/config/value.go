package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// value is the type of a setting: how its text is read into its place and
// written back.
type value struct {
	// parse checks text and stores it. Errors state the rule; they never repeat
	// the value, which may be a secret.
	parse func(text string) error
	show  func() string
	word  string // stands for the value in help texts; empty for switches
	rule  string // bounds, for the documentation; may be empty
	list  bool   // may be given several times
}

// into stores what read makes of a text.
func into[T any](to *T, read func(string) (T, error)) func(string) error {
	return func(text string) error {
		v, err := read(text)
		if err != nil {
			return err
		}
		*to = v
		return nil
	}
}

// between is an ordered value within bounds.
func between[T cmp.Ordered](to *T, lo, hi T, word string, read func(string) (T, error), write func(T) string) value {
	rule := write(lo) + " to " + write(hi)
	return value{
		word: word, rule: rule,
		show: func() string { return write(*to) },
		parse: into(to, func(text string) (T, error) {
			n, err := read(text)
			if err == nil && (n < lo || n > hi) {
				err = errors.New("must be " + rule)
			}
			return n, err
		}),
	}
}

func whole[T int | int64](to *T, lo, hi T) value {
	return between(to, lo, hi, "number", integer[T](quantity.ParseWhole), func(n T) string { return strconv.FormatInt(int64(n), 10) })
}

func size[T int | int64](to *T, lo, hi T) value {
	return between(to, lo, hi, "size", integer[T](quantity.ParseSize), func(n T) string { return quantity.FormatSize(int64(n)) })
}

func integer[T int | int64](read func(string) (int64, error)) func(string) (T, error) {
	return func(s string) (T, error) {
		n, err := read(s)
		return T(n), err
	}
}

func number(to *float64, lo, hi float64) value {
	return between(to, lo, hi, "number", quantity.ParseNumber, quantity.FormatNumber)
}

func span(to *time.Duration, lo, hi time.Duration) value {
	return between(to, lo, hi, "duration", quantity.ParseDuration, quantity.FormatDuration)
}

// text is a string that passes check.
func text(to *string, word, rule string, check func(string) error) value {
	return value{
		word: word, rule: rule,
		show:  func() string { return *to },
		parse: into(to, func(s string) (string, error) { return s, check(s) }),
	}
}

// oneOf is a word of a closed list.
func oneOf(to *string, word string, words ...string) value {
	rule := strings.Join(words, ", ")
	return text(to, word, rule, func(s string) error {
		if !slices.Contains(words, s) {
			return errors.New("must be one of " + rule)
		}
		return nil
	})
}

// toggle is a yes or no.
func toggle(to *bool) value {
	return value{
		show: func() string { return strconv.FormatBool(*to) },
		parse: into(to, func(s string) (bool, error) {
			b, err := strconv.ParseBool(s)
			if err != nil {
				return false, errors.New("must be true or false")
			}
			return b, nil
		}),
	}
}

// logLevel is the only setting of its type.
func logLevel(to *slog.Level) value {
	const rule = "debug, info, warn, error"
	return value{
		word: "level", rule: rule,
		show: func() string { return strings.ToLower(to.String()) },
		parse: into(to, func(s string) (slog.Level, error) {
			levels := map[string]slog.Level{
				"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
			}
			level, ok := levels[s]
			if !ok {
				return level, errors.New("must be one of " + rule)
			}
			return level, nil
		}),
	}
}

// many is a list, separated by commas or given several times.
func many[T any](to *[]T, word, rule string, read func(string) (T, error), write func(T) string) value {
	return value{
		word: word, rule: rule, list: true,
		show: func() string {
			items := make([]string, len(*to))
			for i, t := range *to {
				items[i] = write(t)
			}
			return strings.Join(items, ",")
		},
		parse: into(to, func(s string) (out []T, err error) {
			for item := range strings.SplitSeq(s, ",") {
				item = strings.TrimSpace(item)
				if item == "" {
					continue
				}
				t, err := read(item)
				if err != nil {
					return nil, err
				}
				out = append(out, t)
			}
			if len(out) == 0 {
				return nil, fmt.Errorf("must be a comma-separated list: %s", rule)
			}
			return out, nil
		}),
	}
}

func prefixes(to *[]netip.Prefix) value {
	return many(to, "cidr,…", "CIDR blocks such as 10.0.0.0/8", parsePrefix, netip.Prefix.String)
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

func ports(to *[]uint16) value {
	return many(to, "port,…", "ports between 1 and 65535", parsePort, func(p uint16) string { return strconv.Itoa(int(p)) })
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a port between 1 and 65535", s)
	}
	return uint16(n), nil
}
