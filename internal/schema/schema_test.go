package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/schema"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%.100s: %v", text, err)
	}
	return v
}

const order = `{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://example.com/order.json","type":"object","required":["total","lines"],
	"properties":{"total":{"type":"number","minimum":0},"currency":{"enum":["EUR","USD"]},"at":{"type":"string","pattern":"^[0-9]{4}-"},
		"lines":{"type":"array","minItems":1,"items":{"$ref":"#/$defs/line"}},"extra":{"anyOf":[{"type":"null"},{"type":"string","maxLength":3}]}},
	"additionalProperties":false,
	"$defs":{"line":{"type":"object","required":["sku"],"properties":{"sku":{"$ref":"#/$defs/sku"},"n":{"type":"integer"}}},"sku":{"type":"string","minLength":1}}}`

func TestValidate(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile(decode(t, order))
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string][]string{
		`{"total":1,"lines":[{"sku":"a","n":2}],"currency":"EUR","at":"2026-01","extra":null}`: nil,
		`{"total":1.5,"lines":[{"sku":"a","other":[]}]}`:                                       nil,
		`{"total":"1","lines":[{"sku":"a"}]}`:                                                  {".total"},
		`{"total":-1,"lines":[{"sku":"a"},{"sku":""},{"n":1.5}],"currency":"GBP","at":"now"}`:  {".total", ".lines[1].sku", ".lines[2]", ".lines[2].n", ".currency", ".at"},
		`{"lines":[]}`: {"", ".lines"},
		`{"total":1,"lines":[{"sku":1}],"more":1}`:         {"", ".lines[0].sku"},
		`{"total":1,"lines":[{"sku":"a"}],"extra":"long"}`: {".extra"},
		`[]`:   {""},
		`null`: {""},
	} {
		got := map[string]bool{}
		for _, p := range s.Validate(decode(t, payload)) {
			got[p.Path] = true
			if p.Message == "" || strings.Contains(p.Message, "urn:") {
				t.Errorf("%s: says %q", payload, p.Message)
			}
		}
		expect := map[string]bool{}
		for _, p := range want {
			expect[p] = true
		}
		if diff := cmp.Diff(expect, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", payload, diff)
		}
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	laughs := &strings.Builder{}
	laughs.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 30 {
		fmt.Fprintf(laughs, `"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	laughs.WriteString(`"a30":{"type":"string"}}}`)
	chain := &strings.Builder{}
	chain.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 200 {
		fmt.Fprintf(chain, `"a%d":{"$ref":"#/$defs/a%d"},`, i, i+1)
	}
	chain.WriteString(`"a200":true}}`)
	for name, tc := range map[string]struct{ doc, want string }{
		"a number":                {`1`, "must be an object, true or false"},
		"a list":                  {`[]`, "must be an object"},
		"an unknown type":         {`{"type":"strnig"}`, "type"},
		"a wrong kind":            {`{"properties":{"a":{"minimum":"1"}}}`, "properties.a.minimum"},
		"properties as a list":    {`{"properties":[]}`, "properties"},
		"an older draft":          {`{"$schema":"http://json-schema.org/draft-07/schema#"}`, "$schema: must be"},
		"a reference to the web":  {`{"$ref":"https://example.com/a.json"}`, "$ref: must stay inside the document"},
		"a reference to a file":   {`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, "properties.a.$ref: must stay inside"},
		"a relative reference":    {`{"$ref":"other.json#/a"}`, "must stay inside"},
		"a reference to nothing":  {`{"$ref":"#/$defs/missing"}`, "leads nowhere"},
		"a circle":                {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, "goes in a circle"},
		"itself":                  {`{"properties":{"a":{"$ref":"#"}}}`, "goes in a circle"},
		"itself, by way of items": {`{"$ref":"#/$defs/n","$defs":{"n":{"items":{"$ref":"#/$defs/n"}}}}`, "goes in a circle"},
		"a dynamic reference":     {`{"$dynamicRef":"#x"}`, "$dynamicRef: cannot be used"},
		"another base":            {`{"properties":{"a":{"$id":"http://x/"}}}`, "properties.a.$id: cannot be used"},
		"a vocabulary":            {`{"$vocabulary":{}}`, "cannot be used"},
		"many laughs":             {laughs.String(), "asks too much"},
		"a long chain":            {chain.String(), "references follow each other"},
		"a very long list":        {`{"enum":[` + strings.Repeat("1,", 20_000) + `1]}`, "asks too much"},
		"great depth":             {strings.Repeat(`{"not":`, 100) + "true" + strings.Repeat("}", 100), "nested deeper"},
		"a wrong pattern":         {`{"pattern":"("}`, "pattern"},
		"a large pattern":         {`{"pattern":"(a{30}){30}b{900}"}`, "pattern"},
		"a large pattern, named":  {`{"patternProperties":{"a{900}b{900}":true}}`, "patternProperties"},
	} {
		if _, err := schema.Compile(decode(t, tc.doc)); err == nil || !strings.Contains(err.Error(), tc.want) || strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: %v, want an error that says %q", name, err, tc.want)
		}
	}
	for _, good := range []string{`true`, `{}`, `false`, order} {
		if _, err := schema.Compile(decode(t, good)); err != nil {
			t.Errorf("%.40s: %v", good, err)
		}
	}
}

// TestWorkIsBounded: a schema and a payload that are fine by themselves, and would
// take long together.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf(`{"not":{"const":%d}}`, i)
	}
	s, err := schema.Compile(decode(t, `{"items":{"allOf":[`+strings.Join(many, ",")+`]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Validate(decode(t, `[2000,2001]`)); got != nil {
		t.Errorf("a small payload: %v", got)
	}
	got := s.Validate(decode(t, "["+strings.Repeat("2000,", 100_000)+"1]"))
	if len(got) != 1 || !strings.Contains(got[0].Message, "too much work") {
		t.Errorf("a large payload: %v", got)
	}
}

// TestProblemsAreBounded: how many things do not fit is the publisher's choice.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile(decode(t, `{"items":{"type":"string"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Validate(decode(t, "["+strings.Repeat("1,", 5000)+"1]")); len(got) != 20 {
		t.Errorf("%d problems", len(got))
	}
}

// FuzzSchema: no schema and no payload ends in a panic, and a payload either fits or is
// told why it does not.
func FuzzSchema(f *testing.F) {
	f.Add(order, `{"total":1,"lines":[{"sku":""}]}`)
	f.Add(`{"oneOf":[{"type":"string"},{"minLength":1}],"unevaluatedProperties":false}`, `"a"`)
	f.Add(`{"patternProperties":{"^a":{"not":true}},"propertyNames":{"pattern":"b"},"dependentSchemas":{"a":{"required":["b"]}}}`, `{"ab":1}`)
	f.Add(`{"contains":{"const":1},"minContains":2,"uniqueItems":true,"prefixItems":[{"$ref":"#/prefixItems/1"},{}]}`, `[1,1]`)
	f.Fuzz(func(t *testing.T, doc, payload string) {
		var d, p any
		if len(doc) > schema.MaxBytes || json.Unmarshal([]byte(doc), &d) != nil || json.Unmarshal([]byte(payload), &p) != nil {
			return
		}
		s, err := schema.Compile(d)
		if err != nil {
			if err.Error() == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q", err)
			}
			return
		}
		for _, wrong := range s.Validate(p) {
			if wrong.Message == "" {
				t.Errorf("%s against %s: nothing is said about %s", payload, doc, wrong.Path)
			}
		}
	})
}
