package contract_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api/contract"
)

const tiny = `{"openapi":"3.1.0","paths":{"/x":{"get":{"responses":{"200":{"description":"OK","content":{
	"application/json":{"schema":{"type":"object","additionalProperties":true}},
	"text/event-stream":{"schema":{"type":"string"}}}}}}}}}`

// TestLongDecimalsAreFound: a figure with more decimals than mean something is found
// wherever it stands, and what users wrote is left alone.
func TestLongDecimalsAreFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		media, body, want string
	}{
		"whole":            {"application/json", `{"a":12345678901234567890}`, ""},
		"six":              {"application/json", `{"a":[0.123456,-1.5,1e3,2.50000000]}`, ""},
		"seven":            {"application/json", `{"a":[1,{"b":0.1234567}]}`, "0.1234567 at /a/1/b"},
		"sum of tenths":    {"application/json", `{"a":0.30000000000000004}`, "0.30000000000000004 at /a"},
		"small, few count": {"application/json", `{"a":0.00000012}`, "0.00000012 at /a"},
		"with an exponent": {"application/json", `{"a":1.2e-07}`, "1.2e-07 at /a"},
		"of a user":        {"application/json", `{"payload":{"pi":3.14159265358979}}`, ""},
		"in a stream":      {"text/event-stream", "event: attempt\ndata: {\"latency_ms\":1.23456789}\n\n", "1.23456789 at /latency_ms"},
		"short in one":     {"text/event-stream", "data: {\"latency_ms\":1.234}\n\n: 0.30000000000000004\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := contract.Parse([]byte(tiny))
			if err != nil {
				t.Fatal(err)
			}
			found := ""
			h := d.Watch(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tc.media)
				_, _ = io.WriteString(w, tc.body)
			}), func(err error) { found = err.Error() })
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil))
			if (tc.want == "") != (found == "") || !strings.Contains(found, tc.want) {
				t.Errorf("found %q, want %q", found, tc.want)
			}
		})
	}
}
