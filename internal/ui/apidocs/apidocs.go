// Package apidocs is the page /docs: it shows the OpenAPI document of the server to
// people, with every route, answer, schema and example.
//
// The page is made once, on the server, and asks no other host for anything. It needs
// no key, for the document needs none either. It sends no request to the API and
// knows no resource: what it says is what the document says.
package apidocs

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

// Path is where the page is.
const Path = "/docs"

//go:embed templates/docs.html
var files embed.FS

// Config is what New needs. All fields are required.
type Config struct {
	Document []byte                   // OpenAPI 3.1, JSON
	Asset    func(name string) string // address of a style sheet, module or picture
}

// Page serves the page. Make one with New.
type Page struct{ plain, packed []byte }

// New reads the document and makes the page.
func New(cfg Config) (*Page, error) {
	var doc document
	if err := json.Unmarshal(cfg.Document, &doc); err != nil {
		return nil, fmt.Errorf("apidocs: read document: %w", err)
	}
	t, err := template.New("docs.html").Funcs(template.FuncMap{
		"asset": cfg.Asset, "prose": prose, "breakable": breakable, "lower": strings.ToLower,
	}).ParseFS(files, "templates/docs.html")
	if err != nil {
		return nil, fmt.Errorf("apidocs: read template: %w", err)
	}
	var page, packed bytes.Buffer
	if err := t.Execute(&page, contentOf(&doc)); err != nil {
		return nil, fmt.Errorf("apidocs: write page: %w", err)
	}
	z := gzip.NewWriter(&packed) // the page holds no secret that its length could give away
	_, _ = z.Write(page.Bytes()) // a buffer takes everything
	_ = z.Close()
	return &Page{plain: page.Bytes(), packed: packed.Bytes()}, nil
}

// prose sets what is between backticks as code.
func prose(text string) template.HTML {
	var b strings.Builder
	for i, piece := range strings.Split(text, "`") {
		escaped := template.HTMLEscapeString(piece)
		if i%2 == 1 {
			escaped = "<code>" + escaped + "</code>"
		}
		b.WriteString(escaped)
	}
	return template.HTML(b.String()) //nolint:gosec // every piece is escaped
}

// breakable lets a path go on in the next line before each slash.
func breakable(path string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(path), "/", "<wbr>/")) //nolint:gosec // escaped
}

// policy is what the page may load and do: nothing but what comes from here.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP serves the page.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "this page can only be read", http.StatusMethodNotAllowed)
		return
	case r.URL.Path == Path+"/":
		http.Redirect(w, r, Path, http.StatusMovedPermanently)
		return
	case r.URL.Path != Path:
		http.Error(w, "there is no such page; the documentation of the API is at "+Path, http.StatusNotFound)
		return
	}
	page := p.plain
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		page = p.packed
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(page)))
	_, _ = w.Write(page) // a reader that has left is not our concern
}
