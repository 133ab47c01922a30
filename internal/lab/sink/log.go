package sink

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// entry is one request in the log. Status 0 means that the connection was
// reset.
type entry struct {
	Time      time.Time `json:"t"`
	WebhookID string    `json:"webhook_id,omitempty"`
	Delivery  string    `json:"delivery,omitempty"`
	Attempt   int       `json:"attempt,omitempty"`
	Type      string    `json:"type,omitempty"`
	Path      string    `json:"path"`
	Status    int       `json:"status"`
	InFlight  int64     `json:"in_flight"`
	Duplicate bool      `json:"duplicate"`
	Early     bool      `json:"early,omitempty"` // within a Retry-After
	Signature string    `json:"signature"`
}

func (e *entry) readHeaders(h http.Header) {
	e.WebhookID = h.Get("webhook-id")
	if t := h.Get("breakwater-type"); hook.CheckType(t) == nil { // else it is nothing to print
		e.Type = t
	}
	e.Delivery = h.Get("breakwater-delivery")
	e.Attempt, _ = strconv.Atoi(h.Get("breakwater-attempt")) // a hint; 0 when absent
}

// requestLog writes entries as JSON lines. A nil log does nothing.
type requestLog struct {
	mu  sync.Mutex // buffered writing only, the flush excepted
	buf *bufio.Writer
}

func newRequestLog(w io.Writer) *requestLog {
	if w == nil {
		return nil
	}
	return &requestLog{buf: bufio.NewWriterSize(w, 64<<10)}
}

func (l *requestLog) write(e entry) {
	if l == nil {
		return
	}
	line, err := json.Marshal(e)
	if err != nil { // an entry has nothing that cannot be marshalled
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.buf.Write(append(line, '\n')) // bufio keeps the error for flush
}

func (l *requestLog) flush() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.buf.Flush(); err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	return nil
}
