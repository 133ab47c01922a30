package words

import (
	"math"
	"strconv"
	"strings"
)

// minus is as wide as a digit, which the hyphen is not.
const minus = "−"

// Integer is any whole number.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Number writes a whole number with commas: 4,012.
func Number[N Integer](n N) string {
	if n < 0 {
		return minus + commas(strconv.FormatInt(int64(n), 10)[1:])
	}
	return commas(strconv.FormatUint(uint64(n), 10))
}

func commas(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// NumberOr writes a number that may not be known.
func NumberOr[N Integer](n *N) string {
	if n == nil {
		return None
	}
	return Number(*n)
}

// AtLeast writes a number that counting may have stopped at.
func AtLeast[N Integer](n N, more bool) string {
	if more {
		return "at least " + Number(n)
	}
	return Number(n)
}

// Count writes how many things there are: 1 delivery, 8,120 deliveries.
func Count[N Integer](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}

// Change writes a difference with its sign: +112, −4,012, 0.
func Change[N Integer](n N) string {
	if n > 0 {
		return "+" + Number(n)
	}
	return Number(n)
}

// Short writes a number in little room: 37,310, then 1.49 M and 2.3 bn.
func Short[N Integer](n N) string {
	f := float64(n)
	switch a := math.Abs(f); {
	case a < 1e6:
		return Number(n)
	case a < 999.5e6:
		return significant(f/1e6) + " M"
	default:
		return significant(f/1e9) + " bn"
	}
}

// Decimal writes a number with so many digits behind the point, all of them
// shown, so that columns line up: 9.40.
func Decimal(f float64, digits int) string {
	if math.IsNaN(f) {
		return None
	}
	if math.IsInf(f, 0) {
		return signed(f < 0, "∞")
	}
	s := strconv.FormatFloat(math.Abs(f), 'f', digits, 64)
	whole, rest, point := strings.Cut(s, ".")
	s = commas(whole)
	if point {
		s += "." + rest
	}
	return signed(f < 0 && strings.ContainsAny(s, "123456789"), s)
}

func signed(negative bool, s string) string {
	if negative {
		return minus + s
	}
	return s
}

// trim writes a number with at most so many digits behind the point.
func trim(f float64, digits int) string {
	s := Decimal(f, digits)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// significant writes a number with about three digits that mean something.
func significant(f float64) string {
	switch a := math.Abs(f); {
	case a < 9.995:
		return trim(f, 2)
	case a < 99.95:
		return trim(f, 1)
	default:
		return trim(f, 0)
	}
}

// Ratio writes retries per first attempt: 0.12, 9.40, 1,204.
func Ratio(r float64) string {
	if r >= 99.995 {
		return Decimal(r, 0)
	}
	return Decimal(r, 2)
}

// Percent writes a percentage: 97.0 %. What is not all is never written as
// 100 %, and what is not nothing never as 0 %.
func Percent(p float64) string {
	switch {
	case math.IsNaN(p) || math.IsInf(p, 0):
		return None
	case p < 0:
		return minus + Percent(-p)
	case p == 0:
		return "0 %"
	case p < 0.01:
		return "< 0.01 %"
	case p < 1:
		return Decimal(p, 2) + " %"
	case p == 100:
		return "100 %"
	case p > 99 && p < 100:
		return Decimal(math.Floor(p*100)/100, 2) + " %"
	default:
		return Decimal(p, 1) + " %"
	}
}

// Share writes a part of a whole, 0 to 1, as a percentage; null: –.
func Share(part *float64) string {
	if part == nil {
		return None
	}
	// Shares of the API have four digits; times 100 must not make 99.70000000000002.
	return Percent(math.Round(*part*1e8) / 1e6)
}

// Rate writes how often something happens: 418/s, 24.1/s, 0.12/s.
func Rate(perSecond float64) string { return PerSecond(perSecond) + ratePart(perSecond) }

func ratePart(perSecond float64) string {
	if math.IsNaN(perSecond) {
		return ""
	}
	return "/s"
}

// PerSecond is Rate without its unit, for where that is said already.
func PerSecond(perSecond float64) string {
	switch a := math.Abs(perSecond); {
	case a > 0 && a < 0.01:
		return "< 0.01"
	case a < 1:
		return trim(perSecond, 2)
	case a < 99.95:
		return trim(perSecond, 1)
	default:
		return trim(perSecond, 0)
	}
}

// RateOr writes a rate that there may not be.
func RateOr(perSecond *float64) string {
	if perSecond == nil {
		return None
	}
	return Rate(*perSecond)
}

// Size writes a number of bytes: 412 B, 1.5 kB, 3.2 GB.
func Size[N Integer](n N) string {
	f := float64(n)
	units := []string{"kB", "MB", "GB", "TB", "PB", "EB"}
	if f < 1000 {
		return Number(n) + " B"
	}
	for i, unit := range units {
		if f /= 1000; f < 999.5 || i == len(units)-1 {
			return significant(f) + " " + unit
		}
	}
	return Number(n) + " B"
}
