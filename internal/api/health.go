package api

import (
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

func (a *API) addHealthRoutes() {
	a.plain(a.healthOperation("livez", "Whether the process works"), needNothing, func(w http.ResponseWriter, r *http.Request) {
		var reasons []string
		if err := a.cfg.Health.Live(); err != nil {
			reasons = []string{err.Error()}
		}
		a.answerHealth(w, r, reasons, nil)
	})
	a.plain(a.healthOperation("readyz", "Whether requests should come here"), needNothing, func(w http.ResponseWriter, r *http.Request) {
		a.answerHealth(w, r, a.cfg.Health.Ready(r.Context()), a.cfg.Health.Warnings())
	})
}

func (a *API) healthOperation(name, summary string) *huma.Operation {
	answer := map[string]*huma.MediaType{"application/json": {Schema: a.schema(reflect.TypeFor[healthAnswer]())}}
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

func (a *API) answerHealth(w http.ResponseWriter, r *http.Request, reasons, warnings []string) {
	body, status := healthAnswer{Status: "ok", Reasons: reasons, Warnings: warnings}, http.StatusOK
	if len(reasons) > 0 {
		body.Status, status = "failing", http.StatusServiceUnavailable
	}
	if r.URL.Query().Has("verbose") {
		body.Version = a.cfg.Version
	}
	out, err := json.Marshal(body)
	if err != nil {
		a.fail(w, callBy(w), err)
		return
	}
	writeJSON(w, status, out)
}
