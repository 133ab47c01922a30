// Package view is what the API shows of the nouns: the shapes of its JSON, and
// how they are filled in.
//
// It is pure: it reads no store and no clock, and knows no request. Secrets and
// the values of headers are in none of its shapes.
package view

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Stamp is a time as the API shows it: RFC 3339, UTC, milliseconds, and null
// for "not yet".
type Stamp time.Time

const stampFormat = "2006-01-02T15:04:05.000Z"

// UnmarshalJSON implements json.Unmarshaler, for clients.
func (s *Stamp) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*time.Time)(s)) }

// MarshalJSON implements json.Marshaler.
func (s Stamp) MarshalJSON() ([]byte, error) {
	t := time.Time(s)
	if t.IsZero() {
		return []byte("null"), nil
	}
	return t.UTC().AppendFormat(nil, `"`+stampFormat+`"`), nil
}

// Schema describes a Stamp to huma.
func (Stamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time", Nullable: true}
}

// Millis shows a duration in milliseconds.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Rounded shows a number to people: three decimals, or four digits of a small one.
// How it was computed is nobody's concern.
func Rounded(f float64) float64 {
	size := math.Abs(f)
	if size == 0 || math.IsInf(f, 0) || math.IsNaN(f) {
		return f
	}
	if size >= 1 {
		return math.Round(f*1e3) / 1e3
	}
	part := math.Pow(10, 3-math.Floor(math.Log10(size)))
	return math.Round(f*part) / part
}

// Nullable shows an empty text as null.
func Nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// EmptyObject is how an absent level of policy is stored and shown.
var EmptyObject = json.RawMessage("{}")

// OrEmpty shows an absent object as an empty one.
func OrEmpty(p json.RawMessage) json.RawMessage {
	if len(p) == 0 {
		return EmptyObject
	}
	return p
}

// OrEmptyMap shows no map as an empty one.
func OrEmptyMap[M ~map[string]V, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}

// Hash shows the hash of a policy.
func Hash(h hook.PolicyHash) string { return hex.EncodeToString(h[:]) }

// IDOrNull shows an id, null for none.
func IDOrNull(p hook.Prefix, id hook.ID) *string {
	if id == 0 {
		return nil
	}
	return Nullable(p.Format(id))
}
