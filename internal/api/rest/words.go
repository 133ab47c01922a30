package rest

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"
)

// words says which code and words stand for a message of huma. %s in ours is
// what huma wrote in the place of its verb.
var words = []struct{ theirs, code, ours string }{
	{validation.MsgUnexpectedProperty, "unknown_field", "is not a known field"},
	{validation.MsgExpectedMinimumNumber, "out_of_range", "must be at least %s"},
	{validation.MsgExpectedExclusiveMinimumNumber, "out_of_range", "must be above %s"},
	{validation.MsgExpectedMaximumNumber, "out_of_range", "must be at most %s"},
	{validation.MsgExpectedExclusiveMaximumNumber, "out_of_range", "must be below %s"},
	{validation.MsgExpectedNumberBeMultipleOf, "out_of_range", "must be a multiple of %s"},
	{validation.MsgExpectedMinLength, "out_of_range", "must have a length of at least %s"},
	{validation.MsgExpectedMaxLength, "out_of_range", "must have at most %s characters"},
	{validation.MsgExpectedMinItems, "out_of_range", "must have at least %s entries"},
	{validation.MsgExpectedMaxItems, "out_of_range", "must have at most %s entries"},
	{validation.MsgExpectedMinProperties, "out_of_range", "must have at least %s entries"},
	{validation.MsgExpectedMaxProperties, "out_of_range", "must have at most %s entries"},
	{validation.MsgExpectedOneOf, "not_allowed", "must be one of %s"},
	{validation.MsgExpectedArrayItemsUnique, "not_allowed", "must not hold an entry twice"},
	{validation.MsgExpectedBoolean, "wrong_type", "must be true or false"},
	{validation.MsgExpectedNumber, "wrong_type", "must be a number"},
	{validation.MsgExpectedInteger, "wrong_type", "must be a whole number"},
	{validation.MsgExpectedString, "wrong_type", "must be a string"},
	{validation.MsgExpectedArray, "wrong_type", "must be an array"},
	{validation.MsgExpectedObject, "wrong_type", "must be an object"},
	{validation.MsgExpectedBePattern, "invalid_format", "must be %s"}, // every format begins like this
	{validation.MsgExpectedMatchPattern, "invalid_format", "must match the pattern %s"},
	{validation.MsgExpectedDuration, "invalid_format", "must be a duration"},
	{validation.MsgExpectedDependentRequiredProperty, "required", "lacks a field that another one needs"},
	{"expected value to %s", "invalid", "has none of the forms that are allowed here"},
	{validation.MsgExpectedNotMatchSchema, "invalid", "has none of the forms that are allowed here"},
	{validation.MsgExpectedPropertyNameInObject, "invalid", "has none of the forms that are allowed here"},

	// Of parameters, which huma reads itself.
	{"required %s parameter is missing", "required", "is required"},
	{"expected at most one value, but received multiple values", "not_allowed", "may be given once only"},
	{"invalid integer", "wrong_type", "must be a whole number"},
	{"invalid boolean", "wrong_type", "must be true or false"},
	{"invalid float%s", "wrong_type", "must be a number"},

	// Of encoding/json, where a value passed the schema.
	{"json: %s", "invalid", "holds a value that is too large or of the wrong type"},
}

// fieldProblem translates one finding of huma. Values are left out: they may be
// secrets.
func fieldProblem(d *huma.ErrorDetail) FieldProblem {
	at := strings.TrimPrefix(d.Location, "body.")
	if name, ok := between(d.Message, validation.MsgExpectedRequiredProperty); ok {
		if at != "body" {
			name = at + "." + name
		}
		return FieldProblem{Path: name, Code: "required", Message: "is required"}
	}
	for _, w := range words {
		if what, ok := between(d.Message, w.theirs); ok {
			return FieldProblem{Path: at, Code: w.code, Message: strings.Replace(w.ours, "%s", what, 1)}
		}
	}
	return FieldProblem{Path: at, Code: "invalid", Message: "is not valid"}
}

// between returns what a message has in the place of the verb of its format, up
// to a colon: behind it there are errors, which repeat values. A format with two
// verbs counts as one that spans both.
func between(message, format string) (what string, ok bool) {
	first, last := strings.IndexByte(format, '%'), strings.LastIndexByte(format, '%')
	if first < 0 {
		return "", message == format
	}
	rest, ok := strings.CutPrefix(message, format[:first])
	if !ok {
		return "", false
	}
	what, ok = strings.CutSuffix(rest, format[last+2:])
	what, _, _ = strings.Cut(what, ": ")
	return what, ok
}
