package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// healthAnswer is what /livez and /readyz say.
type healthAnswer struct {
	Status   string   `json:"status" enum:"ok,failing"`
	Reasons  []string `json:"reasons,omitempty" doc:"With ?verbose, or when failing."`
	Warnings []string `json:"warnings,omitempty" doc:"Of /readyz: what needs a person although requests are welcome."`
	Version  string   `json:"version,omitempty" doc:"With ?verbose."`
}

// Health says whether this process works.
type Health interface {
	Live() error
	// Ready returns the reasons why requests should go elsewhere; none: ready.
	Ready(ctx context.Context) []string
	// Warnings returns what needs a person although the process works.
	Warnings() []string
}

func (s *Server) addHealthRoutes(h Health) {
	s.Plain(s.healthOperation("livez", "Whether the process works"), NeedNothing, func(w http.ResponseWriter, r *http.Request) {
		var reasons []string
		if err := h.Live(); err != nil {
			reasons = []string{err.Error()}
		}
		s.answerHealth(w, r, reasons, nil)
	})
	s.Plain(s.healthOperation("readyz", "Whether requests should come here"), NeedNothing, func(w http.ResponseWriter, r *http.Request) {
		s.answerHealth(w, r, h.Ready(r.Context()), h.Warnings())
	})
}

func (s *Server) healthOperation(name, summary string) *huma.Operation {
	answer := map[string]*huma.MediaType{"application/json": {Schema: s.Schema(reflect.TypeFor[healthAnswer]())}}
	return &huma.Operation{
		OperationID: "get-" + name, Method: http.MethodGet, Path: "/" + name,
		Summary: summary, Tags: []string{"server"},
		Parameters: []*huma.Param{{
			Name: "verbose", In: "query", Description: "Say more.", AllowEmptyValue: true,
			Schema: &huma.Schema{Type: huma.TypeString},
		}},
		Responses: map[string]*huma.Response{
			"200": {Description: "Yes", Content: answer},
			"503": {Description: "No", Content: answer},
		},
	}
}

func (s *Server) answerHealth(w http.ResponseWriter, r *http.Request, reasons, warnings []string) {
	body, status := healthAnswer{Status: "ok", Reasons: reasons, Warnings: warnings}, http.StatusOK
	if len(reasons) > 0 {
		body.Status, status = "failing", http.StatusServiceUnavailable
	}
	if r.URL.Query().Has("verbose") {
		body.Version = s.cfg.Version
	}
	out, err := json.Marshal(body)
	if err != nil {
		s.Fail(w, CallBy(w), err)
		return
	}
	WriteJSON(w, status, out)
}
