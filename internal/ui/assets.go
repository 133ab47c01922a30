package ui

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/ui/static"
)

const assetsPath = "/ui/static/"

// assets serves what browsers may keep for ever. Each file is compressed once: they
// hold no secret that its length could give away, as pages do.
type assets struct {
	plain, packed map[string][]byte // by name with hash
}

func newAssets() *assets {
	a := &assets{plain: make(map[string][]byte), packed: make(map[string][]byte)}
	for _, name := range static.Names() {
		content, err := fs.ReadFile(static.FS(), name)
		if err != nil {
			continue // cannot happen: it is embedded
		}
		a.plain[name] = content
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is right
		_, _ = z.Write(content)                               // a buffer takes everything
		_ = z.Close()
		a.packed[name] = b.Bytes()
	}
	return a
}

// Path implements site.Assets.
func (a *assets) Path(name string) string { return assetPath(name) }

func assetPath(name string) string { return assetsPath + static.Name(name) }

// ServeHTTP implements http.Handler.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, assetsPath)
	content, known := a.plain[name]
	if !known {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		content = a.packed[name]
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content)
}
