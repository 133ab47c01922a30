// Package wire is the load generator's own HTTP/1.1: a client that sends
// requests built in advance and a receiver that answers at once. Both cost a
// few microseconds, because they share the machine with what they measure.
//
// They speak only as much of the protocol as the two sides of a benchmark on
// one machine need: no TLS, no redirects, no trailers, no 1xx answers. Nothing
// of it belongs in a server that strangers can reach.
package wire

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// maxMessage bounds a head or a body. Whatever is larger is a mistake.
const maxMessage = 64 << 20

// Failures of the peer to speak what this package understands.
var (
	errHead     = errors.New("unreadable head of an HTTP message")
	errTooLarge = errors.New("HTTP message is too large")
)

var (
	endOfHead   = []byte("\r\n\r\n")
	endOfLine   = []byte("\r\n")
	lengthName  = []byte("content-length:")
	chunkedName = []byte("transfer-encoding:")
)

// reader reads HTTP messages from a connection into one buffer that it keeps.
type reader struct {
	conn       net.Conn
	buf        []byte
	start, end int // what was read and not yet taken
	body       []byte
}

func newReader(conn net.Conn) reader { return reader{conn: conn, buf: make([]byte, 8<<10)} }

// fill reads more, after making room for it.
func (r *reader) fill() error {
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:r.end])
		r.end -= r.start
		r.start = 0
	}
	if r.end == len(r.buf) {
		if len(r.buf) >= maxMessage {
			return errTooLarge
		}
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.conn.Read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		return nil
	}
	return err
}

// head returns the next head: everything before the empty line. It is valid
// until the next read.
func (r *reader) head() ([]byte, error) {
	if r.start == r.end {
		r.start, r.end = 0, 0
	}
	for from := 0; ; {
		have := r.buf[r.start:r.end]
		if at := bytes.Index(have[from:], endOfHead); at >= 0 {
			r.start += from + at + len(endOfHead)
			return have[:from+at], nil
		}
		from = max(len(have)-len(endOfHead)+1, 0)
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// framing is how a message says where its body ends.
type framing struct {
	length  int
	chunked bool
}

// framingOf reads the two headers that matter. No header at all means no body.
func framingOf(head []byte) (framing, error) {
	var f framing
	_, rest, _ := bytes.Cut(head, endOfLine)
	for len(rest) > 0 {
		var line []byte
		line, rest, _ = bytes.Cut(rest, endOfLine)
		switch {
		case hasPrefixFold(line, lengthName):
			n, err := strconv.Atoi(string(bytes.TrimSpace(line[len(lengthName):])))
			if err != nil || n < 0 || n > maxMessage {
				return f, fmt.Errorf("%w: %q", errHead, line)
			}
			f.length = n
		case hasPrefixFold(line, chunkedName):
			f.chunked = true
		}
	}
	return f, nil
}

// hasPrefixFold compares without regard to case; prefix is in lower case.
func hasPrefixFold(line, prefix []byte) bool {
	if len(line) < len(prefix) || line[0]|0x20 != prefix[0] {
		return false
	}
	return bytes.EqualFold(line[:len(prefix)], prefix)
}

// read returns a body, valid until the next read.
func (r *reader) read(f framing) ([]byte, error) {
	if f.chunked {
		return r.readChunks()
	}
	return r.take(f.length)
}

// take returns the next n bytes.
func (r *reader) take(n int) ([]byte, error) {
	for r.end-r.start < n {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	out := r.buf[r.start : r.start+n]
	r.start += n
	return out, nil
}

// line returns what comes before the next end of line.
func (r *reader) line() ([]byte, error) {
	for {
		have := r.buf[r.start:r.end]
		if at := bytes.Index(have, endOfLine); at >= 0 {
			r.start += at + len(endOfLine)
			return have[:at], nil
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// readChunks joins the chunks of a body.
func (r *reader) readChunks() ([]byte, error) {
	r.body = r.body[:0]
	for {
		text, err := r.line()
		if err != nil {
			return nil, err
		}
		size, err := strconv.ParseUint(string(text), 16, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: chunk of size %q", errHead, text)
		}
		if len(r.body)+int(size) > maxMessage {
			return nil, errTooLarge
		}
		chunk, err := r.take(int(size) + len(endOfLine))
		if err != nil {
			return nil, err
		}
		r.body = append(r.body, chunk[:size]...)
		if size == 0 {
			return r.body, nil
		}
	}
}
