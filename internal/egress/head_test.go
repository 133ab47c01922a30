package egress_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// oddAnswers are answers at the edges of the protocol.
var oddAnswers = map[string]string{
	"usual":                    "HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n\r\nok",
	"no reason phrase":         "HTTP/1.1 204\r\n\r\n",
	"spaces before the code":   "HTTP/1.1   200 OK\r\nContent-Length: 0\r\n\r\n",
	"bare line feeds":          "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
	"signed code":              "HTTP/1.1 +20 OK\r\n\r\n",
	"version 1.0":              "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"version 1.0, keeps":       "HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok",
	"version 1.0, chunked":     "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"version 0.9":              "HTTP/0.9 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"version 2.0":              "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"version 1.10":             "HTTP/1.10 200 OK\r\n\r\n",
	"no version":               "HTTP 200 OK\r\n\r\n",
	"until the end":            "HTTP/1.1 200 OK\r\n\r\nok",
	"chunked":                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"chunked with extension":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\n\r\n",
	"chunked with trailer":     "HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: 1\r\n\r\n",
	"bad trailer":              "HTTP/1.1 200 OK\r\nTrailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunk with bare feed":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n",
	"chunked and a length":     "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
	"chunked and a bad length": "HTTP/1.1 200 OK\r\nContent-Length: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"two codings":              "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"list of codings":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
	"chunked without a body":   "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n",
	"length without a body":    "HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n",
	"equal lengths":            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length:  2 \r\n\r\nok",
	"different lengths":        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
	"list of lengths":          "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok",
	"signed length":            "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
	"empty length":             "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nok",
	"enormous length":          "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775808\r\n\r\nok",
	"space before the colon":   "HTTP/1.1 200 OK\r\nContent-Length : 2\r\nX: 1\r\n\r\nok",
	"tab before the colon":     "HTTP/1.1 200 OK\r\nX\t: 2\r\n\r\n",
	"empty name":               "HTTP/1.1 200 OK\r\n: 2\r\n\r\n",
	"folded":                   "HTTP/1.1 200 OK\r\nX: a\r\n\t b \r\n  c\r\nContent-Length: 0\r\n\r\n",
	"folded to nothing":        "HTTP/1.1 200 OK\r\nX: a\r\n \r\nContent-Length: 0\r\n\r\n",
	"folded length":            "HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok",
	"fold without a line":      "HTTP/1.1 200 OK\r\n X: a\r\n\r\n",
	"fold brings the colon":    "HTTP/1.1 200 OK\r\nX\r\n : a\r\n\r\n",
	"return in a value":        "HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n",
	"return before the end":    "HTTP/1.1 200 OK\r\nX: a\r\r\n\r\n",
	"null in a value":          "HTTP/1.1 200 OK\r\nX: a\x00\r\n\r\n",
	"high bytes in a value":    "HTTP/1.1 200 OK\r\nX: \xff\xe9\r\nContent-Length: 0\r\n\r\n",
	"lower case names":         "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nretry-AFTER: 1\r\nRetry-After: 2\r\n\r\nok",
	"closes":                   "HTTP/1.1 200 OK\r\nConnection: foo, CLOSE\r\nContent-Length: 2\r\n\r\nok",
	"early hints":              "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n",
	"ends in the status":       "HTTP/1.1 200 OK",
	"ends in the headers":      "HTTP/1.1 200 OK\r\nX: 1",
	"ends after a header":      "HTTP/1.1 200 OK\r\nX: 1\r\n",
	"ends in the body":         "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
	"nothing":                  "",
}

func TestAnswersAreReadLikeNetHTTP(t *testing.T) {
	t.Parallel()
	for name, answer := range oddAnswers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareReaders(t, []byte(answer))
		})
	}
}

func FuzzAnswer(f *testing.F) {
	for _, answer := range oddAnswers {
		f.Add([]byte(answer))
	}
	f.Fuzz(compareReaders)
}

// compareReaders reads an answer with net/http as well. The differences are
// meant:
//   - versions below 1.0 are refused: net/http reads HTTP/0.0 as 1.1;
//   - headers are kept as they came: net/http removes some that were used to
//     find the end of the body, and adds Cache-Control to Pragma;
//   - what the Trailer header announces is of no interest, and a trailer only
//     has to end;
//   - an answer with both a length and chunks ends the connection.
func compareReaders(t *testing.T, data []byte) {
	if len(data) > 32<<10 {
		return // longer than any head may be: another test's matter
	}
	if bytes.HasPrefix(data, []byte("HTTP/0")) {
		if _, err := egress.ReadAnswer(bytes.NewReader(data)); err == nil {
			t.Error("a version below 1.0 was read")
		}
		return
	}
	want, wantErr := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), &http.Request{Method: http.MethodPost})
	if wantErr != nil && strings.Contains(wantErr.Error(), "bad trailer key") {
		return
	}
	got, gotErr := egress.ReadAnswer(bytes.NewReader(data))
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("error = %v, net/http says %v", gotErr, wantErr)
	}
	if wantErr != nil {
		if r := egress.ReasonOf(gotErr); r != hook.Protocol && r != hook.ConnectReset {
			t.Errorf("reason = %v", r)
		}
		return
	}
	defer want.Body.Close()
	body, err := io.ReadAll(want.Body)
	if got.Status != want.StatusCode || !bytes.Equal(got.Body, body) {
		t.Errorf("status %d, body %q, net/http says %d and %q", got.Status, got.Body, want.StatusCode, body)
	}
	if err == nil && !got.Ended || want.Close && !got.Last {
		t.Errorf("ended %v last %v, net/http says error %v and close %v", got.Ended, got.Last, err, want.Close)
	}
	for _, h := range []http.Header{got.Header, want.Header} {
		for _, name := range []string{"Connection", "Content-Length", "Transfer-Encoding", "Trailer", "Cache-Control"} {
			h.Del(name)
		}
	}
	if diff := cmp.Diff(want.Header, got.Header); diff != "" {
		t.Errorf("header (-net/http +got):\n%s", diff)
	}
}
