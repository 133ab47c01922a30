package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Problems that need no details. They are copied before they are sent.
var (
	errNotFound       = NewProblem(http.StatusNotFound, "not_found", "there is no such object, or this key may not see it")
	errNoRoute        = NewProblem(http.StatusNotFound, "not_found", "there is no such path")
	errTenantRequired = NewProblem(http.StatusBadRequest, "tenant_required", "this needs one tenant: name it in the path instead of -")
	errUnauthorized   = NewProblem(http.StatusUnauthorized, "unauthenticated", "a valid key is needed: Authorization: Bearer bw_…")
)

func errForbidden(s hook.Scope) *Problem {
	return NewProblem(http.StatusForbidden, "forbidden_scope", "a key with scope "+s.String()+" may not do this")
}

// Forbidden is a request that no scope would allow.
func Forbidden(detail string) *Problem {
	return NewProblem(http.StatusForbidden, "forbidden_scope", detail)
}

func errTooManyBadKeys(wait time.Duration) *Problem {
	p := NewProblem(http.StatusTooManyRequests, "rate_limited", "too many requests with wrong keys from this address")
	p.retryAfter = wait
	return p
}

func errInvalidJSON(detail string) *Problem {
	return NewProblem(http.StatusBadRequest, "invalid_json", detail)
}

func errMediaType(detail string) *Problem {
	return NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", detail)
}

// TooLarge is a body, or a part of it, with more bytes than are taken.
func TooLarge(limit int64) *Problem {
	return NewProblem(http.StatusRequestEntityTooLarge, "payload_too_large", fmt.Sprintf("at most %d bytes are taken here", limit))
}

// Conflict says that the object's state stands in the way.
func Conflict(current, detail string) *Problem {
	p := NewProblem(http.StatusConflict, "state_conflict", detail)
	p.Current = current
	return p
}

func errInvalidCursor() *Problem {
	return NewProblem(http.StatusBadRequest, "invalid_cursor", "the cursor does not belong to this list, filter and order")
}

// BadParameter is a query parameter or header that is known but malformed.
func BadParameter(path, message string) *Problem {
	p := NewProblem(http.StatusBadRequest, "invalid_parameter", path+" "+message)
	p.Errors = []FieldProblem{{Path: path, Code: "invalid", Message: message}}
	return p
}

// sentinels maps the errors every layer agrees on to answers.
var sentinels = []struct {
	err    error
	status int
	code   string
	wait   time.Duration // Retry-After
}{
	{hook.ErrUIDTaken, http.StatusConflict, "uid_taken", 0},
	{hook.ErrVersionMismatch, http.StatusPreconditionFailed, "version_mismatch", 0},
	{hook.ErrStateConflict, http.StatusConflict, "state_conflict", 0},
	{hook.ErrTooManySecrets, http.StatusConflict, "state_conflict", 0},
	{hook.ErrTenantNotEmpty, http.StatusConflict, "tenant_not_empty", 0},
	{hook.ErrLastAdminKey, http.StatusConflict, "last_admin_key", 0},
	{hook.ErrRepeated, http.StatusConflict, "state_conflict", 0},
	{hook.ErrKeyReused, http.StatusConflict, "idempotency_key_reused", 0},
	{hook.ErrFanoutTooBig, http.StatusUnprocessableEntity, "fanout_too_large", 0},
	{hook.ErrTooLarge, http.StatusRequestEntityTooLarge, "payload_too_large", 0},
	{hook.ErrRateLimited, http.StatusTooManyRequests, "rate_limited", time.Second},
	{hook.ErrBacklogFull, http.StatusTooManyRequests, "backlog_full", 10 * time.Second},
	{hook.ErrTenantFull, http.StatusInsufficientStorage, "tenant_storage_full", 10 * time.Minute},
	{hook.ErrOverloaded, http.StatusServiceUnavailable, "overloaded", time.Second},
	{hook.ErrDraining, http.StatusServiceUnavailable, "draining", 5 * time.Second},
	{store.ErrDamaged, http.StatusServiceUnavailable, "store_damaged", 30 * time.Second},
	{hook.ErrStoreUnavailable, http.StatusServiceUnavailable, "store_unavailable", 2 * time.Second},
	{hook.ErrStoreFull, http.StatusInsufficientStorage, "disk_full", 30 * time.Second},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "overloaded", 2 * time.Second},
	{context.Canceled, http.StatusServiceUnavailable, "store_unavailable", 2 * time.Second},
}

// details say what some of them mean to people who know nothing of contexts.
var details = map[error]string{
	context.DeadlineExceeded: "it took too long: the server or its database is busy",
	context.Canceled:         "it was given up before it was done",
}

// Problem turns an error into the answer for it. What nobody foresaw is logged
// here, because the answer must not carry its text.
func (s *Server) Problem(c *Call, err error) *Problem {
	p := problemOf(err)
	c.repeated = c.repeated || errors.Is(err, hook.ErrRepeated)
	if p == nil {
		s.log.Error("request failed", "request_id", c.ID, "error", err)
		p = NewProblem(http.StatusInternalServerError, "internal", "something went wrong on our side")
	}
	q := *p
	q.RequestID = c.ID
	return &q
}

// problemOf returns the answer for an error we know, else nil.
func problemOf(err error) *Problem {
	var p *Problem
	var bad *Invalid
	var refused *hook.Invalid
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &bad):
		return bad.problem()
	case errors.As(err, &refused):
		return fromInvalid(refused).problem()
	case errors.Is(err, hook.ErrUnknownTarget):
		return FieldError("endpoints", "unknown", "names an endpoint that does not exist").problem()
	case errors.Is(err, hook.ErrNotFound):
		return errNotFound
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			p := NewProblem(s.status, s.code, cmp.Or(details[s.err], s.err.Error()))
			p.retryAfter = s.wait
			var timed interface{ RetryAfter() time.Duration }
			if errors.As(err, &timed) {
				p.retryAfter = timed.RetryAfter()
			}
			return p
		}
	}
	return nil
}

const (
	// MaxErrors bounds the fields that one answer names. Whoever reads a body
	// stops there: how many rules it can break is its sender's choice.
	MaxErrors = 20
	// maxPath and maxMessage bound what an answer repeats of a request.
	maxPath    = 200
	maxMessage = 500
	maxDetail  = 2000
)

// Invalid collects the fields of a request that broke a rule, so that all of
// them are named at once, or the first 20.
type Invalid struct{ fields []FieldProblem }

// Full reports whether nothing more is taken.
func (e *Invalid) Full() bool { return len(e.fields) >= MaxErrors }

// put adds one field, as far as there is room.
func (e *Invalid) put(f FieldProblem) {
	if e.Full() {
		return
	}
	f.Path, f.Message = cut(f.Path, maxPath), cut(f.Message, maxMessage)
	e.fields = append(e.fields, f)
}

// At is the path of an element of a list.
func At(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// cut shortens a text to about limit bytes, and shows that it did.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return begin(s, limit) + "…"
}

// begin returns the beginning of a text, whole characters only.
func begin(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

func (e *Invalid) Error() string {
	parts := make([]string, len(e.fields))
	for i, f := range e.fields {
		parts[i] = f.Path + " " + f.Message
	}
	return strings.Join(parts, "; ")
}

// Add adds a field that broke a rule.
func (e *Invalid) Add(path, code, message string) {
	e.put(FieldProblem{Path: path, Code: code, Message: message})
}

// AddAs adds a field that has a code of its own in the table of codes.
func (e *Invalid) AddAs(top, path, message string) {
	e.put(FieldProblem{Path: path, Code: top, Message: message, top: top})
}

// Err returns e as an error, or nil when every field was fine.
func (e *Invalid) Err() error {
	if len(e.fields) == 0 {
		return nil
	}
	return e
}

// Names reports whether the field at path is among them.
func (e *Invalid) Names(path string) bool {
	return slices.ContainsFunc(e.fields, func(f FieldProblem) bool { return f.Path == path })
}

// Under puts a prefix before every path: the fields are those of a part.
func (e *Invalid) Under(prefix string) {
	for i := range e.fields {
		e.fields[i].Path = prefix + e.fields[i].Path
	}
}

// FieldError is an Invalid of one field.
func FieldError(path, code, message string) *Invalid {
	e := &Invalid{}
	e.Add(path, code, message)
	return e
}

// fromInvalid takes over what another package refused.
func fromInvalid(in *hook.Invalid) *Invalid {
	e := &Invalid{}
	e.Take(in)
	return e
}

// Take adds what another package refused.
func (e *Invalid) Take(in *hook.Invalid) {
	for _, f := range in.Fields[:min(len(in.Fields), MaxErrors)] {
		if in.Code == "" || in.Code == codeValidation {
			e.Add(f.Path, "invalid", f.Message)
		} else {
			e.AddAs(in.Code, f.Path, f.Message)
		}
	}
}

const codeValidation = "validation_failed"

// problem is 422 with the code that all fields share, else validation_failed.
func (e *Invalid) problem() *Problem {
	code := codeValidation
	for i, f := range e.fields {
		if f.top == "" || (i > 0 && f.top != code) {
			code = codeValidation
			break
		}
		code = f.top
	}
	p := NewProblem(http.StatusUnprocessableEntity, code, cut(e.Error(), maxDetail))
	p.Errors = e.fields
	return p
}
