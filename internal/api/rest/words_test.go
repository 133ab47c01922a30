package rest_test

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
)

// humaMessages are all messages of huma's validation by the name they have
// there, with what the API says instead.
var humaMessages = map[string]struct {
	message    string
	code, want string
}{
	"MsgUnexpectedProperty":                 {validation.MsgUnexpectedProperty, "unknown_field", "is not a known field"},
	"MsgExpectedRFC3339DateTime":            {validation.MsgExpectedRFC3339DateTime, "invalid_format", "must be RFC 3339 date-time"},
	"MsgExpectedRFC1123DateTime":            {validation.MsgExpectedRFC1123DateTime, "invalid_format", "must be RFC 1123 date-time"},
	"MsgExpectedRFC3339Date":                {validation.MsgExpectedRFC3339Date, "invalid_format", "must be RFC 3339 date"},
	"MsgExpectedRFC3339Time":                {validation.MsgExpectedRFC3339Time, "invalid_format", "must be RFC 3339 time"},
	"MsgExpectedRFC5322Email":               {fill(validation.MsgExpectedRFC5322Email, "mail: no @ in s3cret"), "invalid_format", "must be RFC 5322 email"},
	"MsgExpectedRFC5890Hostname":            {validation.MsgExpectedRFC5890Hostname, "invalid_format", "must be RFC 5890 hostname"},
	"MsgExpectedRFC2673IPv4":                {validation.MsgExpectedRFC2673IPv4, "invalid_format", "must be RFC 2673 ipv4"},
	"MsgExpectedRFC2373IPv6":                {validation.MsgExpectedRFC2373IPv6, "invalid_format", "must be RFC 2373 ipv6"},
	"MsgExpectedRFCIPAddr":                  {validation.MsgExpectedRFCIPAddr, "invalid_format", "must be either RFC 2673 ipv4 or RFC 2373 ipv6"},
	"MsgExpectedRFC3986URI":                 {fill(validation.MsgExpectedRFC3986URI, "parse s3cret"), "invalid_format", "must be RFC 3986 uri"},
	"MsgExpectedRFC4122UUID":                {fill(validation.MsgExpectedRFC4122UUID, "s3cret is short"), "invalid_format", "must be RFC 4122 uuid"},
	"MsgExpectedRFC6570URITemplate":         {validation.MsgExpectedRFC6570URITemplate, "invalid_format", "must be RFC 6570 uri-template"},
	"MsgExpectedRFC6901JSONPointer":         {validation.MsgExpectedRFC6901JSONPointer, "invalid_format", "must be RFC 6901 json-pointer"},
	"MsgExpectedRFC6901RelativeJSONPointer": {validation.MsgExpectedRFC6901RelativeJSONPointer, "invalid_format", "must be RFC 6901 relative-json-pointer"},
	"MsgExpectedRegexp":                     {fill(validation.MsgExpectedRegexp, "s3cret"), "invalid_format", "must be regex"},
	"MsgExpectedMatchAtLeastOneSchema":      {validation.MsgExpectedMatchAtLeastOneSchema, "invalid", "has none of the forms that are allowed here"},
	"MsgExpectedMatchExactlyOneSchema":      {validation.MsgExpectedMatchExactlyOneSchema, "invalid", "has none of the forms that are allowed here"},
	"MsgExpectedNotMatchSchema":             {validation.MsgExpectedNotMatchSchema, "invalid", "has none of the forms that are allowed here"},
	"MsgExpectedPropertyNameInObject":       {validation.MsgExpectedPropertyNameInObject, "invalid", "has none of the forms that are allowed here"},
	"MsgExpectedBoolean":                    {validation.MsgExpectedBoolean, "wrong_type", "must be true or false"},
	"MsgExpectedDuration":                   {fill(validation.MsgExpectedDuration, "s3cret"), "invalid_format", "must be a duration"},
	"MsgExpectedNumber":                     {validation.MsgExpectedNumber, "wrong_type", "must be a number"},
	"MsgExpectedInteger":                    {validation.MsgExpectedInteger, "wrong_type", "must be a whole number"},
	"MsgExpectedString":                     {validation.MsgExpectedString, "wrong_type", "must be a string"},
	"MsgExpectedBase64String":               {validation.MsgExpectedBase64String, "invalid_format", "must be base64 encoded"},
	"MsgExpectedArray":                      {validation.MsgExpectedArray, "wrong_type", "must be an array"},
	"MsgExpectedObject":                     {validation.MsgExpectedObject, "wrong_type", "must be an object"},
	"MsgExpectedArrayItemsUnique":           {validation.MsgExpectedArrayItemsUnique, "not_allowed", "must not hold an entry twice"},
	"MsgExpectedOneOf":                      {fill(validation.MsgExpectedOneOf, "a, b"), "not_allowed", "must be one of a, b"},
	"MsgExpectedMinimumNumber":              {fill(validation.MsgExpectedMinimumNumber, 1), "out_of_range", "must be at least 1"},
	"MsgExpectedExclusiveMinimumNumber":     {fill(validation.MsgExpectedExclusiveMinimumNumber, 0.5), "out_of_range", "must be above 0.5"},
	"MsgExpectedMaximumNumber":              {fill(validation.MsgExpectedMaximumNumber, 9), "out_of_range", "must be at most 9"},
	"MsgExpectedExclusiveMaximumNumber":     {fill(validation.MsgExpectedExclusiveMaximumNumber, 9), "out_of_range", "must be below 9"},
	"MsgExpectedNumberBeMultipleOf":         {fill(validation.MsgExpectedNumberBeMultipleOf, 5), "out_of_range", "must be a multiple of 5"},
	"MsgExpectedMinLength":                  {fill(validation.MsgExpectedMinLength, 1), "out_of_range", "must have a length of at least 1"},
	"MsgExpectedMaxLength":                  {fill(validation.MsgExpectedMaxLength, 64), "out_of_range", "must have at most 64 characters"},
	"MsgExpectedBePattern":                  {fill(validation.MsgExpectedBePattern, "alphanumeric"), "invalid_format", "must be alphanumeric"},
	"MsgExpectedMatchPattern":               {fill(validation.MsgExpectedMatchPattern, "^a+$"), "invalid_format", "must match the pattern ^a+$"},
	"MsgExpectedMinItems":                   {fill(validation.MsgExpectedMinItems, 2), "out_of_range", "must have at least 2 entries"},
	"MsgExpectedMaxItems":                   {fill(validation.MsgExpectedMaxItems, 3), "out_of_range", "must have at most 3 entries"},
	"MsgExpectedMinProperties":              {fill(validation.MsgExpectedMinProperties, 2), "out_of_range", "must have at least 2 entries"},
	"MsgExpectedMaxProperties":              {fill(validation.MsgExpectedMaxProperties, 3), "out_of_range", "must have at most 3 entries"},
	"MsgExpectedRequiredProperty":           {fill(validation.MsgExpectedRequiredProperty, "name"), "required", "is required"},
	"MsgExpectedDependentRequiredProperty":  {fill(validation.MsgExpectedDependentRequiredProperty, "a", "b"), "required", "lacks a field that another one needs"},

	// Not named there: of parameters, of a schema that offers a choice, of
	// encoding/json, and one that huma may have tomorrow.
	"missing parameter":   {"required query parameter is missing", "required", "is required"},
	"repeated parameter":  {"expected at most one value, but received multiple values", "not_allowed", "may be given once only"},
	"integer parameter":   {"invalid integer", "wrong_type", "must be a whole number"},
	"boolean parameter":   {"invalid boolean", "wrong_type", "must be true or false"},
	"number parameter":    {"invalid float", "wrong_type", "must be a number"},
	"number in a list":    {"invalid floating value", "wrong_type", "must be a number"},
	"several schemas fit": {"expected value to match exactly one schema but matched multiple", "invalid", "has none of the forms that are allowed here"},
	"encoding/json":       {"json: cannot unmarshal number 1e999 into Go value", "invalid", "holds a value that is too large or of the wrong type"},
	"unheard of":          {"s3cret is not nice", "invalid", "is not valid"},
}

func fill(format string, args ...any) string { return fmt.Sprintf(format, args...) }

func TestEveryMessageOfHumaHasWordsOfOurs(t *testing.T) {
	t.Parallel()
	for name, tc := range humaMessages {
		got := rest.FieldProblemOf(&huma.ErrorDetail{Message: tc.message, Location: "body.limits.max"})
		if got.Code != tc.code || got.Message != tc.want {
			t.Errorf("%s: %q becomes %s %q, want %s %q", name, tc.message, got.Code, got.Message, tc.code, tc.want)
		}
		path := "limits.max"
		if name == "MsgExpectedRequiredProperty" {
			path = "limits.max.name"
		}
		if got.Path != path {
			t.Errorf("%s: path %q, want %q", name, got.Path, path)
		}
	}
}

// TestEveryMessageOfHumaIsKnown fails when another version of huma brings a
// message that has no words of ours yet.
func TestEveryMessageOfHumaIsKnown(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/danielgtaylor/huma/v2/validation").Output()
	if err != nil {
		t.Fatalf("find huma's source: %v", err)
	}
	sources, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for _, name := range spec.Names {
				if !strings.HasPrefix(name.Name, "Msg") {
					continue
				}
				found++
				if _, known := humaMessages[name.Name]; !known {
					t.Errorf("validation.%s has no words of ours", name.Name)
				}
			}
			return true
		})
	}
	if found < 40 {
		t.Errorf("only %d messages found", found)
	}
}

// TestNobodyIsToldOfContexts: an answer says what its reader can make something of.
func TestNobodyIsToldOfContexts(t *testing.T) {
	t.Parallel()
	for _, err := range []error{context.DeadlineExceeded, context.Canceled} {
		p := rest.ProblemOf(fmt.Errorf("read lanes: %w", err))
		if p == nil || p.Status != http.StatusServiceUnavailable || p.Detail == "" || strings.Contains(p.Detail, "context") {
			t.Errorf("%v: %+v", err, p)
		}
	}
}
