package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// stamp is a time as it is stored: microseconds, NULL for the zero time.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// orNull stores the zero value as NULL.
func orNull[T interface{ ~int | ~int64 | ~uint8 }](v T) any {
	if v == 0 {
		return nil
	}
	return int64(v)
}

// textOrNull stores the empty string as NULL.
func textOrNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// blobOrNull stores no bytes as NULL.
func blobOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// jsonText is a document as it is stored; empty when there is nothing in it.
func jsonText(v any, empty string) (string, error) {
	out, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode document: %w", err)
	}
	if string(out) == "null" {
		return empty, nil
	}
	return string(out), nil
}

func rawText(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	return string(raw)
}

// scanner turns one column into a value; NULL comes as nil.
type scanner func(src any) error

// Scan implements sql.Scanner.
func (s scanner) Scan(src any) error { return s(src) }

// when reads a time.
func when(t *time.Time) sql.Scanner {
	return scanner(func(src any) error {
		*t = time.Time{}
		if src == nil {
			return nil
		}
		us, ok := src.(int64)
		if !ok {
			return fmt.Errorf("time is a %T", src)
		}
		*t = time.UnixMicro(us).UTC()
		return nil
	})
}

// span reads a duration that was stored in the given unit.
func span(d *time.Duration, unit time.Duration) sql.Scanner {
	return scanner(func(src any) error {
		n, ok := src.(int64)
		if !ok && src != nil {
			return fmt.Errorf("duration is a %T", src)
		}
		*d = time.Duration(n) * unit
		return nil
	})
}

// number reads an integer, NULL as 0.
func number[T interface{ ~int | ~int64 | ~uint8 }](v *T) sql.Scanner {
	return scanner(func(src any) error {
		n, ok := src.(int64)
		if !ok && src != nil {
			return fmt.Errorf("number is a %T", src)
		}
		*v = T(n)
		return nil
	})
}

// text reads a string, NULL as empty.
func text(s *string) sql.Scanner {
	return scanner(func(src any) error {
		v, ok := src.(string)
		if !ok && src != nil {
			return fmt.Errorf("text is a %T", src)
		}
		*s = v
		return nil
	})
}

// document reads JSON, NULL as nothing.
func document(v any) sql.Scanner {
	return scanner(func(src any) error {
		s, ok := src.(string)
		if !ok {
			if src == nil {
				return nil
			}
			return fmt.Errorf("document is a %T", src)
		}
		return json.Unmarshal([]byte(s), v)
	})
}

// fixed reads a blob of a fixed length.
func fixed(dst []byte) sql.Scanner {
	return scanner(func(src any) error {
		b, ok := src.([]byte)
		if !ok || len(b) != len(dst) {
			return fmt.Errorf("blob is a %T of %d bytes, want %d", src, len(b), len(dst))
		}
		copy(dst, b)
		return nil
	})
}

// idList is a list of numbers as one parameter, for json_each.
func idList[T hook.ID | int | hook.DeliveryState | hook.EndReason | hook.ReplayState](ids []T) string {
	list := make([]int64, len(ids)) // a slice of uint8 would become base64
	for i, id := range ids {
		list[i] = int64(id)
	}
	out, _ := json.Marshal(list) // numbers always encode
	return string(out)
}
