// Package sse is what all streams of server-sent events have in common: how many may
// be open, how they are written, and how one follows what is committed.
package sse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

const (
	// retry is when a reader comes back after its stream has ended.
	retry = 2 * time.Second
	// writeFor is how long a reader may take to read what it is sent.
	writeFor = 10 * time.Second
	// commentEvery keeps what is in between from thinking that nobody is there.
	commentEvery = 15 * time.Second
)

// Writer writes the events of one stream.
type Writer struct {
	w      http.ResponseWriter
	out    *http.ResponseController
	wrote  time.Time // by the clock of the kernel
	lagged bool
}

// NewWriter makes the writer of an answer that was not begun.
func NewWriter(w http.ResponseWriter) *Writer {
	return &Writer{w: w, out: http.NewResponseController(w)}
}

// Begin begins the answer. It reports whether the reader took it, as all that writes does.
func (w *Writer) Begin() bool {
	h := w.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	w.w.WriteHeader(http.StatusOK)
	return w.Write([]byte("retry: " + strconv.FormatInt(retry.Milliseconds(), 10) + "\n\n"))
}

// Send writes one event.
func (w *Writer) Send(name string, data any) bool {
	text, err := Encode(data)
	if err != nil {
		return false
	}
	return w.Write(Append(nil, name, "", text))
}

// Encode makes the data of an event: JSON is one line, whatever is in it.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Append adds an event to text. Without id it does not change where the reader is.
func Append(text []byte, name, id string, data []byte) []byte {
	text = append(append(text, "event: "...), name...)
	if id != "" {
		text = append(append(text, "\nid: "...), id...)
	}
	return append(append(append(text, "\ndata: "...), data...), "\n\n"...)
}

// StayAlive writes a comment if nothing was written for a while.
func (w *Writer) StayAlive() bool {
	return time.Since(w.wrote) < commentEvery || w.Write([]byte(": still here\n\n"))
}

// Write sends text at once.
func (w *Writer) Write(text []byte) bool {
	w.wrote = time.Now()
	err := w.out.SetWriteDeadline(w.wrote.Add(writeFor))
	if err == nil {
		_, err = w.w.Write(text)
	}
	if err == nil {
		err = w.out.Flush()
	}
	w.lagged = errors.Is(err, context.DeadlineExceeded) || isTimeout(err)
	return err == nil
}

// Lagged reports whether the last write failed because its reader read too slowly.
func (w *Writer) Lagged() bool { return w.lagged }

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
