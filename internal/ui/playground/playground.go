// Package playground is the page on which a policy is tried: a form, the same as YAML,
// the waits that it gives, and an outage that the server's own code plays with it in
// virtual time. From there it can be given to an endpoint.
//
// The address of the page holds everything that was typed. Nothing is sent or stored
// before somebody applies it.
package playground

import (
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

//go:embed templates/*.html
var files embed.FS

// path of the page.
const path = "/ui/playground"

// Section returns the pages.
func Section() site.Section {
	templates, err := fs.Sub(files, "templates")
	if err != nil {
		panic(err) // the folder is embedded
	}
	save := savePage()
	return site.Section{
		Templates: templates,
		Pages: []site.Page{
			{Path: path, Template: "playground.html", Title: "Playground", Place: "Playground", Inside: true, Live: []string{"playground-outage"}, Load: load},
			{Path: path + "/apply", Template: "playground-apply.html", Title: "Apply a policy", Place: "Playground", Inside: true, Writes: true, Load: loadApply},
			*save,
		},
		Actions: []site.Action{{Path: path + "/apply", Do: doApply}, {Path: savePath, Do: doSave, Form: save}},
	}
}

// content is what the page shows.
type content struct {
	Presets []view.Preset
	Named   []view.NamedPolicy
	Preset  string // that the policy starts from, or the named policy
	Fields  []field
	Hidden  values
	Wrong   []string // what is wrong and has no field
	Changed int      // settings that are not the preset's

	YAML       template.HTML
	YAMLText   string // for copying
	YAMLTyped  string // for editing
	YAMLError  string
	YAMLOpen   bool
	Warnings   []string
	Waits      waits
	Outage     []field
	Compare    []rivals
	Simulation *outcome
	SimError   string // why there is none
	Later      string // it is not played yet: address of the page that waits for it
	Share      string // the page's address, in full
	Apply      string // where it is applied
	Save       string // where it is saved by name
}

// load reads the page.
func load(v *site.Visit) (any, error) {
	t, err := read(v)
	if err != nil {
		return nil, err
	}
	c := &content{Wrong: others(t.wrong), YAMLError: t.yamlError, Preset: t.settings["preset"]}
	var presets site.List[view.Preset]
	if err := v.Get("/v1/presets", nil, &presets); err != nil {
		return nil, err
	}
	c.Presets = presets.Data
	if c.Named, err = namedPolicies(v); err != nil {
		return nil, err
	}
	c.Fields, c.Hidden, c.Changed = fieldsOf(t.settings, t.wrong), hidden(t.changed), len(t.changed)
	lines := writeYAML(c.Preset, t.changed, t.base)
	c.YAML, c.YAMLText = setYAML(lines), plainText(lines)
	c.YAMLTyped = c.YAMLText
	if t.yamlError != "" {
		c.YAMLTyped, c.YAMLOpen = v.Query("yaml"), true
	}
	c.Warnings, c.Waits = t.preview.Warnings, waitsOf(&t.preview.Policy)
	c.play(v, t)
	q := t.query()
	c.Share = origin(v.Request) + path + "?" + q.Encode()
	if v.Me.Writes() {
		apply := t.policyQuery()
		if v.Tenant() != "" {
			apply.Set("tenant", v.Tenant())
		}
		c.Apply = path + "/apply?" + apply.Encode()
		if v.Me.Operator() {
			c.Save = savePath + "?" + apply.Encode()
		}
	}
	return c, nil
}

// origin is how the browser calls this server.
func origin(r *http.Request) string {
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// tried is a policy that is being tried, as far as the API takes it.
type tried struct {
	preset    string // as asked for; empty: the server's
	base      values // what the preset gives
	settings  values // what holds
	changed   values // of them, what differs from base
	wrong     map[string]wrongValue
	yamlError string
	level     json.RawMessage
	preview   view.PolicyPreview
	outage    url.Values // as asked for
}

// read takes the policy from the address. What the API refuses is left out, and
// noted.
func read(v *site.Visit) (*tried, error) {
	q := v.Request.URL.Query()
	t := &tried{preset: q.Get("preset"), wrong: map[string]wrongValue{}, outage: outageOf(q)}
	given := readValues(q)
	if text := strings.TrimSpace(q.Get("yaml")); text != "" {
		preset, read, err := readYAML(text)
		if err != nil {
			t.yamlError = err.Error()
		} else {
			t.preset, given = preset, read
		}
	}
	if err := t.readBase(v); err != nil {
		return nil, err
	}
	if from := q.Get("from"); from != "" && from != t.preset {
		// The fields were those of another preset: what nobody changed does not come
		// along.
		var old view.PolicyPreview
		if err := preview(v, values{}.level(from), nil, &old); err == nil {
			was, err := leaves(old.Resolved)
			if err != nil {
				return nil, err
			}
			maps.DeleteFunc(given, func(path, text string) bool { return was[path] == text })
		}
	}
	if err := t.resolve(v, given.differing(t.base)); err != nil {
		return nil, err
	}
	return t, nil
}

// readBase reads what the preset gives. One that is not known is the server's.
func (t *tried) readBase(v *site.Visit) error {
	var base view.PolicyPreview
	err := preview(v, values{}.level(t.preset), nil, &base)
	if p, ok := errors.AsType[*site.Problem](err); ok && p.Status == http.StatusUnprocessableEntity && t.preset != "" {
		t.wrong["preset"] = wrongValue{t.preset, "is not known"}
		t.preset = ""
		err = preview(v, values{}.level(""), nil, &base)
	}
	if err != nil {
		return err
	}
	t.base, err = leaves(base.Resolved)
	return err
}

// rounds bounds how often refused settings are left out: each round leaves out one at
// least, and those that depend on each other come in two or three.
const rounds = 5

// resolve asks the API for the policy, without the settings that it refuses.
func (t *tried) resolve(v *site.Visit, given values) error {
	for round := 0; ; round++ {
		if round == rounds {
			given = values{}
		}
		t.level = given.level(t.preset)
		err := preview(v, t.level, nil, &t.preview)
		p, refused := errors.AsType[*site.Problem](err)
		if refused && p.Status == http.StatusUnprocessableEntity && round < rounds {
			t.leaveOut(given, p)
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	var err error
	if t.settings, err = leaves(t.preview.Resolved); err != nil {
		return err
	}
	t.changed = values{}
	for path, text := range t.settings {
		if path != "preset" && text != t.base[path] {
			t.changed[path] = text
		}
	}
	t.level = t.changed.level(t.preset)
	return nil
}

// leaveOut notes and removes what is wrong. Where it is nothing that was given, all
// goes.
func (t *tried) leaveOut(given values, p *site.Problem) {
	removed := false
	for _, e := range p.Errors {
		name := strings.TrimPrefix(e.Path, "policy.")
		for _, path := range slices.Sorted(maps.Keys(given)) {
			if path == name || strings.HasPrefix(path, name+".") {
				t.wrong[path] = wrongValue{given[path], e.Message}
				delete(given, path)
				removed = true
			}
		}
	}
	if !removed {
		for _, e := range p.Errors {
			t.wrong[strings.TrimPrefix(e.Path, "policy.")] = wrongValue{"", e.Message}
		}
		clear(given)
	}
}

// preview asks the API for a policy and, perhaps, an outage.
func preview(v *site.Visit, level json.RawMessage, simulate map[string]any, out *view.PolicyPreview) error {
	in := map[string]any{"policy": level}
	if simulate != nil {
		in["simulate"] = simulate
	}
	*out = view.PolicyPreview{}
	return v.Do(http.MethodPost, "/v1/policies/preview", in, out)
}

// policyQuery is the policy as parameters.
func (t *tried) policyQuery() url.Values {
	q := url.Values{}
	if t.preset != "" {
		q.Set("preset", t.preset)
	}
	for path, text := range t.changed {
		q.Set(path, text)
	}
	return q
}

// query is the whole state of the page as parameters.
func (t *tried) query() url.Values {
	q := t.policyQuery()
	maps.Copy(q, t.outage)
	return q
}
