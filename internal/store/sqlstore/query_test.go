package sqlstore_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlstore"
)

func TestQueryNumbersItsParameters(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		build func(q *sqlstore.Query)
		sql   string
		args  []any
	}{
		"nothing": {func(*sqlstore.Query) {}, "", nil},
		"conditions": {
			func(q *sqlstore.Query) { q.And("a = ? AND b = ?", 1, "x"); q.And("c IS NULL"); q.And("d = ?", 2) },
			"\n  AND a = $1 AND b = $2\n  AND c IS NULL\n  AND d = $3",
			[]any{1, "x", 2},
		},
		"first page, at least one row": {
			func(q *sqlstore.Query) { q.Page("id", store.Page{}) },
			"\nORDER BY id DESC\nLIMIT $1",
			[]any{1},
		},
		"next page, oldest first": {
			func(q *sqlstore.Query) { q.Page("id", store.Page{Limit: 5, After: 7, Asc: true}) },
			"\n  AND id > $1\nORDER BY id\nLIMIT $2",
			[]any{hook.ID(7), 5},
		},
		"window with one end": {
			func(q *sqlstore.Query) { q.Window("id", since, time.Time{}) },
			"\n  AND id >= $1",
			[]any{hook.IDFloor(since)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var q sqlstore.Query
			tc.build(&q)
			if diff := cmp.Diff(tc.sql, q.SQL); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.args, q.Args); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
			if q.Built() != (len(tc.args) > 0) {
				t.Errorf("Built = %v with %d parameters", q.Built(), len(tc.args))
			}
		})
	}
}

// TestTypeInLeavesNoParameterBehind: a pattern that matches everything adds
// nothing, whatever stands beside it. PostgreSQL refuses a parameter that no
// condition uses.
func TestTypeInLeavesNoParameterBehind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		patterns []string
		sql      string
		args     []any
	}{
		"none":            {nil, "", nil},
		"any":             {[]string{"order.paid", "*"}, "", nil},
		"exact":           {[]string{"order.paid"}, "(t = $1)", []any{"order.paid"}},
		"prefix by runes": {[]string{"größe.*", "b"}, "((length(t) > $1 AND substr(t, 1, $1) = $2) OR t = $3)", []any{6, "größe.", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var q sqlstore.Query
			if got := q.TypeIn("t", tc.patterns); got != tc.sql {
				t.Errorf("TypeIn = %q, want %q", got, tc.sql)
			}
			if diff := cmp.Diff(tc.args, q.Args); diff != "" {
				t.Errorf("parameters (-want +got):\n%s", diff)
			}
		})
	}
}

// TestValuesOfBothDrivers: one driver stores times as microseconds and documents
// as text, the other has types for both.
func TestValuesOfBothDrivers(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 3, 2, 10, 30, 15, 123456000, time.UTC)
	for _, src := range []any{want.UnixMicro(), want.In(time.FixedZone("", 3600))} {
		var got time.Time
		if err := sqlstore.Time(&got).Scan(src); err != nil || got != want {
			t.Errorf("Time of %v = %v, %v, want %v", src, got, err, want)
		}
	}
	for _, src := range []any{`{"a":1}`, []byte(`{"a":1}`)} {
		var got json.RawMessage
		if err := sqlstore.Document(&got).Scan(src); err != nil || string(got) != `{"a":1}` {
			t.Errorf("Document of %v = %s, %v", src, got, err)
		}
	}
	at, d := want, time.Hour
	if err := sqlstore.Time(&at).Scan(nil); err != nil || !at.IsZero() {
		t.Errorf("Time of NULL = %v, %v, want zero", at, err)
	}
	if err := sqlstore.Span(&d, time.Millisecond).Scan(nil); err != nil || d != 0 {
		t.Errorf("Span of NULL = %v, %v, want zero", d, err)
	}
	for name, err := range map[string]error{
		"time":     sqlstore.Time(&at).Scan("now"),
		"span":     sqlstore.Span(&d, time.Second).Scan(1.5),
		"document": sqlstore.Document(&at).Scan(1),
		"hash":     sqlstore.Fixed(make([]byte, 32)).Scan([]byte("short")),
	} {
		if err == nil {
			t.Errorf("%s: a value of the wrong kind was read", name)
		}
	}
}
