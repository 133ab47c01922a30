package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var (
	errDuration = errors.New("must be a duration such as 30s, 6h or 7d")
	errSize     = errors.New("must be a size such as 64 KiB or 1 MiB")
)

// maxDays keeps days within time.Duration.
const maxDays = 100_000

// ParseDuration reads Go's syntax and whole days ("7d"). Bare numbers are
// refused: they hide their unit.
func ParseDuration(s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > maxDays {
			return 0, errDuration
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || s == "0" {
		return 0, errDuration
	}
	return d, nil
}

// formatDuration writes d the way people write it: 7d, 1h30m, 15s.
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"B", 1},
}

// parseSize reads a whole number of bytes with a binary unit: "1 MiB",
// "512MiB", "0". Other numbers need a unit.
func parseSize(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
		if err != nil || int64(n) > math.MaxInt64/u.bytes {
			return 0, errSize
		}
		return int64(n) * u.bytes, nil
	}
	return 0, errSize
}

func formatSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprintf("%d %s", n/u.bytes, u.suffix)
		}
	}
	return strconv.FormatInt(n, 10)
}

func parseWhole(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil {
		return 0, errors.New("must be a whole number")
	}
	return n, nil
}

func formatWhole(n int64) string { return strconv.FormatInt(n, 10) }

func parseNumber(s string) (float64, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, errors.New("must be a number")
	}
	return n, nil
}

func formatNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
