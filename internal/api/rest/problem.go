package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"time"
)

// Problem is the answer to a request that failed: RFC 9457 with a code. The
// code is API, the text is not.
type Problem struct {
	Type      string         `json:"type" doc:"urn:breakwater:problem:<code>"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail" doc:"For people; may change."`
	Code      string         `json:"code" doc:"For programs; does not change."`
	RequestID string         `json:"request_id"`
	Errors    []FieldProblem `json:"errors,omitempty" doc:"Every field that broke a rule."`
	Current   string         `json:"current,omitempty" doc:"The state that stands in the way (state_conflict)."`

	retryAfter time.Duration
	allow      string
}

// FieldProblem names one field and the rule it broke.
type FieldProblem struct {
	Path    string `json:"path" doc:"JSON path in the body, or query.…, header.…"`
	Code    string `json:"code"`
	Message string `json:"message"`

	// top is the code of the whole problem when every field has the same one,
	// e.g. url_blocked.
	top string
}

// NewProblem returns the problem of a status and a code.
func NewProblem(status int, code, detail string) *Problem {
	return &Problem{
		Type:   "urn:breakwater:problem:" + code,
		Title:  http.StatusText(status),
		Status: status,
		Detail: detail,
		Code:   code,
	}
}

// Later is a problem that passes by itself; the client may try again after a while.
func Later(status int, code, detail string, wait time.Duration) *Problem {
	p := NewProblem(status, code, detail)
	p.retryAfter = wait
	return p
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus makes a Problem an error that huma writes as it is.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type that huma answers with.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// JSON is the media type of bodies.
const JSON = "application/json"

// GetHeaders returns the headers that go with the problem.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="breakwater"`)
	}
	return h
}

// RetryAfter is how long the client should wait before it tries again; 0: no
// advice.
func (p *Problem) RetryAfter() time.Duration { return p.retryAfter }

// Fail answers a plain request with what err means.
func (s *Server) Fail(w http.ResponseWriter, c *Call, err error) { s.write(w, c, s.Problem(c, err)) }

// write sends a problem document.
func (s *Server) write(w http.ResponseWriter, c *Call, p *Problem) {
	q := *p // some problems are shared
	q.RequestID = c.ID
	h := w.Header()
	maps.Copy(h, q.GetHeaders())
	h.Set("Content-Type", problemType)
	body, err := json.Marshal(&q)
	if err != nil {
		body = []byte(`{"code":"internal","status":500}`)
	}
	w.WriteHeader(q.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone; nobody else to tell
}

// WriteJSON sends a JSON answer of a plain handler.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
