package ui

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
)

//go:embed templates/*.html
var templateFiles embed.FS

func readTemplates(assets Assets) (*template.Template, error) {
	t := template.New("").Funcs(template.FuncMap{"asset": assets.Path})
	t, err := t.ParseFS(templateFiles, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("ui: read templates: %w", err)
	}
	return t, nil
}

// page is one address of the dashboard.
type page struct {
	path     string
	template string
	title    string
	place    string // in the navigation
	// load reads what the page shows.
	load func(*visit) (any, error)
}

var pages []page

var unknown = page{title: "Not found", load: func(*visit) (any, error) {
	return nil, &Problem{Status: http.StatusNotFound, Detail: "There is no such page."}
}}

// Frame is what surrounds every page.
type Frame struct {
	Title   string
	Places  []Place
	Me      *me // nil: nobody is logged in
	Token   string
	Version string
	Node    string
	Theme   string // light, dark; empty: as the system says
	Content any
}

// Place is an entry of the navigation.
type Place struct {
	Name, Path, Keys string
	Current          bool
}

// places are the entries of the navigation; those of operators only are left out
// for tenants.
var places = []struct {
	Place
	operator bool
}{
	{Place{Name: "Overview", Path: "/ui", Keys: "g o"}, false},
	{Place{Name: "Tenants", Path: "/ui/tenants", Keys: "g t"}, true},
	{Place{Name: "Endpoints", Path: "/ui/endpoints", Keys: "g e"}, false},
	{Place{Name: "Deliveries", Path: "/ui/deliveries", Keys: "g d"}, false},
	{Place{Name: "Dead letters", Path: "/ui/dead-letters", Keys: "g x"}, false},
	{Place{Name: "Replays", Path: "/ui/replays", Keys: "g r"}, false},
	{Place{Name: "Alerts", Path: "/ui/alerts", Keys: "g a"}, false},
	{Place{Name: "Playground", Path: "/ui/playground", Keys: "g p"}, false},
	{Place{Name: "Settings", Path: "/ui/settings", Keys: "g s"}, true},
}

// bare is the frame for somebody who is not logged in.
func (u *UI) bare(r *http.Request, title string) Frame {
	f := Frame{Title: title, Version: u.cfg.Version, Node: u.cfg.Node}
	if c, err := r.Cookie("bw_theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		f.Theme = c.Value
	}
	return f
}

// frame is the frame of a visit.
func (u *UI) frame(v *visit, p *page) Frame {
	f := u.bare(v.r, p.title)
	f.Me, f.Token = &v.me, v.session.FormToken()
	for _, pl := range places {
		if !pl.operator || v.me.Operator() {
			pl.Current = pl.Name == p.place
			f.Places = append(f.Places, pl.Place)
		}
	}
	return f
}

// show answers with a page, or with the login if nobody is logged in.
func (u *UI) show(w http.ResponseWriter, r *http.Request, p page) {
	v, err := u.visit(w, r)
	if errors.Is(err, errLogin) {
		http.Redirect(w, r, "/ui/login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		return
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	f := u.frame(v, &p)
	if f.Content, err = p.load(v); err != nil {
		u.showProblem(w, f, err)
		return
	}
	u.render(w, http.StatusOK, p.template, f)
}

// showProblem answers with what went wrong, inside the frame.
func (u *UI) showProblem(w http.ResponseWriter, f Frame, err error) {
	p := new(Problem)
	if !errors.As(err, &p) {
		u.cfg.Log.Error("page failed", "error", err)
		p = &Problem{Status: http.StatusInternalServerError, Detail: "Something went wrong on our side."}
	}
	f.Title, f.Content = http.StatusText(p.Status), p
	u.render(w, p.Status, "problem.html", f)
}

// fail answers that something went wrong before anybody knew who asks.
func (u *UI) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody reads it
	}
	u.showProblem(w, u.bare(r, ""), err)
}

// refuse answers that a request was not carried out.
func (u *UI) refuse(w http.ResponseWriter, r *http.Request, status int, why, what string) {
	u.showProblem(w, u.bare(r, ""), &Problem{Status: status, Detail: why + " " + what})
}

// render writes a page. It is complete before the first byte leaves.
func (u *UI) render(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := u.templates.ExecuteTemplate(&b, name, data); err != nil {
		u.cfg.Log.Error("template failed", "template", name, "error", err)
		http.Error(w, "Something went wrong on our side.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
