package site

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Action is what a form does.
type Action struct {
	Path string // a pattern of net/http, without the method
	// Do carries it out. A Problem that it returns is shown beside the fields of the
	// form if there is one, else on a page of its own.
	Do func(*Visit) (Done, error)
	// Form is the page that the form stands on; nil: the form has no fields to
	// correct.
	Form *Page
}

// Done is what follows: another page with a note, or a page that is shown at once,
// for what can be seen only once.
type Done struct {
	To   string // address to go to
	Say  string // "The endpoint is paused."
	Link string // address of what the note is about; empty: none
	Name string // of that link

	Show    *Page // instead of To
	Content any   // what its template gets
}

// Form is the content of a form that is shown: what was typed, or what holds, and
// what is wrong with it.
type Form struct {
	Values url.Values
	Errors map[string]string // by field
	Wrong  string            // what is wrong with all of it
	// Differs are the fields in which what was typed is not what somebody else has
	// stored meanwhile.
	Differs []Difference

	stored url.Values // what holds
}

// Difference is a field of which somebody else has changed the value.
type Difference struct{ Name, Stored, Typed string }

// versionField is the field with the version of what a form changes.
const versionField = "version"

// Value returns the text of a field.
func (f *Form) Value(name string) string {
	if f == nil {
		return ""
	}
	return f.Values.Get(name)
}

// Has reports whether a box is ticked or an option chosen.
func (f *Form) Has(name, value string) bool {
	if f == nil {
		return false
	}
	return slices.Contains(f.Values[name], value)
}

// Error returns what is wrong with a field, or with a part of it.
func (f *Form) Error(name string) string {
	if f == nil {
		return ""
	}
	if text := f.Errors[name]; text != "" {
		return text
	}
	for path, text := range f.Errors {
		if strings.HasPrefix(path, name+".") || strings.HasPrefix(path, name+"[") {
			return path + ": " + text
		}
	}
	return ""
}

// Posted returns the field of a posted form.
func (v *Visit) Posted(name string) string { return strings.TrimSpace(v.Request.PostFormValue(name)) }

// Ticked returns all values of a field of a posted form.
func (v *Visit) Ticked(name string) []string { return v.Request.PostForm[name] }

// Fill gives the form of a page the values that hold now. What somebody typed and is
// to correct stays.
func (v *Visit) Fill(values url.Values) {
	if v.Frame.Form == nil {
		v.Frame.Form = &Form{Values: values}
	}
	v.Frame.Form.stored = values
}

// compare finds out what somebody else has changed since the form was filled. The form
// is about their version from here on: to send it again replaces theirs.
func (f *Form) compare() {
	text := func(values []string) string {
		t := strings.TrimSpace(strings.ReplaceAll(strings.Join(values, ", "), "\r\n", "\n"))
		var b bytes.Buffer
		if json.Compact(&b, []byte(t)) == nil {
			return b.String() // however it is set
		}
		return t
	}
	for _, name := range slices.Sorted(maps.Keys(f.stored)) {
		if d := (Difference{name, text(f.stored[name]), text(f.Values[name])}); name != versionField && d.Stored != d.Typed {
			f.Differs = append(f.Differs, d)
		}
	}
	f.Values.Set(versionField, f.stored.Get(versionField))
	f.Wrong = "Somebody else has changed it since you opened this form."
}

// Wrong is the problem of one field.
func Wrong(field, message string) *Problem {
	return &Problem{Status: http.StatusUnprocessableEntity, Code: "validation_failed", Detail: message, Errors: []FieldError{{Path: field, Message: message}}}
}

// act carries out a form of a page, which may be nil.
func (s *Site) act(w http.ResponseWriter, r *http.Request, a *Action, page *Page) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		s.refuse(w, r, http.StatusBadRequest, "The form could not be read.", "It may have at most 256 KiB.")
		return
	}
	v, err := s.visit(w, r)
	if errors.Is(err, errLogin) {
		s.askLogin(w, r)
		return
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if tenant := r.PostFormValue("tenant"); tenant != "" && v.Me.Operator() {
		v.tenant = tenant
	}
	if v.Me.Portal {
		w.Header().Set("Content-Security-Policy", s.portalPolicy())
	}
	v.Frame = s.frame(v, &Page{Title: "Not done"})
	if !v.session.Owns(r.PostFormValue("token")) {
		s.showProblem(w, v.Frame, &Problem{Status: http.StatusForbidden, Detail: "This form does not belong to your session. Open the page again and send it from there."})
		return
	}
	if !v.Me.Writes() {
		s.showProblem(w, v.Frame, &Problem{Status: http.StatusForbidden, Detail: "Your key may read, and change nothing."})
		return
	}
	if page != nil && !page.isFor(&v.Me) {
		s.showProblem(w, v.Frame, notFound())
		return
	}
	done, err := a.Do(v)
	if err != nil {
		s.showWrong(w, v, a, err)
		return
	}
	if done.Show != nil {
		f := s.frame(v, done.Show)
		f.Content, f.Live, f.Here = done.Content, false, "" // nobody can come back to it
		s.render(w, http.StatusOK, done.Show.Template, f)
		return
	}
	s.giveNote(w, r, &Note{Text: done.Say, Link: done.Link, Name: done.Name})
	http.Redirect(w, r, done.To, http.StatusSeeOther)
}

// showWrong shows the form again with what is wrong, or the problem alone.
func (s *Site) showWrong(w http.ResponseWriter, v *Visit, a *Action, err error) {
	p := new(Problem)
	if a.Form == nil || !errors.As(err, &p) || p.Status >= http.StatusInternalServerError {
		s.showProblem(w, v.Frame, err)
		return
	}
	form := &Form{Values: v.Request.PostForm, Errors: map[string]string{}, Wrong: p.Detail}
	for _, e := range p.Errors {
		form.Errors[e.Path] = e.Message
	}
	f := s.frame(v, a.Form)
	f.Form, f.Live = form, false
	v.Frame = f
	var loadErr error
	if f.Content, loadErr = s.load(v, a.Form); loadErr != nil {
		s.showProblem(w, f, err)
		return
	}
	if p.Status == http.StatusPreconditionFailed {
		form.compare()
	}
	s.render(w, p.Status, a.Form.Template, f)
}

// Note is what the last form did, shown once.
type Note struct {
	Text string `json:"t"`
	Link string `json:"l,omitempty"`
	Name string `json:"n,omitempty"`
}

const (
	noteCookie  = "bw_note"
	themeCookie = "bw_theme"
	maxNote     = 2 << 10
)

// giveNote hands a note to the next page.
func (s *Site) giveNote(w http.ResponseWriter, r *http.Request, n *Note) {
	text, err := json.Marshal(n)
	if err != nil || n.Text == "" || len(text) > maxNote {
		return
	}
	http.SetCookie(w, s.framed(r, &http.Cookie{ //nolint:gosec // no secret; over http, too
		Name: noteCookie, Value: base64.RawURLEncoding.EncodeToString(text), Path: "/ui", MaxAge: 30, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}))
}

// takeNote returns the note for this page, and forgets it. A link of it leads nowhere
// but to pages: the cookie may be anybody's.
func (s *Site) takeNote(w http.ResponseWriter, r *http.Request) *Note {
	c, err := r.Cookie(noteCookie)
	if err != nil {
		return nil
	}
	http.SetCookie(w, s.framed(r, &http.Cookie{Name: noteCookie, Path: "/ui", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})) //nolint:gosec // as above
	text, err := base64.RawURLEncoding.DecodeString(c.Value)
	n := new(Note)
	if err != nil || len(text) > maxNote || json.Unmarshal(text, n) != nil {
		return nil
	}
	n.Link = localPath(n.Link)
	return n
}

// chooseTheme keeps which colours a browser wants.
func (s *Site) chooseTheme(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	c := &http.Cookie{Name: themeCookie, Path: "/ui", MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode} //nolint:gosec // no secret
	switch theme := r.PostFormValue("theme"); theme {
	case "light", "dark":
		c.Value = theme
	default:
		c.MaxAge = -1
	}
	http.SetCookie(w, s.framed(r, c))
	next := localPath(r.PostFormValue("next"))
	if next == "" {
		next = "/ui"
	}
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // a page of ours: localPath
}
