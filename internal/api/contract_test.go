package api_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api/contract"
)

// document is what the server says of itself. All tests compare with it.
var document struct {
	once sync.Once
	*contract.Document
	err error
}

// kept makes every request of the tests hold up to the document, which is that of the
// first server: no setting changes it.
func kept(t *testing.T, h http.Handler) http.Handler {
	t.Helper()
	document.once.Do(func() {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/openapi.json", nil))
		document.Document, document.err = contract.Parse(rec.Body.Bytes())
	})
	if document.err != nil {
		t.Fatal(document.err)
	}
	return document.Watch(h, func(err error) { t.Error(err) })
}

// TestMain asks, after all tests, for every route and every answer that the document
// promises to have been seen.
func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	some := false // only some of the tests were to run
	for _, name := range []string{"test.run", "test.skip", "test.list", "test.bench", "test.fuzz"} {
		some = some || flag.Lookup(name).Value.String() != ""
	}
	if status == 0 && !some && document.Document != nil {
		if unseen := document.Unseen(); len(unseen) > 0 {
			status = 1
			fmt.Printf("FAIL: %d of %d answers of the OpenAPI document were caused by no test:\n", len(unseen), len(document.Answered()))
			for _, s := range unseen {
				fmt.Println("\t" + s)
			}
		}
	}
	os.Exit(status)
}

// TestExamplesAreValid holds what the document shows against what it says.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	newWorld(t)
	n, wrong := document.CheckExamples()
	for _, err := range wrong {
		t.Error(err)
	}
	if n == 0 {
		t.Error("the document has no examples")
	}
}

// TestDocumentHasWordsForEverything: what is added to the API must be explained, and
// shown, to those who use it.
func TestDocumentHasWordsForEverything(t *testing.T) {
	t.Parallel()
	newWorld(t)
	for _, gap := range document.Gaps() {
		t.Errorf("%s; internal/api/spec is the place", gap)
	}
}
