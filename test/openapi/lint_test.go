package openapi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// finding is what the linter says.
type finding struct {
	Code    string   `json:"code"`
	Path    []string `json:"path"`
	Message string   `json:"message"`
	Source  string   `json:"source"`
}

// TestLinter: a linter that everybody uses has nothing to say about the document. It
// is shown a spoilt one as well: a linter that reads nothing is silent too.
func TestLinter(t *testing.T) {
	t.Parallel()
	dir := node(t)
	work := t.TempDir()
	copyFiles(t, work, world.document, "ruleset.yaml")
	spoilt := filepath.Join(work, "spoilt.json")
	want := spoil(t, spoilt)

	stdout, stderr, _ := run(t, work, tool(dir, "spectral"), "lint", "openapi.json", "spoilt.json",
		"--ruleset", "ruleset.yaml", "--format", "json", "--quiet", "--fail-severity", "hint")
	var findings []finding
	if err := json.Unmarshal([]byte(stdout), &findings); err != nil {
		t.Fatalf("%v\n%s%s", err, stdout, stderr)
	}
	found := map[string]bool{}
	for _, f := range findings {
		if filepath.Base(f.Source) == "spoilt.json" {
			found[f.Code] = true
			continue
		}
		t.Errorf("%s at %v: %s", f.Code, f.Path, f.Message)
	}
	for _, code := range want {
		if !found[code] {
			t.Errorf("rule %s found nothing in a document that breaks it", code)
		}
	}
}

// spoil writes a document with mistakes and returns the rules that they break. Two of
// them are where ruleset.yaml has switched another rule off.
func spoil(t *testing.T, file string) []string {
	t.Helper()
	doc := readDocument(t)
	at := func(names ...string) map[string]any {
		node := doc
		for _, name := range names {
			node, _ = node[name].(map[string]any)
		}
		if node == nil {
			t.Fatalf("the document has no %v", names)
		}
		return node
	}
	delete(at("info"), "contact")
	post := []string{"paths", "/v1/tenants/{tenant}/event-types", "post"}
	delete(at(post...), "description")
	at(slices.Concat(post, []string{"requestBody", "content", "application/json"})...)["example"] = map[string]any{"type": 1}
	at("components", "schemas", "Delivery", "properties", "status")["default"] = 7
	raw, err := json.Marshal(doc)
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("spoil: %w", err))
	}
	return []string{"info-contact", "operation-description", "oas3-valid-media-example", "oas3-valid-schema-example"}
}
