// Package schema checks payloads against JSON Schema 2020-12.
//
// Tenants write the schemas, so no schema may reach out, run for long or take much
// memory: references stay inside the document and do not go in circles, and what a
// schema costs for a payload is known before it is applied. The package stores nothing.
package schema

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// MaxBytes bounds the text of a schema.
const MaxBytes = 64 << 10

const (
	// maxDepth bounds how deep a schema is nested.
	maxDepth = 64
	// maxWeight bounds what a schema asks of one value, all references followed.
	maxWeight = 10_000
	// maxWork bounds weight times size of a payload. One is worth some tens of
	// nanoseconds.
	maxWork = 5_000_000
	// maxInstructions bounds a regular expression.
	maxInstructions = 1000
	// maxProblems is how many are told of one payload.
	maxProblems = 20

	metaschema = "https://json-schema.org/draft/2020-12/schema"
	here       = "urn:breakwater:schema"
)

// Schema is ready to be applied. It is never changed and safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
	weight   int
}

// Compile checks a schema, which is a decoded JSON document.
func Compile(doc any) (*Schema, error) {
	if root, ok := doc.(map[string]any); ok && root["$id"] != nil {
		// Its own name is no address that anything here goes by.
		root = maps.Clone(root)
		delete(root, "$id")
		doc = root
	}
	weight, err := weigh(doc)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(here, doc); err != nil {
		return nil, explain(err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, explain(err)
	}
	return &Schema{compiled, weight}, nil
}

// nowhere loads nothing.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

type pattern struct{ *regexp.Regexp }

func compilePattern(text string) (jsonschema.Regexp, error) {
	if _, err := patternSize(text); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return pattern{re}, nil
}

// patternSize returns how many instructions a regular expression has.
func patternSize(text string) (int, error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program, err := syntax.Compile(re.Simplify())
	if err != nil {
		return 0, err
	}
	if len(program.Inst) > maxInstructions {
		return 0, errors.New("the pattern is too large")
	}
	return len(program.Inst), nil
}

var english = message.NewPrinter(language.English)

// explain says what the library found wrong with a schema, without its addresses.
func explain(err error) error {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if wrong, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			if all := problems(nil, wrong, maxProblems); len(all) > 0 {
				return fmt.Errorf("%s: %s", strings.TrimPrefix("schema"+all[0].Path, "."), all[0].Message)
			}
		}
	}
	text := strings.ReplaceAll(strings.ReplaceAll(err.Error(), here+"#", "#"), here, "the schema")
	first, _, _ := strings.Cut(text, "\n")
	return errors.New(first)
}

// Problem is one thing about a payload that does not fit.
type Problem struct {
	Path    string // below the payload: ".lines[0].sku"; empty: the payload itself
	Message string
}

// Validate returns what of a decoded payload does not fit, up to twenty things. What
// would take too long to check does not fit.
func (s *Schema) Validate(payload any) []Problem {
	if sizeOf(payload, maxWork/s.weight+1)*s.weight > maxWork {
		return []Problem{{Message: "takes too much work to check against the schema of its type"}}
	}
	err := s.compiled.Validate(payload)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		if all := problems(nil, wrong, maxProblems); len(all) > 0 {
			return all
		}
	}
	return []Problem{{Message: "does not fit the schema of its type"}}
}

// problems collects the ends of a tree of errors. Of alternatives it tells that none
// fits: what is wrong with each would fill pages.
func problems(out []Problem, e *jsonschema.ValidationError, most int) []Problem {
	if len(out) == most {
		return out
	}
	at := pathOf(e.InstanceLocation)
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return append(out, Problem{at, "fits none of the alternatives"})
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return append(out, Problem{at, "fits more than one of the alternatives"})
		}
		return append(out, Problem{at, "fits none of the alternatives"})
	}
	if len(e.Causes) == 0 {
		return append(out, Problem{at, e.ErrorKind.LocalizedString(english)})
	}
	for _, cause := range e.Causes {
		out = problems(out, cause, most)
	}
	return out
}

// pathOf writes a place as fields are written elsewhere.
func pathOf(tokens []string) string {
	var b strings.Builder
	for _, t := range tokens {
		if t != "" && strings.Trim(t, "0123456789") == "" {
			b.WriteString("[" + t + "]")
		} else {
			b.WriteString("." + t)
		}
	}
	return b.String()
}

// sizeOf counts the parts of a value and the bytes of its texts, and stops at most.
func sizeOf(v any, most int) int {
	size := 1
	switch v := v.(type) {
	case string:
		return size + len(v)/64
	case []any:
		for _, item := range v {
			if size += sizeOf(item, most-size); size >= most {
				return most
			}
		}
	case map[string]any:
		for name, item := range v {
			if size += len(name)/64 + sizeOf(item, most-size); size >= most {
				return most
			}
		}
	}
	return min(size, max(1, most))
}
