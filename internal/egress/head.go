package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// head is what an answer says before its body. Parsing takes and refuses what
// net/http does, which a fuzz test holds it to: an answer must not become a
// failure by the way it is read.
type head struct {
	status  int
	header  http.Header // as it came
	length  int64       // of the body; -1: it ends with the last chunk or the connection
	chunked bool
	last    bool // the connection ends with this answer
}

// final reports whether another answer to the same request cannot follow. After
// 101 the connection speaks something else.
func (h *head) final() bool {
	return h.status < 100 || h.status > 199 || h.status == http.StatusSwitchingProtocols
}

func malformed(what string) error {
	return &reasonError{hook.Protocol, errors.New("read answer: " + what)}
}

// readHead reads the status line and the headers of one answer.
func (x *exchange) readHead() (head, error) {
	x.lines = x.lines[:0]
	if err := x.readLine(); err != nil {
		return head{}, err
	}
	status := len(x.lines)
	h, atLeast11, err := parseStatus(string(x.lines))
	if err != nil {
		return head{}, err
	}
	if err := x.readLines(); err != nil {
		return head{}, err
	}
	if h.header, err = parseHeader(string(x.lines[status:])); err != nil {
		return head{}, err
	}
	err = h.frame(atLeast11)
	return h, err
}

// readLines appends lines up to an empty one, which it leaves out. A line that
// begins with a space continues the one before, an old custom that an answer
// may still follow.
func (x *exchange) readLines() error {
	first := len(x.lines)
	for {
		start := len(x.lines)
		if err := x.readLine(); err != nil {
			return err
		}
		line := x.lines[start : len(x.lines)-1]
		switch {
		case len(line) == 0:
			x.lines = x.lines[:start]
			return nil
		case line[0] == ' ' || line[0] == '\t':
			if start == first {
				return malformed("headers begin with a space")
			}
			x.lines[start-1] = ' ' // the end of the line before
			rest := append(bytes.Trim(line, " \t"), '\n')
			x.lines = append(x.lines[:start], rest...)
		case bytes.IndexByte(line, ':') < 0:
			return malformed("header without a colon")
		default:
			end := len(bytes.TrimRight(line, " \t"))
			x.lines = append(x.lines[:start+end], '\n')
		}
	}
}

// readLine appends one line, which ends in a line feed whether or not there was
// a carriage return before it.
func (x *exchange) readLine() error {
	start := len(x.lines)
	for {
		part, err := x.in.ReadSlice('\n')
		if x.budget -= len(part); x.budget < 0 {
			return malformed(fmt.Sprintf("more than %d bytes of headers", maxHeaderBytes))
		}
		x.lines = append(x.lines, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && len(x.lines) > start {
			x.lines = append(x.lines, '\n') // the end of the connection ends a line, too
			return nil
		}
		if err != nil {
			return err
		}
		x.lines = append(bytes.TrimSuffix(x.lines[:len(x.lines)-1], []byte("\r")), '\n')
		return nil
	}
}

// parseStatus reads a status line. It also reports whether the answer is of
// HTTP/1.1 or later; an answer of HTTP/1.0 is the last one unless it says that
// it is not.
func parseStatus(line string) (h head, atLeast11 bool, err error) {
	proto, rest, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if !ok {
		return h, false, malformed("no status line")
	}
	major, minor, ok := http.ParseHTTPVersion(proto)
	if !ok || major < 1 {
		return h, false, malformed("unknown version")
	}
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	h.status, err = strconv.Atoi(code)
	if err != nil || len(code) != 3 || h.status < 0 {
		return h, false, malformed("no status code")
	}
	return h, major > 1 || minor > 0, nil
}

// parseHeader reads lines that have a colon each. The names and values share
// one string and the values one array, which is what makes this cheap.
func parseHeader(lines string) (http.Header, error) {
	n := strings.Count(lines, "\n")
	header, values := make(http.Header, n), make([]string, n)
	for i := range n {
		line, rest, _ := strings.Cut(lines, "\n")
		lines = rest
		name, value, _ := strings.Cut(line, ":")
		// A space in a name is wrong but was seen; the name is then kept as it is.
		if !httpguts.ValidHeaderFieldName(strings.ReplaceAll(name, " ", "_")) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, malformed("invalid header")
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		values[i] = strings.TrimLeft(value, " \t")
		if all, ok := header[name]; ok {
			header[name] = append(all, values[i])
		} else {
			header[name] = values[i : i+1 : i+1]
		}
	}
	return header, nil
}

// frame finds out where the body ends and whether another answer can follow.
// This is where smuggling happens, so what is ambiguous is refused, or at least
// ends the connection.
func (h *head) frame(atLeast11 bool) error {
	length, err := contentLength(h.header["Content-Length"])
	if err != nil {
		return err
	}
	coding := h.header["Transfer-Encoding"]
	h.last = len(h.header["Content-Length"]) > 1 || len(coding) > 0 && (length >= 0 || !atLeast11)
	if len(coding) > 0 && atLeast11 {
		if len(coding) > 1 || !strings.EqualFold(coding[0], "chunked") {
			return malformed("unknown transfer coding")
		}
		h.chunked, length = true, -1
	}
	if noBody := h.status/100 == 1 || h.status == http.StatusNoContent || h.status == http.StatusNotModified; noBody {
		// Whoever announces a body where none can be may send it all the same.
		h.last = h.last || h.chunked || length > 0
		h.chunked, length = false, 0
	}
	h.length = length
	h.last = h.last || length < 0 && !h.chunked || h.says("close") || !atLeast11 && !h.says("keep-alive")
	return nil
}

// contentLength returns -1 when there is none. Equal ones count once.
func contentLength(values []string) (int64, error) {
	if len(values) == 0 {
		return -1, nil
	}
	first := textproto.TrimString(values[0])
	differs := func(v string) bool { return textproto.TrimString(v) != first }
	n, err := strconv.ParseUint(first, 10, 63)
	if err != nil || slices.ContainsFunc(values, differs) {
		return 0, malformed("invalid content length")
	}
	return int64(n), nil
}

// says reports whether the connection header has a word in it.
func (h *head) says(word string) bool {
	return httpguts.HeaderValuesContainsToken(h.header["Connection"], word)
}
