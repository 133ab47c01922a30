package alert

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// number writes a whole number with commas: 8,120.
func number[N ~int | ~int64 | ~uint64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// of writes how many things there are: "1 delivery", "8,120 deliveries".
func of[N ~int | ~int64 | ~uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// share writes a percentage with as many digits as tell something.
func share(percent float64) string {
	digits := 1
	if percent < 1 || percent > 99 && percent < 100 {
		digits = 2
	}
	return decimal(percent, digits) + " %"
}

func decimal(v float64, digits int) string {
	scale := math.Pow10(digits)
	return quantity.FormatNumber(math.Round(v*scale) / scale)
}

// lasted writes a duration as roughly as people say it.
func lasted(d time.Duration) string {
	switch {
	case d < time.Second:
		d = d.Round(time.Millisecond)
	case d < 10*time.Minute:
		d = d.Round(time.Second)
	default:
		d = d.Round(time.Minute)
	}
	return quantity.FormatDuration(d)
}

// who names the subject.
func (r *Reading) who() string {
	switch {
	case r.Name != "":
		return r.Name
	case r.Subject.Endpoint != 0:
		return hook.EndpointPrefix.Format(r.Subject.Endpoint)
	case r.Subject.Tenant != 0:
		return hook.TenantPrefix.Format(r.Subject.Tenant)
	default:
		return "All endpoints"
	}
}

// answered tells how the last attempt ended.
func (l *Lane) answered() string {
	switch {
	case l.LastStatus != 0 && l.LastError != "":
		return fmt.Sprintf("status %d, %s", l.LastStatus, l.LastError)
	case l.LastStatus != 0:
		return fmt.Sprintf("status %d", l.LastStatus)
	case l.LastError != "":
		return l.LastError
	default:
		return "no answer"
	}
}

// clip bounds a list of names for a sentence.
func clip(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + number(len(names)-most) + " more"
}
