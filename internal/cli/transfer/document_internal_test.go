package transfer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDocument: whatever is in a file, reading it ends with a document or with an error
// that names a place; and what was read is the same after it was written.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		"version: 1\n", "version: 1\ntenants: [{uid: a, limits: {x: 1.50}, metadata: {a: 'yes'}, endpoints: [{uid: b, url: u, types: []}]}]",
		"version: 1\npolicies: [&a {name: n, policy: {a: [1, null, true, {b: ~}]}}]", "version: 1\nx: &x [*x]", "a: &a [b]\nc: *a", "version: 1\nalert_channels: [{name: a, kind: b, secret: c, url: d}]",
		"{version: 1, tenants: [{id: ten_1, name: 1}]}", "version: 1\ntenants: [{uid: 2026-01-01, name: 0b11}]", "- 1", "version: 2", "%", "version: 1\ntenants: [{uid: a, metadata: {1: b, true: c}}]",
		"version: 1\npolicies: [{name: a, policy: {b: .nan, c: 1e400, d: 99999999999999999999}}]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		doc, err := readDocument("FILE", bytes.NewReader(raw))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "FILE: ") {
				t.Fatalf("error %q does not name the file", err)
			}
			return
		}
		first := write(t, doc)
		again, err := readDocument("FILE", strings.NewReader(first))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, first)
		}
		if diff := cmp.Diff(first, write(t, again)); diff != "" {
			t.Fatalf("written twice (-first +second):\n%s", diff)
		}
	})
}

func write(t *testing.T, doc document) string {
	t.Helper()
	var b bytes.Buffer
	if err := writeDocument(&b, doc, false); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestTableOfKindsIsSound: what the rest of the package takes for granted.
func TestTableOfKindsIsSound(t *testing.T) {
	t.Parallel()
	var check func(list []*kind)
	check = func(list []*kind) {
		for _, k := range list {
			seen := map[string]bool{}
			for _, name := range k.known() {
				if seen[name] {
					t.Errorf("%s: %s is there twice", k.section, name)
				}
				seen[name] = true
			}
			for _, f := range k.fields {
				if f.usual != nil && !f.form.fits(f.usual) {
					t.Errorf("%s.%s: the usual value is not %s", k.section, f.name, f.form)
				}
			}
			if k.put && !k.byKey {
				t.Errorf("%s: what is written as a whole is found by its key", k.section)
			}
			check(k.within)
		}
	}
	check(kinds)
}

func TestDifferenceIsAMergePatch(t *testing.T) {
	t.Parallel()
	have := object{"a": object{"b": "1", "c": "2"}, "d": "3", "e": []any{"x"}, "same": object{"y": "z"}}
	want := object{"a": object{"b": "1", "c": "4", "n": nil}, "e": []any{"x", "y"}, "same": object{"y": "z"}, "new": true}
	expected := object{"a": object{"c": "4", "n": nil}, "d": nil, "e": []any{"x", "y"}, "new": true}
	if diff := cmp.Diff(any(expected), difference(have, want)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}
