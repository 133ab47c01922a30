package site

import (
	"errors"
	"mime"
	"net/http"
	"strconv"
)

// Download is an address that gives the whole of a text that a page shows a part of.
// Others wrote it: a browser keeps it as a file and takes it for nothing else.
type Download struct {
	Path string // a pattern of net/http, without the method
	Load func(*Visit) (File, error)
}

// File is what a download gives.
type File struct {
	Name string
	Body []byte
}

// download answers with a file.
func (s *Site) download(w http.ResponseWriter, r *http.Request, d *Download) {
	v, err := s.visit(w, r)
	if errors.Is(err, errLogin) {
		s.askLogin(w, r)
		return
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	v.Frame = s.frame(v, &unknown)
	file, err := d.Load(v)
	if err != nil {
		s.showProblem(w, v.Frame, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": file.Name}))
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox")
	h.Set("Content-Length", strconv.Itoa(len(file.Body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(file.Body)
}
