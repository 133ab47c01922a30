package playground

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

const savePath = path + "/save"

// saved is what the page shows on which a policy gets a name.
type saved struct {
	Back   string // to the playground, with the policy
	Action string
	Level  string // the policy, as JSON
	Span   words.Text
	Names  []string // of those that exist
}

// savePage is for those who may save policies.
func savePage() *site.Page {
	return &site.Page{
		Path: savePath, Template: "playground-save.html", Title: "Save a policy", Place: "Playground", Inside: true, Operator: true, Writes: true, Load: loadSave,
	}
}

func loadSave(v *site.Visit) (any, error) {
	t, err := read(v)
	if err != nil {
		return nil, err
	}
	own, err := t.ownLevel(v)
	if err != nil {
		return nil, err
	}
	named, err := namedPolicies(v)
	if err != nil {
		return nil, err
	}
	c := &saved{Level: string(own), Span: words.SpanSentence(&t.preview.Policy)}
	back, action := t.policyQuery(), t.policyQuery()
	if v.Tenant() != "" {
		back.Set("tenant", v.Tenant())
	}
	c.Back, c.Action = path+"?"+back.Encode(), savePath+"?"+action.Encode()
	for _, p := range named {
		c.Names = append(c.Names, p.Name)
	}
	v.Fill(url.Values{})
	return c, nil
}

// mostNamed is how many named policies a page offers: a page of the API.
const mostNamed = "250"

// namedPolicies lists the policies that were saved by name.
func namedPolicies(v *site.Visit) ([]view.NamedPolicy, error) {
	var list site.List[view.NamedPolicy]
	err := v.Get(v.Server("policies"), url.Values{"limit": {mostNamed}, "order": {"asc"}}, &list)
	return list.Data, err
}

// ownLevel writes the policy down as one that starts from a preset: a named policy
// does not start from another one, nor from what the server happens to say.
func (t *tried) ownLevel(v *site.Visit) (json.RawMessage, error) {
	start := t.settings["preset"]
	var named view.NamedPolicy
	err := v.Get(v.Server("policies", start), nil, &named)
	switch p, ok := errors.AsType[*site.Problem](err); {
	case ok && p.Status == http.StatusNotFound: // a preset
	case err != nil:
		return nil, err
	default:
		var level struct{ Preset string }
		if err := json.Unmarshal(named.Policy, &level); err != nil {
			return nil, err
		}
		if start = level.Preset; start == "" {
			start = "default"
		}
	}
	var base view.PolicyPreview
	if err := preview(v, values{}.level(start), nil, &base); err != nil {
		return nil, err
	}
	from, err := leaves(base.Resolved)
	if err != nil {
		return nil, err
	}
	differs := values{}
	for path, text := range t.settings {
		if path != "preset" && text != from[path] {
			differs[path] = text
		}
	}
	return differs.level(start), nil
}

// doSave saves the policy of the form's address under the name that was typed.
func doSave(v *site.Visit) (site.Done, error) {
	t, err := read(v)
	if err != nil {
		return site.Done{}, err
	}
	own, err := t.ownLevel(v)
	if err != nil {
		return site.Done{}, err
	}
	name := v.Posted("name")
	if name == "" {
		return site.Done{}, site.Wrong("name", "is required")
	}
	done := site.Done{To: v.Frame.Link(path, "preset", name), Say: "The policy " + name + " is saved. Tenants and endpoints can name it like a preset."}
	if v.Posted("replace") != "" {
		return done, replacePolicy(v, name, own)
	}
	in := map[string]any{"name": name, "description": v.Posted("description"), "policy": own}
	err = v.Do(http.MethodPost, v.Server("policies"), in, nil)
	if p, ok := errors.AsType[*site.Problem](err); ok && p.Code == "uid_taken" {
		return done, site.Wrong("name", "is in use; tick Replace to change the policy for all that use it")
	}
	return done, err
}

// replacePolicy makes another policy of the one with that name.
func replacePolicy(v *site.Visit, name string, level json.RawMessage) error {
	var before view.NamedPolicy
	err := v.Get(v.Server("policies", name), nil, &before)
	if p, ok := errors.AsType[*site.Problem](err); ok && p.Status == http.StatusNotFound {
		return site.Wrong("name", "is not the name of a policy that could be replaced")
	}
	if err != nil {
		return err
	}
	in := map[string]any{"policy": replacing(before.Policy, level)}
	if text := v.Posted("description"); text != "" {
		in["description"] = text
	}
	return v.Do(http.MethodPatch, v.Server("policies", name), in, nil)
}
