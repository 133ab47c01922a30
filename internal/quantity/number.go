package quantity

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

var (
	errWhole  = errors.New("must be a whole number")
	errNumber = errors.New("must be a number")
)

// ParseWhole reads a whole number; underscores may part its digits.
func ParseWhole(s string) (int64, error) {
	n, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if err != nil {
		return 0, errWhole
	}
	return n, nil
}

// ParseNumber reads a finite number.
func ParseNumber(s string) (float64, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, errNumber
	}
	return n, nil
}

// FormatNumber writes n without an exponent.
func FormatNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// FormatCount writes n with a comma between thousands.
func FormatCount(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
