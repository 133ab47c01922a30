package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/openapi.json")

// TestOpenAPIDocumentStaysTheSame: clients are generated from it, so every
// change of it is one on purpose. The file has line breaks for people; all else
// is compared byte for byte.
func TestOpenAPIDocumentStaysTheSame(t *testing.T) {
	t.Parallel()
	served := newWorld(t).must(200, http.MethodGet, "/openapi.json", "", nil).body
	var compact, indented bytes.Buffer
	if err := json.Compact(&compact, served); err != nil || !bytes.Equal(compact.Bytes(), served) {
		t.Fatalf("the document is served with white space, or is no JSON: %v", err)
	}
	if err := json.Indent(&indented, served, "", "  "); err != nil {
		t.Fatal(err)
	}
	indented.WriteByte('\n')
	golden := filepath.Join("testdata", "openapi.json")
	if *update {
		if err := os.WriteFile(golden, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(indented.Bytes(), want) {
		t.Errorf("the document has changed; when that is meant, run this test with -update (-want +got):\n%s",
			cmp.Diff(string(want), indented.String()))
	}
}
