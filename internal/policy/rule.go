package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// rule says what one leaf may hold.
type rule interface {
	// read turns a JSON value into a setting, or says what is wrong with it.
	read(raw json.RawMessage) (any, []string)
}

// wholeRule accepts whole numbers within bounds.
type wholeRule struct{ low, high int }

func whole(low, high int) wholeRule { return wholeRule{low, high} }

func (r wholeRule) read(raw json.RawMessage) (any, []string) {
	f, ok := readNumber(raw)
	switch {
	case !ok || !math.IsInf(f, 0) && f != math.Trunc(f):
		return nil, []string{"must be a whole number"}
	case f < float64(r.low) || f > float64(r.high):
		return nil, []string{fmt.Sprintf("must be between %d and %d", r.low, r.high)}
	}
	return int(f), nil
}

// numberRule accepts numbers within bounds.
type numberRule struct {
	low, high float64
	openLow   bool // low itself is excluded
	message   string
}

func number(low, high float64) numberRule {
	return numberRule{low: low, high: high, message: "must be between " + quantity.FormatNumber(low) + " and " + quantity.FormatNumber(high)}
}

func aboveZero(high float64) numberRule {
	return numberRule{high: high, openLow: true, message: "must be above 0 and at most " + quantity.FormatNumber(high)}
}

// factor is the rule of both ends of a jitter range.
var factor = numberRule{high: 2, message: badRange}

const badRange = "low must be below high; both within 0..2"

func (r numberRule) read(raw json.RawMessage) (any, []string) {
	f, ok := readNumber(raw)
	if !ok {
		return nil, []string{"must be a number"}
	}
	if f < r.low || f > r.high || r.openLow && f == r.low {
		return nil, []string{r.message}
	}
	return math.Abs(f), nil // no rule allows negative numbers; -0 becomes a plain zero
}

// readNumber reads a JSON number. One too great for a float64 is infinite, and
// so beyond every bound.
func readNumber(raw json.RawMessage) (float64, bool) {
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

// durationRule accepts durations within bounds, to the millisecond.
type durationRule struct {
	low, high time.Duration
	orZero    bool
	message   string
}

func span(low, high time.Duration) durationRule {
	return durationRule{low: low, high: high, message: "must be " + quantity.Between(low, high)}
}

func zeroOr(low, high time.Duration) durationRule {
	return durationRule{low: low, high: high, orZero: true, message: "must be 0 or " + quantity.Between(low, high)}
}

func (r durationRule) read(raw json.RawMessage) (any, []string) {
	d, message := r.duration(raw)
	if message != "" {
		return nil, []string{message}
	}
	return d, nil
}

func (r durationRule) duration(raw json.RawMessage) (time.Duration, string) {
	text, ok := readString(raw)
	if !ok {
		return 0, quantity.ErrDuration.Error()
	}
	d, err := quantity.ParseDuration(text)
	switch {
	case err != nil:
		return 0, quantity.ErrDuration.Error()
	case r.orZero && d == 0:
		return 0, ""
	case d < r.low || d > r.high:
		return 0, r.message
	case d%tick != 0:
		return 0, "must be whole milliseconds"
	}
	return d, ""
}

// delays accepts a list of durations.
type delays struct {
	item durationRule
	most int
}

func (r delays) read(raw json.RawMessage) (any, []string) {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil, []string{"must be a list of durations"}
	}
	if len(items) < 1 || len(items) > r.most {
		return nil, []string{r.sizeMessage()}
	}
	list := make([]time.Duration, len(items))
	var wrong []string
	for i, item := range items {
		d, message := r.item.duration(item)
		if message != "" {
			wrong = append(wrong, fmt.Sprintf("item %d: %s", i+1, message))
		}
		list[i] = d
	}
	return list, wrong
}

func (r delays) sizeMessage() string { return fmt.Sprintf("must hold 1 to %d delays", r.most) }

// flag accepts true and false.
type flag struct{}

func (flag) read(raw json.RawMessage) (any, []string) {
	switch string(raw) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, []string{"must be true or false"}
}

// words accepts one of a few words.
type words []string

func oneOf(list ...string) words { return list }

func (r words) read(raw json.RawMessage) (any, []string) {
	if text, ok := readString(raw); ok && slices.Contains(r, text) {
		return text, nil
	}
	if len(r) == 2 {
		return nil, []string{"must be " + r[0] + " or " + r[1]}
	}
	return nil, []string{"must be one of " + strings.Join(r, ", ")}
}

// action accepts what may be made of an error.
type action struct{ allowed []Action }

func (r action) read(raw json.RawMessage) (any, []string) {
	text, ok := readString(raw)
	if !ok {
		return nil, []string{"must be an action"}
	}
	if !slices.Contains(r.allowed, Action(text)) {
		return nil, []string{"unknown action " + strconv.Quote(text)}
	}
	return text, nil
}

// statusAction accepts what may be made of a status. Success cannot be claimed
// for a whole class, nor for an answer that says the server failed.
type statusAction struct{ key string }

var statusActions = action{allowed: []Action{ActionRetry, ActionDown, ActionThrottle, ActionPermanent, ActionSuccess}}

func (r statusAction) read(raw json.RawMessage) (any, []string) {
	text, wrong := statusActions.read(raw)
	if wrong != nil || text != string(ActionSuccess) {
		return text, wrong
	}
	class := r.key[0]
	if class == '1' || class == '5' || !isDigits(r.key) {
		return nil, []string{string(class) + "xx cannot be success"}
	}
	return text, nil
}

func readString(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
