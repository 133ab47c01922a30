package rest

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// problemAnswer is how the document describes a status that many routes share.
type problemAnswer struct {
	status      int
	name        string // among the components
	description string
	header      string // that comes with it; empty: none
	example     Problem
}

// problemAnswers are the answers of requests that fail.
var problemAnswers = []problemAnswer{
	{http.StatusBadRequest, "BadRequest", "The query, a header or the JSON is malformed, or one tenant must be named (codes invalid_parameter, invalid_cursor, " +
		"invalid_json, tenant_required).", "", example(BadParameter("query.limit", "must be a number from 1 to 250"))},
	{http.StatusUnauthorized, "Unauthenticated", "There is no key, or none that is valid.", "WWW-Authenticate", example(errUnauthorized)},
	{http.StatusForbidden, "Forbidden", "The scope of the key does not allow it.", "", example(errForbidden(hook.ScopeTenantSend))},
	{http.StatusNotFound, "NotFound", "There is no such object, or the key may not see it.", "", example(errNotFound)},
	{
		http.StatusConflict, "Conflict", "Something stands in the way: the state of the object (code state_conflict, with the member current), " +
			"a name that is taken, or an Idempotency-Key that was used for another request.", "",
		example(Conflict("closed", "the breaker is closed: there is nothing to probe")),
	},
	{
		http.StatusPreconditionFailed, "VersionMismatch", "The object has moved on since the version in If-Match.", "",
		example(NewProblem(http.StatusPreconditionFailed, "version_mismatch", hook.ErrVersionMismatch.Error())),
	},
	{http.StatusRequestEntityTooLarge, "TooLarge", "The body, or a payload in it, is too large.", "", example(TooLarge(maxControlBody))},
	{http.StatusUnsupportedMediaType, "UnsupportedMediaType", "The body is compressed or is not JSON.", "", example(errMediaType("the body must be application/json"))},
	{
		http.StatusUnprocessableEntity, "Invalid", "A parameter is unknown, or fields broke a rule: each is named in errors, with the rule.", "",
		example(FieldError("url", "required", "is required").problem()),
	},
	{
		http.StatusTooManyRequests, "TooManyRequests", "Too much at once: requests of this key or address, or events of this tenant.", "Retry-After",
		example(NewProblem(http.StatusTooManyRequests, "rate_limited", "too many requests with wrong keys from this address")),
	},
	{
		http.StatusServiceUnavailable, "Unavailable", "It passes by itself: the store does not answer, the server is busy or about to stop.", "Retry-After",
		example(NewProblem(http.StatusServiceUnavailable, "store_unavailable", hook.ErrStoreUnavailable.Error())),
	},
	{
		http.StatusInsufficientStorage, "StorageFull", "There is no room left: on the disk, or for this tenant.", "Retry-After",
		example(NewProblem(http.StatusInsufficientStorage, "disk_full", hook.ErrStoreFull.Error())),
	},
}

// unforeseen is the answer of a request that failed in a way that nobody foresaw.
var unforeseen = problemAnswer{
	http.StatusInternalServerError, "Unforeseen", "Something went wrong on the server, which has logged it under the request id.", "",
	example(NewProblem(http.StatusInternalServerError, "internal", "something went wrong on our side")),
}

func example(p *Problem) Problem {
	q := *p
	q.RequestID = "req_07yqht7ac0412"
	return q
}

// headerDocs describe the headers of problems.
var headerDocs = map[string]string{
	"WWW-Authenticate": "That a bearer key is needed.",
	"Retry-After":      "Seconds after which to try again.",
}

// response describes the answer in full.
func (a *problemAnswer) response(schema *huma.Schema) *huma.Response {
	r := &huma.Response{
		Description: a.description,
		Content:     map[string]*huma.MediaType{problemType: {Schema: schema, Example: a.example}},
	}
	if a.header != "" {
		r.Headers = map[string]*huma.Param{a.header: {
			Description: headerDocs[a.header], Required: true, Schema: &huma.Schema{Type: huma.TypeString},
		}}
	}
	return r
}

// describeProblems adds the problems that each route can answer with, which follow
// from what it asks for and takes.
func (s *Server) describeProblems() {
	doc := s.huma.OpenAPI()
	schema := s.problemResponse().Content[problemType].Schema
	doc.Components.Responses = map[string]*huma.Response{unforeseen.name: unforeseen.response(schema)}
	for i := range problemAnswers {
		doc.Components.Responses[problemAnswers[i].name] = problemAnswers[i].response(schema)
	}
	for _, op := range operationsOf(doc) {
		statuses := s.problemsOf(op)
		for i := range problemAnswers {
			if a := &problemAnswers[i]; slices.Contains(statuses, a.status) {
				addProblem(op, a, schema)
			}
		}
		delete(op.Responses, "default")
		if op.Security != nil {
			op.Responses["default"] = reference(&unforeseen)
		}
	}
}

func reference(a *problemAnswer) *huma.Response {
	return &huma.Response{Ref: "#/components/responses/" + a.name}
}

// addProblem adds an answer, beside one of the same status that the route has.
func addProblem(op *huma.Operation, a *problemAnswer, schema *huma.Schema) {
	status := strconv.Itoa(a.status)
	own := op.Responses[status]
	if own == nil {
		op.Responses[status] = reference(a)
		return
	}
	if a.status == http.StatusInsufficientStorage {
		return // a batch answers that with its results
	}
	both := *own
	both.Content = maps.Clone(own.Content)
	both.Content[problemType] = &huma.MediaType{Schema: schema, Example: a.example}
	op.Responses[status] = &both
}

// operationsOf returns all operations of the document.
func operationsOf(doc *huma.OpenAPI) []*huma.Operation {
	var out []*huma.Operation
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil {
				out = append(out, op)
			}
		}
	}
	return out
}

// problemsOf returns the statuses of the problems that a route can answer with.
func (s *Server) problemsOf(op *huma.Operation) []int {
	need, _ := op.Metadata[metaNeed].(Need)
	out := []int{http.StatusBadRequest, http.StatusUnprocessableEntity} // every query is read
	if extra, ok := op.Metadata[metaProblems].([]int); ok {
		out = append(out, extra...)
	}
	if need != NeedNothing {
		out = append(out, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable)
		if strings.Contains(op.Path, "{") {
			out = append(out, http.StatusNotFound)
		}
	}
	if need != NeedNothing && need != NeedAnyKey {
		out = append(out, http.StatusForbidden)
	}
	// Operators may delete while the disk is full.
	if rt := (&route{Route: Route{Method: op.Method}, need: need}); need == NeedSend || rt.changes() && (need != NeedAdmin || op.Method != http.MethodDelete) {
		out = append(out, http.StatusInsufficientStorage)
	}
	if op.RequestBody != nil {
		out = append(out, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	for _, p := range op.Parameters {
		switch {
		case p.In == "header" && p.Name == idempotencyKey:
			out = append(out, http.StatusConflict)
		case p.In == "header" && p.Name == "If-Match":
			out = append(out, http.StatusPreconditionFailed)
		}
	}
	return out
}
