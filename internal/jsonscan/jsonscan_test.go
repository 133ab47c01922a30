package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/breakwaterhq/breakwater/internal/jsonscan"
)

// order1KiB and text1KiB are values of 1 KiB: many small members, and one large
// one.
var (
	order1KiB = `{"n":"0000000000000042","items":[` +
		strings.TrimSuffix(strings.Repeat(`{"sku":"abcdEFGH0123","count":42,"price":"19.95"},`, 19), ",") + `],"pad":"xxxxxxxxx"}`
	text1KiB = `{"id":"` + strings.Repeat("x", 1015) + `"}`
)

// jsonSeeds are values and near misses of every rule of the grammar.
var jsonSeeds = []string{
	``, ` `, `1`, ` 1 `, `1 2`, `-`, `-0`, `01`, `-01`, `0.`, `.5`, `0.5`, `1e`, `1e+`, `1E-07`, `-0.0e-1`, `1.e3`, `+1`, `0x1`,
	`true`, `tru`, `truex`, `false`, `fals`, `null`, `nul`, `NULL`, `nan`,
	`""`, `"`, `"a`, `"\"`, `"\\"`, `"\""`, `"\b\f\n\r\t\/"`, `"\x"`, `"\u12aF"`, `"\u12a"`, `"\u12ag"`, `"\ud800"`, `"\u`, "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"",
	"\"a\nb\"", `'a'`, "\x00", "1\x00", "[\x00]", "\ufeff1",
	`[]`, `[ ]`, `[`, `]`, `[1]`, `[1,]`, `[,1]`, `[,]`, `[1 2]`, `[1,2]`, `[1}`, `[[]`, `[[]]`, `[]]`, `[[],[]]`,
	`{}`, `{ }`, `{`, `}`, `{"a"}`, `{"a":}`, `{"a":1}`, `{"a":1,}`, `{,"a":1}`, `{"a":1 "b":2}`, `{"a" : 1 , "b":{}}`, `{a:1}`, `{1:1}`, `{"a":1]`, `{"a":[}`, `{"a",1}`, `{"a"::1}`,
	`{"a":{"b":[1,"]}",{"c":null}]}}`, "\t\r\n{\t}\r\n", "\v1", "\u00a01",
}

// verdicts is what a test needs to fail, rapid's included.
type verdicts interface {
	Helper()
	Fatalf(format string, args ...any)
}

// sameVerdict compares ours with that of encoding/json: about any value, and
// about objects with the raw values of their members.
func sameVerdict(t verdicts, data []byte) {
	t.Helper()
	data = slices.Clip(data) // reading past the end shall not go unnoticed
	want := json.Valid(data)
	if got := jsonscan.Valid(data); got != want {
		t.Fatalf("Valid(%.200q) = %v, encoding/json says %v", data, got, want)
	}
	object := want && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	list, ok := jsonscan.AppendMembers(nil, data, math.MaxInt)
	if ok != object {
		t.Fatalf("members of %.200q: %v, encoding/json says %v", data, ok, object)
	}
	if !ok {
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		t.Fatalf("%.200q: %v", data, err)
	}
	got := make(map[string][]byte, len(list))
	for _, m := range list {
		got[m.Name] = m.Value
	}
	same := func(a []byte, b json.RawMessage) bool { return bytes.Equal(a, b) }
	if !maps.EqualFunc(got, members, same) {
		t.Fatalf("members of %.200q: %q, encoding/json says %q", data, got, members)
	}
}

// FuzzValid compares our verdict with that of encoding/json.
func FuzzValid(f *testing.F) {
	for _, seed := range jsonSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { sameVerdict(t, data) })
}

// TestValidNearMisses breaks every seed at every place in many ways.
func TestValidNearMisses(t *testing.T) {
	t.Parallel()
	for _, seed := range jsonSeeds {
		for i := range len(seed) + 1 {
			sameVerdict(t, []byte(seed[:i]))
			for c := range 256 {
				sameVerdict(t, []byte(seed[:i]+string([]byte{byte(c)})+seed[i:]))
			}
			if i < len(seed) {
				sameVerdict(t, []byte(seed[:i]+seed[i+1:]))
			}
		}
	}
}

// TestValidTokens joins tokens at random: what comes out is often valid and
// otherwise nearly so.
func TestValidTokens(t *testing.T) {
	t.Parallel()
	tokens := rapid.SliceOfN(rapid.SampledFrom([]string{
		"{", "}", "[", "]", ",", ":", " ", "\n", `"a"`, `"\u00e9"`, `"`, `\`, "0", "-1", "1.5e3", "true", "null", "x", "{}", "[]", `"k":1`,
	}), 0, 12)
	rapid.Check(t, func(t *rapid.T) { sameVerdict(t, []byte(strings.Join(tokens.Draw(t, "tokens"), ""))) })
}

// TestValidDepth: what is nested deeper than encoding/json allows could not
// be read later.
func TestValidDepth(t *testing.T) {
	t.Parallel()
	const limit = 10_000
	for _, depth := range []int{1, 63, 64, 65, limit - 1, limit, limit + 1, limit + 2} {
		for _, pair := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
			for _, inside := range []string{"", "1", "[]", "{}"} {
				sameVerdict(t, []byte(strings.Repeat(pair[0], depth)+inside+strings.Repeat(pair[1], depth)))
			}
		}
	}
}

func BenchmarkValid(b *testing.B) {
	for name, value := range map[string]string{"order": order1KiB, "text": text1KiB} {
		data := []byte(value)
		for who, valid := range map[string]func([]byte) bool{"ours": jsonscan.Valid, "encoding/json": json.Valid} {
			b.Run(name+"/"+who, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				b.ReportAllocs()
				for b.Loop() {
					if !valid(data) {
						b.Fatal("not valid")
					}
				}
			})
		}
	}
}
