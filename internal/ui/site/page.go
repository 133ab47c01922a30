package site

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/sse"
	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// Page is one address of the dashboard.
type Page struct {
	Path     string // a pattern of net/http, without the method
	Template string
	Title    string
	Place    string // the entry of the navigation that it belongs to
	// Operator tells that only keys that see all tenants have the page. To others it
	// is not there.
	Operator bool
	// Inside tells that visitors of the portal do not have the page.
	Inside bool
	// Writes tells that only keys that may change something have the page.
	Writes bool
	// Live names the templates of the blocks that are kept current. The page has each
	// in an element with that name as data-live, with the frame as its data.
	Live []string
	// Load reads what the page shows. It may set the title of the frame.
	Load func(*Visit) (any, error)
}

// Redirect is what Load returns when what is asked for is at another address. It must
// be one of the dashboard.
type Redirect struct{ To string }

func (r *Redirect) Error() string { return "it is at " + r.To }

var unknown = Page{Title: "Not found", Load: func(*Visit) (any, error) { return nil, notFound() }}

func notFound() *Problem {
	return &Problem{Status: http.StatusNotFound, Detail: "There is no such page, or it is not yours to see."}
}

// Frame is what surrounds every page, and what its templates get.
type Frame struct {
	Title   string
	Places  []Place
	Me      *Me // nil: nobody is logged in
	Token   string
	Version string
	Node    string
	Theme   string // light, dark; empty: as the system says
	Now     time.Time
	Path    string   // of the page
	Here    string   // the page with its query; empty: it has no address
	Live    bool     // the page has blocks that are kept current
	Firing  int      // alerts
	Tenants []string // that can be picked
	Tenant  string   // that is looked at; empty: all
	Note    *Note    // what the last form did
	Form    *Form
	Content any
	// Vendor is whose portal it is, and Brand the address of its colours; for others
	// than visitors of the portal the name is the product's.
	Vendor Vendor
	Brand  string
}

// Place is an entry of the navigation.
type Place struct {
	Name, Path, Keys string
	Own              string // the path for keys that see one tenant; empty: it is the same
	Operator         bool   // only for keys that see all tenants
	Inside           bool   // not for visitors of the portal
	Current          bool
}

// Link returns the address of a page with a query, and with the tenant that is
// looked at. Pairs are names and values; empty values are left out.
func (f *Frame) Link(path string, pairs ...any) string {
	q := url.Values{}
	if f.Tenant != "" && f.Me != nil && f.Me.Operator() {
		q.Set("tenant", f.Tenant)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, value := fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1])
		q.Del(name)
		if value != "" {
			q.Set(name, value)
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// With returns this page with some values of its query changed: for tabs, windows
// and filters. Empty values are left out.
func (f *Frame) With(pairs ...any) string {
	_, query, _ := strings.Cut(f.Here, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		q = url.Values{}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Del(fmt.Sprint(pairs[i]))
		if value := fmt.Sprint(pairs[i+1]); value != "" {
			q.Set(fmt.Sprint(pairs[i]), value)
		}
	}
	if len(q) == 0 {
		return f.Path
	}
	return f.Path + "?" + q.Encode()
}

// bare is the frame for somebody who is not logged in.
func (s *Site) bare(r *http.Request, title string) Frame {
	f := Frame{Title: title, Version: s.cfg.Version, Node: s.cfg.Node, Now: s.cfg.Now(), Path: r.URL.Path, Here: r.URL.RequestURI(), Vendor: product}
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		f.Theme = c.Value
	}
	return f
}

// frame is the frame of a visit. What it shows beside the page is left out where it
// cannot be read: the page says what is wrong.
func (s *Site) frame(v *Visit, p *Page) *Frame {
	f := s.bare(v.Request, p.Title)
	f.Me, f.Token, f.Live, f.Tenant = &v.Me, v.session.FormToken(), len(p.Live) > 0, v.tenant
	if v.Me.Portal {
		s.dress(&f)
	}
	for _, place := range s.cfg.Places {
		if (!place.Operator || v.Me.Operator()) && (!place.Inside || !v.Me.Portal) {
			place.Current = place.Name == p.Place
			if place.Own != "" && !v.Me.Operator() {
				place.Path = place.Own
			}
			f.Places = append(f.Places, place)
		}
	}
	var firing List[view.Alert]
	if err := v.Get(v.API("alerts"), url.Values{"status": {"firing"}, "limit": {"100"}}, &firing); err == nil {
		f.Firing = len(firing.Data)
	}
	if v.Me.Operator() {
		var tenants List[view.Tenant]
		if err := v.Get("/v1/tenants", url.Values{"limit": {strconv.Itoa(maxPicked)}, "order": {"asc"}}, &tenants); err == nil {
			for _, t := range tenants.Data {
				name := Either(t.UID, t.ID)
				f.Tenants = append(f.Tenants, name)
				if f.Tenant == t.ID { // links of objects have the id
					f.Tenant = name
				}
			}
			if f.Tenant != "" && !slices.Contains(f.Tenants, f.Tenant) {
				f.Tenants = append(f.Tenants, f.Tenant)
			}
		}
	}
	return &f
}

// Either returns a text that may not be there, or another.
func Either(text *string, other string) string {
	if text == nil || *text == "" {
		return other
	}
	return *text
}

// maxPicked is how many tenants the picker lists; others can be typed.
const maxPicked = 50

// show answers with a page, with its stream if that is asked for, or with the login
// if nobody is logged in.
func (s *Site) show(w http.ResponseWriter, r *http.Request, p *Page) {
	began := time.Now()
	v, err := s.visit(w, r)
	if errors.Is(err, errLogin) {
		s.askLogin(w, r)
		return
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if v.Me.Portal {
		w.Header().Set("Content-Security-Policy", s.portalPolicy())
	}
	if wantsStream(r) {
		s.stream(w, v, p)
		return
	}
	f := s.frame(v, p)
	f.Note = s.takeNote(w, r)
	v.Frame = f
	if f.Content, err = s.load(v, p); err != nil {
		if elsewhere := new(Redirect); errors.As(err, &elsewhere) {
			http.Redirect(w, r, elsewhere.To, http.StatusSeeOther)
			return
		}
		s.showProblem(w, f, err)
		return
	}
	loaded := time.Now()
	s.renderTimed(w, http.StatusOK, p.Template, f, func() { tellTimes(w, began, loaded) })
}

// tellTimes says how long the server took for a page: to read what it shows, and all in all.
func tellTimes(w http.ResponseWriter, began, loaded time.Time) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	w.Header().Set("Server-Timing", fmt.Sprintf("load;dur=%.1f, app;dur=%.1f", ms(loaded.Sub(began)), ms(time.Since(began))))
}

// load reads a page, if it is there for the visitor.
func (s *Site) load(v *Visit, p *Page) (any, error) {
	if !p.isFor(&v.Me) {
		return nil, notFound()
	}
	return p.Load(v)
}

// isFor reports whether the page is there for a visitor.
func (p *Page) isFor(m *Me) bool {
	return (!p.Operator || m.Operator()) && (!p.Inside || !m.Portal) && (!p.Writes || m.Writes())
}

func (s *Site) askLogin(w http.ResponseWriter, r *http.Request) {
	if wantsStream(r) {
		// Its page stands open with what was true when the browser was last here.
		if t := (&stream{to: sse.NewWriter(w)}); t.to.Begin() {
			t.end()
		}
		return
	}
	if s.cameByLink(r) {
		s.portalOver(w, r, http.StatusForbidden, "Your visit has ended.")
		return
	}
	next := ""
	if r.Method == http.MethodGet && r.URL.RequestURI() != "/ui" {
		next = "?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
	}
	http.Redirect(w, r, "/ui/login"+next, http.StatusSeeOther)
}

// showProblem answers with what went wrong, inside the frame.
func (s *Site) showProblem(w http.ResponseWriter, f *Frame, err error) {
	p := new(Problem)
	if !errors.As(err, &p) {
		s.cfg.Log.Error("page failed", "path", f.Path, "error", err)
		p = &Problem{Status: http.StatusInternalServerError, Detail: "Something went wrong on our side. The log of the server says what."}
	}
	f.Title, f.Content, f.Live = http.StatusText(p.Status), p, false
	s.render(w, p.Status, "problem.html", f)
}

// fail answers that something went wrong before anybody knew who asks.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody reads it
	}
	f := s.bare(r, "")
	s.showProblem(w, &f, err)
}

// refuse answers that a request was not carried out.
func (s *Site) refuse(w http.ResponseWriter, r *http.Request, status int, why, what string) {
	f := s.bare(r, "")
	s.showProblem(w, &f, &Problem{Status: status, Detail: why + " " + what})
}

// render writes a page. It is complete before the first byte leaves.
func (s *Site) render(w http.ResponseWriter, status int, name string, data any) {
	s.renderTimed(w, status, name, data, func() {})
}

// renderTimed is render that calls made when the page is complete.
func (s *Site) renderTimed(w http.ResponseWriter, status int, name string, data any, made func()) {
	var b bytes.Buffer
	if err := s.templates.ExecuteTemplate(&b, name, data); err != nil {
		s.cfg.Log.Error("template failed", "template", name, "error", err)
		http.Error(w, "Something went wrong on our side.", http.StatusInternalServerError)
		return
	}
	made()
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
