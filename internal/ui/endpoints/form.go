package endpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// formContent is the form of a new endpoint, or of a change to one.
type formContent struct {
	New      bool
	Endpoint view.Endpoint // that is changed
	Address  words.Address
	Form     *site.Form
	Presets  []view.Preset
	Named    []view.NamedPolicy
	Tenants  []string // to choose one from; empty: it is known
	Schemes  []words.Word
	Bodies   []words.Word
	Preview  *preview
	Back     string
}

// preview is what a form would do.
type preview struct {
	Asked   bool // somebody pressed the button
	Changes []change
	Note    string
	Ladder  ladder
	Warning []string
}

type change struct{ Path, From, To string }

func loadNew(v *site.Visit) (any, error) {
	v.Fill(url.Values{"types": {"*"}, "signature": {"standard"}, "body": {"payload"}, "preset": {v.Query("preset")}, "url": {v.Query("url")}})
	return newForm(v, v.Frame.Form, nil)
}

func loadEdit(v *site.Visit) (any, error) {
	e, err := endpointOf(v)
	if err != nil {
		return nil, err
	}
	v.Fill(valuesOfEndpoint(&e))
	v.Frame.Title = "Edit " + words.OfURL(e.URL, 0).Host
	return newForm(v, v.Frame.Form, &e)
}

// mostNamed is how many named policies the form offers: a page of the API.
const mostNamed = "250"

// newForm gathers what the form offers. e is nil for a new endpoint.
func newForm(v *site.Visit, f *site.Form, e *view.Endpoint) (*formContent, error) {
	c := &formContent{New: e == nil, Form: f, Back: v.Frame.Link(listPath)}
	if e != nil {
		c.Endpoint, c.Address, c.Back = *e, words.OfURL(e.URL, 0), v.Frame.Link(pathOf(e.ID))
	} else if v.Me.Operator() && v.Frame.Tenant == "" {
		c.Tenants = v.Frame.Tenants
	}
	var presets site.List[view.Preset]
	if err := v.Get(v.Server("presets"), nil, &presets); err != nil {
		return nil, err
	}
	c.Presets = presets.Data
	var named site.List[view.NamedPolicy]
	if err := v.Get(v.Server("policies"), url.Values{"limit": {mostNamed}, "order": {"asc"}}, &named); err != nil {
		return nil, err
	}
	c.Named = named.Data
	for _, s := range []string{"standard", "standard_ed25519", "stripe"} {
		c.Schemes = append(c.Schemes, words.SignatureOf(s))
	}
	for _, s := range []string{"payload", "envelope", "cloudevents", "cloudevents_binary", "slack", "discord", "teams"} {
		c.Bodies = append(c.Bodies, words.BodyOf(s))
	}
	if level, err := levelOf(f.Values); err == nil {
		c.Preview = previewOf(v, e, level) // what is wrong with it stands beside the field once it is sent
	}
	return c, nil
}

// previewOf asks the API what a level of policy gives; nil: it is wrong.
func previewOf(v *site.Visit, e *view.Endpoint, level json.RawMessage) *preview {
	after, err := tryPolicy(v, e, level)
	if err != nil {
		return nil
	}
	p := &preview{Ladder: ladderOf(&after), Warning: after.Warnings}
	var before view.Policy
	if e == nil || v.Get(v.API("endpoints", e.ID, "policy"), nil, &before) != nil {
		return p
	}
	was := make(map[string]string)
	for _, b := range valuesOf(&before) {
		was[b.Path] = b.Value
	}
	for _, a := range valuesOf(&after) {
		if old, had := was[a.Path]; !had || old != a.Value {
			p.Changes = append(p.Changes, change{"policy." + a.Path, old, a.Value})
		}
		delete(was, a.Path)
	}
	for path, old := range was {
		p.Changes = append(p.Changes, change{"policy." + path, old, ""})
	}
	slices.SortFunc(p.Changes, func(a, b change) int { return strings.Compare(a.Path, b.Path) })
	return p
}

// tryPolicy resolves a level of policy over those below it. The tenant of a new
// endpoint may not be known yet.
func tryPolicy(v *site.Visit, e *view.Endpoint, level json.RawMessage) (p view.Policy, err error) {
	in := map[string]any{"policy": level}
	switch {
	case e != nil:
		in["tenant"] = e.Tenant
	case v.Me.Tenant != nil:
		in["tenant"] = *v.Me.Tenant
	case v.Tenant() != "":
		var t view.Tenant
		if err := v.Get(v.Server("tenants", v.Tenant()), nil, &t); err == nil {
			in["tenant"] = t.ID
		}
	}
	err = v.Do(http.MethodPost, v.Server("policies", "preview"), in, &p)
	return p, err
}

// asked reports whether a form asks what it would do, and does nothing.
func asked(v *site.Visit) bool { return v.Posted("do") == "preview" }

func create(v *site.Visit) (site.Done, error) {
	in, err := bodyOf(v.Request.PostForm)
	if err != nil {
		return site.Done{}, err
	}
	if asked(v) {
		return showPreview(v, nil, in)
	}
	if v.Posted("paused") != "" {
		in["paused"] = true
	}
	for _, name := range []string{"uid", "secret"} {
		if text := v.Posted(name); text != "" {
			in[name] = text
		}
	}
	if v.Me.Operator() && v.Tenant() == "" {
		return site.Done{}, site.Wrong("tenant", "Choose the tenant that the endpoint belongs to.")
	}
	var made struct {
		view.Endpoint
		Secret    string `json:"secret"`
		PublicKey string `json:"public_key"`
	}
	if err := v.Do(http.MethodPost, v.API("endpoints"), in, &made); err != nil {
		return site.Done{}, err
	}
	return site.Done{Show: &secretPage, Content: &secrets{
		ID: made.ID, Address: words.OfURL(made.URL, 0), Title: "The endpoint is ready", Created: true, Warnings: made.Warnings,
		Sentence: "Hand this secret to the receiver, who verifies with it. It is shown once here; under Secrets it can be read again, which the audit log keeps.",
		List:     []secret{{Secret: made.Secret, PublicKey: made.PublicKey}},
	}}, nil
}

func edit(v *site.Visit) (site.Done, error) {
	e, err := endpointOf(v)
	if err != nil {
		return site.Done{}, err
	}
	in, err := bodyOf(v.Request.PostForm)
	if err != nil {
		return site.Done{}, err
	}
	in["uid"] = v.Posted("uid")
	if asked(v) {
		return showPreview(v, &e, in)
	}
	if err := patchOf(in, &e); err != nil {
		return site.Done{}, err
	}
	var after view.Endpoint
	if err := v.Patch(v.API("endpoints", e.ID), in, &after); err != nil {
		return site.Done{}, err
	}
	say := "The endpoint is changed. It counts from the next attempt on."
	if after.Version == e.Version {
		say = "Nothing was different."
	}
	return site.Done{To: v.Frame.Link(pathOf(e.ID)), Say: say}, nil
}

// showPreview shows the form again with what it would do.
func showPreview(v *site.Visit, e *view.Endpoint, in map[string]any) (site.Done, error) {
	page := &newPage
	if e != nil {
		page = &editPage
	}
	level, _ := in["policy"].(json.RawMessage)
	if _, err := tryPolicy(v, e, level); err != nil {
		return site.Done{}, err // beside the field
	}
	c, err := newForm(v, &site.Form{Values: v.Request.PostForm}, e)
	if err != nil {
		return site.Done{}, err
	}
	if c.Preview == nil {
		return site.Done{}, errors.New("the policy was right, and is not now")
	}
	c.Preview.Asked = true
	if e != nil {
		c.Preview.Changes = append(fieldChanges(v.Request.PostForm, e), c.Preview.Changes...)
		if v.Posted("url") != e.URL {
			c.Preview.Note = "What waits goes to the new address from the next attempt on, slowly at first."
		}
	}
	return site.Done{Show: page, Content: c}, nil
}

// fieldChanges compares what was typed with what holds, but for the policy.
func fieldChanges(typed url.Values, e *view.Endpoint) []change {
	var out []change
	was := valuesOfEndpoint(e)
	for _, name := range []string{"url", "types", "filter", "uid", "description", "headers", "signature", "stripe_header", "body", "trace_context", "metadata"} {
		from, to := was[name], typed[name]
		if name == "types" {
			from, to = typesOf(was.Get(name)), typesOf(typed.Get(name))
		}
		a, b := strings.Join(from, ", "), strings.TrimSpace(strings.ReplaceAll(strings.Join(to, ", "), "\r\n", "\n"))
		if a != b {
			out = append(out, change{name, a, b})
		}
	}
	return out
}

// bodyOf turns a form into what the API takes, both to create and to change.
func bodyOf(f url.Values) (map[string]any, error) {
	level, err := levelOf(f)
	if err != nil {
		return nil, err
	}
	in := map[string]any{
		"url": strings.TrimSpace(f.Get("url")), "types": typesOf(f.Get("types")), "filter": strings.TrimSpace(f.Get("filter")), "description": strings.TrimSpace(f.Get("description")),
		"policy": level, "signatures": signaturesOf(f),
	}
	for _, name := range []string{"body", "trace_context"} {
		if text := f.Get(name); text != "" {
			in[name] = text
		}
	}
	for _, name := range []string{"headers", "metadata"} {
		pairs, err := pairsOf(name, f.Get(name))
		if err != nil {
			return nil, err
		}
		in[name] = pairs
	}
	return in, nil
}

// levelOf is the endpoint's level of policy: a preset, and other values over it.
func levelOf(f url.Values) (json.RawMessage, error) {
	level := make(map[string]any)
	if text := strings.TrimSpace(f.Get("policy")); text != "" {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&level); err != nil || d.More() || level == nil {
			return nil, site.Wrong("policy", "This is no JSON object, such as {\"retry\":{\"max_attempts\":12}}.")
		}
	}
	if preset := f.Get("preset"); preset != "" {
		level["preset"] = preset
	}
	out, err := json.Marshal(level)
	return out, err
}

// typesOf reads the field of types; an empty one means all of them.
func typesOf(text string) []string {
	types := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
	if len(types) == 0 {
		return []string{"*"}
	}
	return types
}

func signaturesOf(f url.Values) []view.Signature {
	out := []view.Signature{}
	for _, scheme := range f["signature"] {
		s := view.Signature{Scheme: scheme}
		if scheme == "stripe" {
			s.Header = strings.TrimSpace(f.Get("stripe_header"))
		}
		out = append(out, s)
	}
	return out
}

// pairsOf reads lines such as "X-Token: abc".
func pairsOf(field, text string) (map[string]any, error) {
	out := make(map[string]any)
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found {
			return nil, site.Wrong(field, "The line “"+words.Cut(line, 40)+"” has no colon. Write one pair per line: name: value.")
		}
		out[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return out, nil
}

// valuesOfEndpoint is an endpoint as the form shows it.
func valuesOfEndpoint(e *view.Endpoint) url.Values {
	f := url.Values{
		"url": {e.URL}, "types": {strings.Join(e.Types, ", ")}, "filter": {site.Either(e.Filter, "")}, "uid": {site.Either(e.UID, "")}, "description": {e.Description},
		"headers": {lines(e.Headers)}, "metadata": {lines(e.Metadata)}, "body": {e.Body}, "trace_context": {e.TraceContext}, "version": {strconv.FormatInt(e.Version, 10)},
	}
	for _, s := range e.Signatures {
		f.Add("signature", s.Scheme)
		if s.Header != "" {
			f.Set("stripe_header", s.Header)
		}
	}
	level := make(map[string]json.RawMessage)
	if json.Unmarshal(e.Policy, &level) != nil {
		return f
	}
	var preset string
	if json.Unmarshal(level["preset"], &preset) == nil {
		f.Set("preset", preset)
	}
	delete(level, "preset")
	if len(level) > 0 {
		if text, err := json.MarshalIndent(level, "", "  "); err == nil {
			f.Set("policy", string(text))
		}
	}
	return f
}

func lines(m map[string]string) string {
	out := make([]string, 0, len(m))
	for name, value := range m {
		out = append(out, name+": "+value)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// patchOf turns what is wanted into what must change: the API merges, so what is
// not there any more is sent as null.
func patchOf(in map[string]any, e *view.Endpoint) error {
	for name, old := range map[string]map[string]string{"headers": e.Headers, "metadata": e.Metadata} {
		pairs, _ := in[name].(map[string]any)
		for key := range old {
			if _, kept := pairs[key]; !kept {
				pairs[key] = nil
			}
		}
	}
	level, _ := in["policy"].(json.RawMessage)
	var was, want map[string]any
	if err := errors.Join(decode(e.Policy, &was), decode(level, &want)); err != nil {
		return err
	}
	in["policy"] = difference(was, want)
	return nil
}

func decode(text json.RawMessage, out any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(out)
}

// difference is the merge patch from one object to another.
func difference(was, want map[string]any) map[string]any {
	out := make(map[string]any)
	for name, value := range want {
		to, isMap := value.(map[string]any)
		from, wasMap := was[name].(map[string]any)
		if isMap && wasMap {
			out[name] = difference(from, to)
			continue
		}
		out[name] = value
	}
	for name := range was {
		if _, kept := want[name]; !kept {
			out[name] = nil
		}
	}
	return out
}
