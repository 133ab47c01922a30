package site

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
)

// backend asks the product's own API, inside the process, for the person who looks
// at a page: what a key may see, what is checked and what goes into the audit log is
// decided there, once.
type backend struct {
	api    http.Handler
	actor  rest.Actor
	remote string // address of the browser
	via    http.Header
}

// Problem is the API's answer to a request that it did not carry out.
type Problem struct {
	Status int          `json:"status"`
	Code   string       `json:"code"`
	Detail string       `json:"detail"`
	Errors []FieldError `json:"errors"`
}

// FieldError is what is wrong with one field of a request.
type FieldError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// List is what the API answers where there are several.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"`
}

func (p *Problem) Error() string { return p.Detail }

// get reads an object or a list.
func (b *backend) get(ctx context.Context, path string, query url.Values, out any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return b.do(ctx, call{method: http.MethodGet, path: path}, nil, out)
}

// call is what is asked.
type call struct {
	method, path string
	match        string // version that a change is based on; empty: any
}

// do makes a request. in and out may be nil; into a *[]byte goes the answer as it is.
func (b *backend) do(ctx context.Context, c call, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	r, err := http.NewRequestWithContext(rest.WithActor(ctx, b.actor), c.method, c.path, &body)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	r.RequestURI, r.RemoteAddr = c.path, b.remote
	maps.Copy(r.Header, b.via)
	if c.match != "" {
		r.Header.Set("If-Match", strconv.Quote(c.match))
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w := &answer{header: make(http.Header), status: http.StatusOK}
	b.api.ServeHTTP(w, r)
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.status >= http.StatusBadRequest {
		p := &Problem{Status: w.status}
		if err := json.Unmarshal(w.body.Bytes(), p); err != nil || p.Detail == "" {
			p.Detail = http.StatusText(w.status)
		}
		return p
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = w.body.Bytes()
		return nil
	}
	if err := json.Unmarshal(w.body.Bytes(), out); err != nil {
		return fmt.Errorf("read answer of %s %s: %w", c.method, c.path, err)
	}
	return nil
}

// answer keeps what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
	begun  bool
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if !a.begun {
		a.status, a.begun = status, true
	}
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.body.Write(b)
}
