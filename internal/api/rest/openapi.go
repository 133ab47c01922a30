package rest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

const securityName = "key"

// humaHooks sets huma's process-wide switches. They are how huma is told to
// use another error type; nothing else in this program uses huma.
var humaHooks = sync.OnceFunc(func() {
	huma.ValidateStrictCasing = true
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return humaProblem(&Call{}, status, msg, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return humaProblem(callOf(ctx.Context()), status, msg, errs)
	}
})

// newHuma returns huma without its docs page (which loads scripts from
// elsewhere), its schema links and its own document routes.
func newHuma(s *Server) huma.API {
	humaHooks()
	cfg := huma.DefaultConfig(s.cfg.Title, s.cfg.Version)
	cfg.Info.Description = s.cfg.About
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", ""
	cfg.CreateHooks = nil
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		securityName: {Type: "http", Scheme: "bearer", Description: "An API key: bw_ and 51 characters."},
	}
	return huma.NewAPI(cfg, humaAdapter{s})
}

// schemaName names a schema after its Go type, without the suffix that tells
// what the API shows from what the program works with.
func schemaName(t reflect.Type, hint string) string {
	return strings.ReplaceAll(huma.DefaultSchemaNamer(t, hint), "View", "")
}

// problemResponse describes the answer to every request that fails.
func (s *Server) problemResponse() *huma.Response {
	return &huma.Response{
		Description: "Problem",
		Content:     map[string]*huma.MediaType{problemType: {Schema: s.Schema(reflect.TypeFor[Problem]())}},
	}
}

// Schema returns a reference to the schema of a type.
func (s *Server) Schema(t reflect.Type) *huma.Schema {
	return s.huma.OpenAPI().Components.Schemas.Schema(t, true, "")
}

// humaProblem says in our words what huma found wrong.
func humaProblem(c *Call, status int, msg string, errs []error) *Problem {
	found := &Invalid{}
	onlyParameters := len(errs) > 0
	for _, err := range errs[:min(len(errs), MaxErrors)] {
		var d huma.ErrorDetailer
		if !errors.As(err, &d) {
			onlyParameters = false
			continue
		}
		f := fieldProblem(d.ErrorDetail())
		found.put(f)
		if !strings.HasPrefix(f.Path, "query.") && !strings.HasPrefix(f.Path, "header.") {
			onlyParameters = false
		}
	}
	var p *Problem
	switch {
	case onlyParameters:
		p = NewProblem(http.StatusBadRequest, "invalid_parameter", cut(found.Error(), maxDetail))
		p.Errors = found.fields
	case len(found.fields) > 0:
		p = found.problem()
	case status == http.StatusBadRequest:
		p = errInvalidJSON(msg)
	case status == http.StatusRequestEntityTooLarge:
		p = TooLarge(maxControlBody)
	case status == http.StatusUnprocessableEntity:
		p = NewProblem(status, codeValidation, msg)
	default:
		p = NewProblem(status, "internal", "something went wrong on our side")
	}
	q := *p
	q.RequestID = c.ID
	return &q
}

// openAnswers lets the described answers have more members than today's, so
// that clients generated from the document live with newer servers. What is
// part of a request stays strict.
func (s *Server) openAnswers() {
	doc := s.huma.OpenAPI()
	strict := map[*huma.Schema]bool{}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Post, item.Put, item.Patch} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			for _, mt := range op.RequestBody.Content {
				collect(doc.Components.Schemas, mt.Schema, strict)
			}
		}
	}
	for _, schema := range doc.Components.Schemas.Map() {
		if closed, ok := schema.AdditionalProperties.(bool); ok && !closed && !strict[schema] {
			schema.AdditionalProperties = nil
		}
	}
}

// collect adds a schema and all it refers to.
func collect(r huma.Registry, s *huma.Schema, into map[*huma.Schema]bool) {
	if s != nil && s.Ref != "" {
		s = r.SchemaFromRef(s.Ref)
	}
	if s == nil || into[s] {
		return
	}
	into[s] = true
	collect(r, s.Items, into)
	for _, p := range s.Properties {
		collect(r, p, into)
	}
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		collect(r, more, into)
	}
}

// complete turns what huma has collected into the document.
func (s *Server) complete() error {
	raw, err := json.Marshal(s.huma.OpenAPI())
	if err != nil {
		return fmt.Errorf("write OpenAPI document: %w", err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		return fmt.Errorf("read OpenAPI document: %w", err)
	}
	// A path alone means where the document came from.
	url := cmp.Or(strings.TrimSuffix(s.cfg.URL, "/"), "/")
	doc["servers"] = []any{map[string]any{"url": url, "description": "This server."}}
	if s.cfg.Complete != nil {
		s.cfg.Complete(doc, s.huma.OpenAPI().Components.Schemas.TypeFromRef)
	}
	if s.spec, err = json.Marshal(doc); err != nil {
		return fmt.Errorf("write OpenAPI document: %w", err)
	}
	return nil
}

// Document returns the OpenAPI document. Nobody may change it.
func (s *Server) Document() []byte { return s.spec }

// addSpecRoute serves the OpenAPI document.
func (s *Server) addSpecRoute() {
	op := &huma.Operation{
		OperationID: "get-openapi", Method: http.MethodGet, Path: "/openapi.json",
		Summary: "This document", Tags: []string{"server"},
		Responses: map[string]*huma.Response{"200": {
			Description: "OpenAPI 3.1",
			Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}},
		}},
	}
	s.Plain(op, NeedNothing, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(s.spec)
	})
}
