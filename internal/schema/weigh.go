package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Where a keyword has schemas: one, a list of them, or one under each name. Those of
// $defs count where they are referred to.
var (
	single = []string{
		"not", "if", "then", "else", "items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema",
	}
	lists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	named = []string{"properties", "patternProperties", "dependentSchemas"}

	// elsewhere lead out of the document, or to where nobody can tell in advance.
	elsewhere = []string{"$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary"}
)

// scale weighs a schema: what it asks of one value, with all references followed. A
// part that several refer to counts for each of them.
type scale struct {
	root   any
	weight int
	open   map[string]bool // references that are being followed
}

// weigh returns the weight of a schema, or why it is not taken.
func weigh(doc any) (int, error) {
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return 0, errors.New("must be an object, true or false")
	}
	if deep(doc, maxDepth) {
		return 0, fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	s := &scale{root: doc, open: map[string]bool{"#": true}}
	if object, ok := doc.(map[string]any); ok {
		if version, ok := object["$schema"]; ok && version != metaschema {
			return 0, errors.New("$schema: must be " + metaschema)
		}
	}
	if err := s.add(doc, ""); err != nil {
		return 0, err
	}
	return s.weight, nil
}

func deep(v any, levels int) bool {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if levels == 0 || deep(item, levels-1) {
				return true
			}
		}
	case map[string]any:
		for _, item := range v {
			if levels == 0 || deep(item, levels-1) {
				return true
			}
		}
	}
	return false
}

func (s *scale) take(n int) error {
	if s.weight += n; s.weight > maxWeight {
		return errors.New("asks too much of one value, counting every part as often as it is referred to")
	}
	return nil
}

// add weighs a schema and all below it. What is not a schema at all the library says
// later.
func (s *scale) add(v any, at string) error {
	object, ok := v.(map[string]any)
	if !ok {
		return s.take(1)
	}
	for _, keyword := range elsewhere {
		if _, ok := object[keyword]; ok {
			return fmt.Errorf("%s%s: cannot be used here", at, keyword)
		}
	}
	if err := s.take(1 + s.own(object)); err != nil {
		return err
	}
	for _, keyword := range []string{"patternProperties", "pattern"} {
		if err := s.patterns(object[keyword], at+keyword); err != nil {
			return err
		}
	}
	if ref, ok := object["$ref"]; ok {
		if err := s.follow(ref, at+"$ref"); err != nil {
			return err
		}
	}
	for _, keyword := range single {
		if sub, ok := object[keyword]; ok {
			if err := s.add(sub, at+keyword+"."); err != nil {
				return err
			}
		}
	}
	for _, keyword := range lists {
		subs, _ := object[keyword].([]any)
		for i, sub := range subs {
			if err := s.add(sub, fmt.Sprintf("%s%s[%d].", at, keyword, i)); err != nil {
				return err
			}
		}
	}
	for _, keyword := range named {
		subs, _ := object[keyword].(map[string]any)
		for name, sub := range subs {
			if err := s.add(sub, at+keyword+"."+name+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

// own is the weight of what a schema lists itself.
func (s *scale) own(object map[string]any) int {
	size := 0
	for _, keyword := range []string{"enum", "required"} {
		if list, ok := object[keyword].([]any); ok {
			size += len(list)
		}
	}
	for _, keyword := range []string{"enum", "const", "dependentRequired"} {
		if v, ok := object[keyword]; ok {
			size += sizeOf(v, maxWeight)
		}
	}
	return size
}

// patterns weighs regular expressions: a text, or the names of an object.
func (s *scale) patterns(v any, at string) error {
	weigh := func(text string) error {
		n, err := patternSize(text)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		return s.take(n)
	}
	switch v := v.(type) {
	case string:
		return weigh(v)
	case map[string]any:
		for text := range v {
			if err := weigh(text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scale) follow(v any, at string) error {
	ref, ok := v.(string)
	if !ok {
		return nil // the library says so
	}
	if ref == metaschema {
		return fmt.Errorf("%s: cannot be used here", at)
	}
	if ref != "#" && !strings.HasPrefix(ref, "#/") {
		return fmt.Errorf("%s: must stay inside the document, such as #/$defs/name", at)
	}
	if s.open[ref] {
		return fmt.Errorf("%s: goes in a circle", at)
	}
	target, ok := lookUp(s.root, strings.TrimPrefix(ref, "#"))
	if !ok {
		return fmt.Errorf("%s: leads nowhere", at)
	}
	s.open[ref] = true
	defer delete(s.open, ref)
	if len(s.open) > maxDepth {
		return fmt.Errorf("%s: more than %d references follow each other", at, maxDepth)
	}
	return s.add(target, ref+".")
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// lookUp follows a JSON pointer without percent signs.
func lookUp(v any, pointer string) (any, bool) {
	if pointer == "" {
		return v, true
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = unescape.Replace(token)
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[token]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}
