package site

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/sse"
	"github.com/breakwaterhq/breakwater/internal/portal"
	"github.com/breakwaterhq/breakwater/internal/ui/session"
)

// Assets are the style sheet, the module and the pictures. Their addresses change
// with their content.
type Assets interface {
	http.Handler
	// Path returns the address of a file.
	Path(name string) string
}

// Logouts remembers sessions that were ended before their time.
type Logouts interface {
	EndSession(ctx context.Context, id [16]byte, until, now time.Time) error
	SessionEnded(ctx context.Context, id [16]byte) (bool, error)
}

// Section is a part of the dashboard: some pages, what their forms do, and the
// templates of both.
type Section struct {
	Pages     []Page
	Actions   []Action
	Downloads []Download
	Templates fs.FS // *.html
}

// Config is what New needs. Fields are required unless a default is named.
type Config struct {
	API      http.Handler // the product's own
	Vault    session.Sealer
	Logouts  Logouts
	Assets   Assets
	Sections []Section
	Places   []Place // of the navigation
	Version  string
	Node     string
	Vendor   Vendor // whose portal it is
	// Secure tells that browsers reach the server over TLS, also behind a proxy.
	Secure bool
	Log    *slog.Logger     // nil: discarded
	Now    func() time.Time // nil: time.Now
}

// Site serves the dashboard. Make one with New.
type Site struct {
	cfg       Config
	mux       *http.ServeMux
	templates *template.Template
	guard     *http.CrossOriginProtection
	streams   *sse.Room[[16]byte]
	brand     sheet
}

// New checks cfg, fills in defaults, reads the templates, and starts nothing.
func New(cfg Config) (*Site, error) {
	if cfg.API == nil || cfg.Vault == nil || cfg.Logouts == nil || cfg.Assets == nil {
		return nil, errors.New("ui: API, Vault, Logouts and Assets are required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Site{cfg: cfg, mux: http.NewServeMux(), guard: http.NewCrossOriginProtection(), streams: sse.NewRoom[[16]byte](maxStreams, maxStreamsOfSession), brand: newSheet(cfg.Vendor.Color)}
	var err error
	if s.templates, err = readTemplates(cfg.Assets, cfg.Sections); err != nil {
		return nil, err
	}
	s.mux.Handle("GET "+staticPath, cfg.Assets)
	s.mux.HandleFunc("GET /ui/login", s.showLogin)
	s.mux.HandleFunc("POST /ui/login", s.login)
	s.mux.HandleFunc("POST /ui/logout", s.logout)
	s.mux.HandleFunc("POST /ui/theme", s.chooseTheme)
	s.mux.HandleFunc("GET "+portal.Path, s.openPortal)
	s.mux.HandleFunc("GET "+brandPath, s.serveBrand)
	for _, section := range cfg.Sections {
		if err := s.add(section); err != nil {
			return nil, err
		}
	}
	s.mux.HandleFunc("GET /ui/", func(w http.ResponseWriter, r *http.Request) { s.show(w, r, &unknown) })
	return s, nil
}

// add registers the pages and actions of a section. A page without its template
// would be found by whoever opens it first.
func (s *Site) add(section Section) error {
	for _, p := range section.Pages {
		for _, name := range append([]string{p.Template}, p.Live...) {
			if s.templates.Lookup(name) == nil {
				return fmt.Errorf("ui: page %s: no template %q", p.Path, name)
			}
		}
		s.mux.HandleFunc("GET "+p.Path, func(w http.ResponseWriter, r *http.Request) { s.show(w, r, &p) })
	}
	for _, d := range section.Downloads {
		s.mux.HandleFunc("GET "+d.Path, func(w http.ResponseWriter, r *http.Request) { s.download(w, r, &d) })
	}
	for _, a := range section.Actions {
		page := pageOf(&a, section.Pages)
		s.mux.HandleFunc("POST "+a.Path, func(w http.ResponseWriter, r *http.Request) { s.act(w, r, &a, page) })
	}
	return nil
}

// pageOf returns the page that the form of an action stands on: who does not have the
// page cannot send the form. nil: the form stands on several.
func pageOf(a *Action, pages []Page) *Page {
	for i := range pages {
		if a.Form == nil && pages[i].Path == a.Path {
			return &pages[i]
		}
	}
	return a.Form
}

const staticPath = "/ui/static/"

// policy is what a page may load and do: nothing but what comes from here.
func policy(images, ancestors string) string {
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:" + images + "; connect-src 'self'; " +
		"form-action 'self'; frame-ancestors " + ancestors + "; base-uri 'none'"
}

// ServeHTTP serves everything under /ui.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy("", "'none'"))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	defer func() {
		if p := recover(); p != nil && p != http.ErrAbortHandler { //nolint:errorlint // what was thrown is no error that wraps
			s.cfg.Log.Error("page panicked", "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			s.fail(w, r, errors.New("panic"))
		}
	}()
	if err := s.guard.Check(r); err != nil {
		s.refuse(w, r, http.StatusForbidden, "This form was sent from another site.", "Open the page here and send it again.")
		return
	}
	if len(r.URL.Path) > len("/ui/") && strings.HasSuffix(r.URL.Path, "/") && r.Method == http.MethodGet {
		r.URL.Path = strings.TrimRight(r.URL.Path, "/")
		http.Redirect(w, r, r.URL.RequestURI(), http.StatusMovedPermanently)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// Stop ends all streams: their browsers come back to whoever serves then.
func (s *Site) Stop() { s.streams.Stop() }
