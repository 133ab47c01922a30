package egress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Result is the outcome of Send. When Reason is set it decides, whatever the
// status is; otherwise the status does.
type Result struct {
	Status int         // 0: no answer
	Reason hook.Reason // set without an answer, and for one that is a failure in itself
	Err    error       // detail for the operator's log; nil when Reason is not set
	Text   string      // what anybody may read about Err

	Header    http.Header
	Body      []byte // the head of the body, as it came
	Truncated bool   // Body is not the whole body

	Latency    time.Duration // the whole attempt, reading the body included
	Waited     bool          // for a connection, because others of ours had them all; no part of Latency
	Phases     hook.Phases   // FirstByte counts from having the connection
	RemoteAddr string        // of the proxy, if there is one
}

func failed(err error) Result {
	reason := ReasonOf(err)
	return Result{Reason: reason, Err: err, Text: textOf(reason, err)}
}

// hide removes what a refused destination could be explored with: two refused
// addresses must look the same, whatever is behind them.
func (r *Result) hide() {
	r.RemoteAddr, r.Phases, r.Latency = "", hook.Phases{}, 0
}

// answer is a response of which the body was not read yet.
type answer struct {
	status int
	header http.Header
	length int64 // of the body; negative when unknown
	body   io.Reader
}

// result reads what there is to read of an answer. The status line decides: a
// body that breaks, drips past the deadline or never ends changes nothing about
// it. ended says that the body was read to its end.
func (c *Client) result(a answer) (res Result, ended bool) {
	res = Result{Status: a.status, Header: a.header}
	switch {
	case a.status < 200 || a.status > 599:
		// After 101 the connection is a raw stream that no timeout of the
		// standard transport covers: not a byte of it is read.
		res.fail(hook.Protocol, fmt.Errorf("status %d is not a final answer", a.status))
	case a.status == http.StatusProxyAuthRequired && c.proxied:
		res.fail(hook.LocalError, errors.New("proxy asks for authentication"))
	default:
		res.Body, res.Truncated, ended = readBody(a.body, a.length, c.keep)
	}
	return res, ended
}

func (r *Result) fail(reason hook.Reason, err error) {
	r.Reason, r.Err, r.Text = reason, err, textOf(reason, err)
}

// scratch holds buffers for reading bodies: most answers are tiny, and what
// is kept of them is copied out.
var scratch = sync.Pool{New: func() any { return new([8 << 10]byte) }}

// readBody keeps the first bytes of a body and reads on to its end so that the
// connection can be used again, unless the end is too far away: closing such a
// connection is cheaper than reading it empty. length is negative when unknown.
func readBody(body io.Reader, length int64, keep int) (head []byte, truncated, ended bool) {
	if length == 0 {
		return nil, false, true
	}
	limit := maxBodyBytes
	if length > maxBodyBytes {
		limit = keep
	}
	buf := scratch.Get().(*[8 << 10]byte)
	defer scratch.Put(buf)
	for read := 0; read < limit; {
		n, err := body.Read(buf[:min(len(buf), limit-read)])
		kept := min(n, keep-len(head))
		head = append(head, buf[:kept]...)
		truncated = truncated || kept < n
		if err != nil {
			ended = errors.Is(err, io.EOF)
			return head, truncated || !ended, ended
		}
		read += n
	}
	return head, true, false
}
