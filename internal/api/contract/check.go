package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Watch serves h and reports what the document does not describe: of the answers,
// and of the requests that succeeded.
func (d *Document) Watch(h http.Handler, report func(error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent []byte
		if r.Body != nil {
			var err error
			sent, err = io.ReadAll(r.Body)
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(sent), broken{err}))
		}
		header := r.Header.Clone() // a handler may change what it got
		out := &recorded{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(out, r)
		r.Header = header
		if err := d.check(r, sent, out); err != nil {
			report(fmt.Errorf("%s %s = %d %.500s\nis not as the document says: %w", r.Method, r.URL, out.status, out.body.Bytes(), err))
		}
	})
}

// broken ends a body as it ended.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) {
	if b.err == nil {
		return 0, io.EOF
	}
	return 0, b.err
}

// recorded remembers an answer.
type recorded struct {
	http.ResponseWriter
	status int
	begun  bool
	body   bytes.Buffer
}

func (w *recorded) WriteHeader(status int) {
	if !w.begun {
		w.status, w.begun = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorded) Write(b []byte) (int, error) {
	w.begun = true
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorded) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// find returns the operation of a request, if there is one.
func (d *Document) find(r *http.Request) (operation, bool) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if path.Clean(r.URL.Path) != r.URL.Path && path.Clean(r.URL.Path)+"/" != r.URL.Path {
		return operation{}, false
	}
	u := *r.URL
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/"), strings.TrimSuffix(u.RawPath, "/")
	_, pattern := d.mux.Handler(&http.Request{Method: method, URL: &u, Host: r.Host})
	m, at, ok := strings.Cut(pattern, " ")
	if !ok || m != method {
		return operation{}, false
	}
	return operation{m, at, object(object(object(d.doc["paths"])[at])[strings.ToLower(m)])}, true
}

func (d *Document) check(r *http.Request, sent []byte, out *recorded) error {
	op, known := d.find(r)
	if !known {
		if out.status < 400 {
			return errors.New("there is no such route")
		}
		return d.checkProblem(out)
	}
	wrong := d.checkAnswer(op, r.Method == http.MethodHead, out)
	if out.status < 300 {
		wrong = errors.Join(wrong, d.checkRequest(op, r, sent))
	}
	return wrong
}

// checkProblem checks an answer that belongs to no route.
func (d *Document) checkProblem(out *recorded) error {
	if media := mediaOf(out.Header()); media != "application/problem+json" {
		return fmt.Errorf("a problem of type %q", media)
	}
	if out.body.Len() == 0 {
		return nil // the answer to HEAD
	}
	return d.checkJSON(d.problem, out.body.Bytes())
}

func (d *Document) checkAnswer(op operation, head bool, out *recorded) error {
	at := "/paths/" + escape(op.path) + "/" + strings.ToLower(op.method) + "/responses/"
	responses, status := object(op.spec["responses"]), strconv.Itoa(out.status)
	if responses[status] == nil && out.status == http.StatusInternalServerError { // all others are foreseen
		status = "default"
	}
	if responses[status] == nil {
		return errors.New("its status is not described")
	}
	response, at := d.resolve(responses[status], at+status)
	content := object(response["content"])
	if len(content) == 0 {
		d.saw(mark(op, status, ""))
		if out.body.Len() > 0 {
			return errors.New("its body is not described")
		}
		return nil
	}
	media := mediaOf(out.Header())
	if content[media] == nil {
		return fmt.Errorf("its type %q is not described", media)
	}
	if head {
		return nil
	}
	d.saw(mark(op, status, media))
	if media == "text/event-stream" {
		return checkStream(out.body.Bytes())
	}
	if !isJSON(media) {
		return nil
	}
	err := d.checkJSON(at+"/content/"+escape(media)+"/schema", out.body.Bytes())
	return errors.Join(err, checkHeaders(object(response["headers"]), out.Header()), checkNumbers(out.body.Bytes()))
}

// checkHeaders looks for the headers that an answer must have.
func checkHeaders(described map[string]any, got http.Header) error {
	for name, spec := range described {
		if object(spec)["required"] == true && got.Get(name) == "" {
			return fmt.Errorf("header %s is missing", name)
		}
	}
	return nil
}

func (d *Document) saw(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[s] = true
}

// checkRequest checks a request that was answered with success.
func (d *Document) checkRequest(op operation, r *http.Request, sent []byte) error {
	if op.spec["security"] != nil && r.Header.Get("Authorization") == "" {
		return errors.New("it had no key, which is needed")
	}
	if err := d.checkQuery(op, r.URL.Query()); err != nil {
		return err
	}
	body := object(op.spec["requestBody"])
	switch {
	case body == nil && len(sent) > 0:
		return errors.New("its body is not described")
	case len(sent) == 0 && body["required"] == true:
		return errors.New("it had no body, which is required")
	case len(sent) == 0:
		return nil
	}
	media := mediaOf(r.Header)
	content := object(body["content"])
	if media == "" || media == "application/x-www-form-urlencoded" || media == "text/json" {
		media = "application/json" // what curl sends is read as that
	}
	if content[media] == nil {
		return fmt.Errorf("the type %q of its body is not described", media)
	}
	at := "/paths/" + escape(op.path) + "/" + strings.ToLower(op.method) + "/requestBody/content/" + escape(media) + "/schema"
	if err := d.checkJSON(at, sent); err != nil {
		return fmt.Errorf("its body: %w", err)
	}
	return nil
}

// checkQuery checks that every parameter is described, and has a value that is.
func (d *Document) checkQuery(op operation, query url.Values) error {
	list, _ := op.spec["parameters"].([]any)
	for name, values := range query {
		found := false
		for i, p := range list {
			if object(p)["in"] != "query" || text(object(p)["name"]) != name {
				continue
			}
			found = true
			at := fmt.Sprintf("/paths/%s/%s/parameters/%d/schema", escape(op.path), strings.ToLower(op.method), i)
			if err := d.checkParam(at, object(object(p)["schema"]), values); err != nil {
				return fmt.Errorf("parameter %s: %w", name, err)
			}
		}
		if !found {
			return fmt.Errorf("parameter %s is not described", name)
		}
	}
	return nil
}

// checkParam reads the values of a parameter as its schema wants them.
func (d *Document) checkParam(at string, schema map[string]any, values []string) error {
	s, err := d.schema(at)
	if err != nil {
		return err
	}
	var value any = values[0]
	switch types := fmt.Sprint(schema["type"]); {
	case strings.Contains(types, "array"):
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		value = list
	case strings.Contains(types, "integer"), strings.Contains(types, "number"), strings.Contains(types, "boolean"):
		if err := json.Unmarshal([]byte(values[0]), &value); err != nil {
			return fmt.Errorf("%q: %w", values[0], err)
		}
	}
	return s.Validate(value)
}
