package apidocs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// document is what is read of the description of the API.
type document struct {
	Info struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		Version     string `json:"version"`
	} `json:"info"`
	Servers []struct {
		URL string `json:"url"`
	} `json:"servers"`
	Tags []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tags"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas   map[string]*schema  `json:"schemas"`
		Responses map[string]response `json:"responses"`
	} `json:"components"`
}

type operation struct {
	ID          string                `json:"operationId"`
	Summary     string                `json:"summary"`
	Description string                `json:"description"`
	Tags        []string              `json:"tags"`
	Scopes      []string              `json:"x-scopes"`
	Security    []map[string][]string `json:"security"`
	Parameters  []parameter           `json:"parameters"`
	Body        *body                 `json:"requestBody"`
	Responses   map[string]response   `json:"responses"`
}

type parameter struct {
	Name        string          `json:"name"`
	In          string          `json:"in"`
	Description string          `json:"description"`
	Required    bool            `json:"required"`
	Schema      *schema         `json:"schema"`
	Example     json.RawMessage `json:"example"`
}

type body struct {
	Required bool             `json:"required"`
	Content  map[string]media `json:"content"`
}

type media struct {
	Schema  *schema         `json:"schema"`
	Example json.RawMessage `json:"example"`
}

type response struct {
	Ref         string               `json:"$ref"`
	Description string               `json:"description"`
	Content     map[string]media     `json:"content"`
	Headers     map[string]parameter `json:"headers"`
}

type schema struct {
	Ref         string             `json:"$ref"`
	Type        oneOrMore          `json:"type"`
	Format      string             `json:"format"`
	Description string             `json:"description"`
	Enum        []json.RawMessage  `json:"enum"`
	Default     json.RawMessage    `json:"default"`
	Items       *schema            `json:"items"`
	More        more               `json:"additionalProperties"`
	AnyOf       []*schema          `json:"anyOf"`
	OneOf       []*schema          `json:"oneOf"`
	AllOf       []*schema          `json:"allOf"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Minimum     json.Number        `json:"minimum"`
	Maximum     json.Number        `json:"maximum"`
	MinLength   json.Number        `json:"minLength"`
	MaxLength   json.Number        `json:"maxLength"`
	MinItems    json.Number        `json:"minItems"`
	MaxItems    json.Number        `json:"maxItems"`
	WriteOnly   bool               `json:"writeOnly"`
	Examples    []json.RawMessage  `json:"examples"`
}

// oneOrMore is a name or a list of names.
type oneOrMore []string

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrMore) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*o = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(o))
}

// more is what else an object may have: anything, nothing, or what a schema says.
type more struct {
	Any    bool
	Schema *schema
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *more) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &m.Any) == nil {
		return nil
	}
	m.Schema = new(schema)
	return json.Unmarshal(raw, m.Schema)
}

const (
	schemaRef   = "#/components/schemas/"
	responseRef = "#/components/responses/"
)

// part is a piece of the name of a type; Link leads to the schema that it names.
type part struct{ Text, Link string }

func words(text string) []part { return []part{{Text: text}} }

// typeOf says what values a schema allows.
func typeOf(s *schema) []part {
	if s == nil {
		return words("anything")
	}
	if name, ok := strings.CutPrefix(s.Ref, schemaRef); ok {
		return []part{{Text: name, Link: schemaID(name)}}
	}
	for _, choice := range []struct {
		list []*schema
		word string
	}{{s.AnyOf, " or "}, {s.OneOf, " or "}, {s.AllOf, " and "}} {
		if len(choice.list) > 0 {
			return join(choice.list, choice.word)
		}
	}
	if len(s.Type) == 0 {
		return words("anything")
	}
	var out []part
	for i, name := range s.Type {
		if i > 0 {
			out = append(out, words(" or ")...)
		}
		out = append(out, named(s, name)...)
	}
	return out
}

func join(list []*schema, word string) []part {
	var out []part
	for i, s := range list {
		if i > 0 {
			out = append(out, words(word)...)
		}
		out = append(out, typeOf(s)...)
	}
	return out
}

// named is one of the types of a schema.
func named(s *schema, name string) []part {
	switch {
	case name == "array":
		return append(words("list of "), typeOf(s.Items)...)
	case name == "object" && s.More.Schema != nil:
		return append(words("names with "), typeOf(s.More.Schema)...)
	case s.Format != "" && s.Format != "int64" && s.Format != "int32" && s.Format != "double" && name != "null":
		return words(name + " (" + s.Format + ")")
	}
	return words(name)
}

// facts says what else is asked of a value.
func facts(s *schema) string {
	if s == nil {
		return ""
	}
	var out []string
	if len(s.Enum) > 0 {
		out = append(out, "one of "+list(s.Enum))
	} else if s.Items != nil && len(s.Items.Enum) > 0 {
		out = append(out, "each one of "+list(s.Items.Enum))
	}
	out = append(out, between(s.Minimum, s.Maximum, "")...)
	out = append(out, between(s.MinLength, s.MaxLength, " characters")...)
	out = append(out, between(s.MinItems, s.MaxItems, " entries")...)
	if len(s.Default) > 0 {
		out = append(out, "default "+plain(s.Default))
	}
	if s.WriteOnly {
		out = append(out, "never shown")
	}
	return strings.Join(out, "; ")
}

func between(least, most json.Number, unit string) []string {
	switch {
	case least != "" && most != "":
		return []string{fmt.Sprintf("%s to %s%s", least, most, unit)}
	case least != "" && (least != "0" || unit == ""):
		return []string{fmt.Sprintf("at least %s%s", least, unit)}
	case most != "":
		return []string{fmt.Sprintf("at most %s%s", most, unit)}
	}
	return nil
}

func list(values []json.RawMessage) string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = plain(v)
	}
	return strings.Join(out, ", ")
}

// plain writes a value for people: text without its quotes.
func plain(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		return text
	}
	return string(raw)
}

// member is a row of the table of a schema.
type member struct {
	Name     string
	Type     []part
	Required bool
	Facts    string
	About    string
}

// membersOf are the members of an object, those that are always there first, and
// those of objects that have no name after them, under both names.
func membersOf(s *schema, under string) []member {
	names := slices.SortedFunc(maps.Keys(s.Properties), func(a, b string) int {
		first, second := slices.Contains(s.Required, a), slices.Contains(s.Required, b)
		switch {
		case first && !second:
			return -1
		case second && !first:
			return 1
		}
		return strings.Compare(a, b)
	})
	var out []member
	for _, name := range names {
		p := s.Properties[name]
		out = append(out, member{under + name, typeOf(p), slices.Contains(s.Required, name), facts(p), p.Description})
		out = append(out, membersOf(p, under+name+".")...)
		if p.Items != nil {
			out = append(out, membersOf(p.Items, under+name+"[].")...)
		}
	}
	return out
}

// inline are the members of what has no name of its own.
func inline(s *schema) []member {
	if s == nil || s.Ref != "" {
		return nil
	}
	return membersOf(s, "")
}

func schemaID(name string) string { return "schema-" + name }
