package kit

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/pause"
)

const (
	// maxStreamed bounds one line of a stream: the largest payload in base64 and more.
	maxStreamed = 64 << 20
	// reopen is how long a stream that broke is left alone.
	reopen = 2 * time.Second
	// Resumable is how old something may be behind which a stream goes on.
	Resumable = 4 * time.Minute
)

// Stream is a stream of server-sent events.
type Stream struct {
	Path  string
	Query url.Values
	Last  string // id of the last event that was seen; it moves on
	Each  func(name, id, data string) error
	Open  func() error // called once, when nothing that happens is missed any more; may be nil
}

// Follow hands events to st.Each until ctx ends or something fails. A stream that ends
// after it was open is opened again: whoever watches wants to go on.
func (s *Session) Follow(ctx context.Context, c *Client, st *Stream) error {
	for was := false; ; {
		opened, err := c.stream(ctx, st)
		_, unreachable := errors.AsType[*UnreachableError](err)
		if ctx.Err() != nil || !unreachable || !opened && !was {
			return cmp.Or(ctx.Err(), err)
		}
		if opened {
			was = true
			s.Note("the stream has ended; trying again")
		}
		pause.For(ctx, reopen)
	}
}

// stream reads a stream until it ends, which is an *UnreachableError: servers do not
// end them.
func (c *Client) stream(ctx context.Context, st *Stream) (opened bool, err error) {
	r := Request{Method: http.MethodGet, Path: st.Path, Query: st.Query}
	if st.Last != "" {
		r.Header = http.Header{"Last-Event-Id": {st.Last}}
	}
	resp, err := c.Do(ctx, r)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if open := st.Open; open != nil {
		st.Open = nil
		if err := open(); err != nil {
			return true, err
		}
	}
	return true, readEvents(resp.Body, func(name, id, data string) error {
		if id != "" {
			st.Last = max(st.Last, id) // what was stored late comes late
		}
		return st.Each(name, id, data)
	})
}

func readEvents(from io.Reader, each func(name, id, data string) error) error {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxStreamed)
	var name, id string
	var data []string
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "": // the end of an event, or a comment
			if lines.Text() == "" && name != "" {
				if err := each(name, id, strings.Join(data, "\n")); err != nil {
					return err
				}
				name, id, data = "", "", nil
			}
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			data = append(data, value)
		}
	}
	if err := lines.Err(); err != nil {
		return Unreachable(fmt.Errorf("read stream: %w", err))
	}
	return Unreachable(errors.New("the server has ended the stream"))
}
