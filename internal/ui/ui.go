package ui

import (
	"context"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"time"

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

// Config is what New needs. Fields are required unless a default is named.
type Config struct {
	API     http.Handler // the product's own
	Vault   session.Sealer
	Logouts Logouts
	Assets  Assets
	Version string
	Node    string
	// Secure tells that browsers reach the server over TLS, also behind a proxy.
	Secure bool
	Log    *slog.Logger     // nil: discarded
	Now    func() time.Time // nil: time.Now
}

// UI serves the dashboard. Make one with New.
type UI struct {
	cfg       Config
	mux       *http.ServeMux
	templates *template.Template
	guard     *http.CrossOriginProtection
}

// New checks cfg, fills in defaults, reads the templates, and starts nothing.
func New(cfg Config) (*UI, error) {
	if cfg.API == nil || cfg.Vault == nil || cfg.Logouts == nil || cfg.Assets == nil {
		return nil, errors.New("ui: API, Vault, Logouts and Assets are required")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	u := &UI{cfg: cfg, mux: http.NewServeMux(), guard: http.NewCrossOriginProtection()}
	var err error
	if u.templates, err = readTemplates(cfg.Assets); err != nil {
		return nil, err
	}
	u.mux.Handle("GET "+staticPath, cfg.Assets)
	u.mux.HandleFunc("GET /ui/login", u.showLogin)
	u.mux.HandleFunc("POST /ui/login", u.login)
	u.mux.HandleFunc("POST /ui/logout", u.logout)
	for _, p := range pages {
		u.mux.HandleFunc("GET "+p.path, func(w http.ResponseWriter, r *http.Request) { u.show(w, r, p) })
	}
	u.mux.HandleFunc("GET /ui/", func(w http.ResponseWriter, r *http.Request) { u.show(w, r, unknown) })
	return u, nil
}

const staticPath = "/ui/static/"

// policy is what a page may load and do: nothing but what comes from here.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP serves everything under /ui.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if err := u.guard.Check(r); err != nil {
		u.refuse(w, r, http.StatusForbidden, "This form was sent from another site.", "Open the page here and send it again.")
		return
	}
	u.mux.ServeHTTP(w, r)
}
