package sqlstore

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// In the database NULL stands for a zero value: not yet, none, unknown.

// OrNull stores the zero value as NULL.
func OrNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// BytesOrNull stores no bytes as NULL.
func BytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

// document is v as it is stored; empty when there is nothing in it.
func document(v any, empty string) (json.RawMessage, error) {
	out, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	if string(out) == "null" {
		return json.RawMessage(empty), nil
	}
	return out, nil
}

// raw is a document that is one already.
func raw(doc []byte) json.RawMessage {
	if len(doc) == 0 {
		return json.RawMessage("{}")
	}
	return doc
}

// scanner turns one column into a value; NULL comes as nil.
type scanner func(src any) error

// Scan implements sql.Scanner.
func (s scanner) Scan(src any) error { return s(src) }

// Time reads a moment, which is a time to one driver and microseconds to
// another.
func Time(t *time.Time) sql.Scanner {
	return scanner(func(src any) error {
		switch v := src.(type) {
		case nil:
			*t = time.Time{}
		case int64:
			*t = time.UnixMicro(v).UTC()
		case time.Time:
			*t = v.UTC()
		default:
			return fmt.Errorf("time is a %T", src)
		}
		return nil
	})
}

// Span reads a duration that was stored in the given unit.
func Span(d *time.Duration, unit time.Duration) sql.Scanner {
	return scanner(func(src any) error {
		n, ok := src.(int64)
		if !ok && src != nil {
			return fmt.Errorf("duration is a %T", src)
		}
		*d = time.Duration(n) * unit
		return nil
	})
}

// Document reads JSON, NULL as nothing.
func Document(v any) sql.Scanner {
	return scanner(func(src any) error {
		switch text := src.(type) {
		case nil:
			return nil
		case string:
			return json.Unmarshal([]byte(text), v)
		case []byte:
			return json.Unmarshal(text, v)
		default:
			return fmt.Errorf("document is a %T", src)
		}
	})
}

// Fixed reads a blob of a fixed length.
func Fixed(dst []byte) sql.Scanner {
	return scanner(func(src any) error {
		b, ok := src.([]byte)
		if !ok || len(b) != len(dst) {
			return fmt.Errorf("blob is a %T of %d bytes, want %d", src, len(b), len(dst))
		}
		copy(dst, b)
		return nil
	})
}
