package transfer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// What a change does.
const (
	create = "create"
	change = "change"
	remove = "delete"
)

var signs = map[string]string{create: "+", change: "~", remove: "-"}

// step is one change of one object.
type step struct {
	Action string   `json:"action"`
	Kind   string   `json:"kind"`
	Name   string   `json:"name"`
	Fields []string `json:"fields,omitempty"`
	Result string   `json:"result"`
	Error  string   `json:"error,omitempty"`

	item   *item
	stored *stored
	owner  *step  // makes the tenant that it belongs to
	list   string // path that it is made below
	body   object
	status string   // to get; empty: none
	rotate []string // secrets to get
	err    error
}

// planner compares a document with a server.
type planner struct {
	*state

	prune   bool
	secrets bool // write what cannot be compared

	steps    []*step
	removals []*step // parents before what is in them
	problems []string
	unseen   int // values that were given and cannot be compared
}

func (p *planner) bad(path, format string, args ...any) {
	if len(p.problems) < maxProblems {
		p.problems = append(p.problems, path+": "+fmt.Sprintf(format, args...))
	}
}

// plan lists the steps that make the server what the document says.
func (p *planner) plan(ctx context.Context, doc document) error {
	for _, k := range kinds {
		if doc[k.section] == nil && len(k.within) == 0 {
			continue
		}
		have, err := p.readAll(ctx, k, "")
		if err != nil {
			return err
		}
		if doc[k.section] == nil {
			continue // only read because others name them
		}
		if err := p.section(ctx, k, doc[k.section], have, nil, "", ""); err != nil {
			return err
		}
	}
	slices.Reverse(p.removals)
	p.steps = append(p.steps, p.removals...)
	if len(p.problems) > 0 {
		return kit.Usagef("nothing was changed:\n  %s", strings.Join(p.problems, "\n  "))
	}
	return nil
}

// section compares the objects of one kind. owner is the step that makes their tenant,
// tenant how the API knows it.
func (p *planner) section(ctx context.Context, k *kind, want []*item, have []*stored, owner *step, tenant, prefix string) error {
	list := strings.Replace(k.list, "TENANT", tenant, 1)
	matched := map[*stored]bool{}
	for _, it := range want {
		st, twins := match(it, have)
		if twins {
			p.bad(it.path+"."+k.key, "the server has several of this name; give them different names first")
			continue
		}
		var made *step
		switch {
		case st != nil:
			matched[st] = true
			if err := p.compare(ctx, it, st, prefix); err != nil {
				return err
			}
		case it.key == "":
			p.bad(it.path+"."+k.key, "is required: the server has no %s %s, and a new one needs it", k.noun, it.id)
			continue
		default:
			made = p.create(it, list, owner, prefix)
		}
		if err := p.inside(ctx, k, it, st, made, prefix); err != nil {
			return err
		}
	}
	if !p.prune {
		return nil
	}
	for _, st := range have {
		if !matched[st] && (k.forever == "" || st.key != k.forever) {
			if err := p.remove(ctx, st, prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

// inside goes on with what belongs to a tenant.
func (p *planner) inside(ctx context.Context, k *kind, it *item, st *stored, made *step, prefix string) error {
	for _, w := range k.within {
		want := it.within[w.section]
		if want == nil {
			continue
		}
		tenant := it.key
		var have []*stored
		if st != nil {
			tenant = st.id
			var err error
			if have, err = p.readAll(ctx, w, tenant); err != nil {
				return err
			}
		}
		if err := p.section(ctx, w, want, have, made, tenant, prefix+it.name()+"/"); err != nil {
			return err
		}
	}
	return nil
}

// match finds the object that an item is about; twins are several of its name.
func match(it *item, have []*stored) (found *stored, twins bool) {
	for _, st := range have {
		if it.key != "" && st.name() == it.name() || it.key == "" && st.id == it.id {
			if found != nil {
				return nil, true
			}
			found = st
		}
	}
	return found, false
}

// create plans a new object.
func (p *planner) create(it *item, list string, owner *step, prefix string) *step {
	k := it.kind
	st := &step{Action: create, Kind: k.noun, Name: prefix + it.name(), item: it, list: list, owner: owner, body: object{k.key: it.key}}
	for i := range k.fields {
		f := &k.fields[i]
		v, given := it.values[f.name]
		if !given && f.byKey {
			v, given = it.key, true
		}
		if !given {
			continue
		}
		if f.hidden {
			p.refuseMasked(it.path+"."+f.name, v)
		}
		if !f.apart {
			st.body[f.name] = v
		}
	}
	p.wish(it, st)
	if st.status == "paused" {
		st.body["paused"], st.status = true, ""
	}
	if st.status == "active" {
		st.status = ""
	}
	if len(st.rotate) > 0 {
		st.body["secret"], st.rotate = st.rotate[0], st.rotate[1:]
	}
	p.steps = append(p.steps, st)
	return st
}

// refuseMasked names values that stand for hidden ones.
func (p *planner) refuseMasked(path string, v any) {
	const message = "is hidden (***): put its value into the file"
	switch v := v.(type) {
	case string:
		if strings.Contains(v, masked) {
			p.bad(path, message)
		}
	case object:
		for _, name := range sorted(v) {
			if str(v[name]) == masked {
				p.bad(path+"."+name, message)
			}
		}
	}
}

// wish takes over what has ways of its own.
func (p *planner) wish(it *item, st *step) {
	if v, given := it.values[statusField]; given && it.kind.field(statusField).apart {
		st.status = str(v)
		if !slices.Contains([]string{"active", "paused", "disabled"}, st.status) {
			p.bad(it.path+"."+statusField, "%q must be active, paused or disabled", st.status)
		}
	}
	if v, given := it.values[secretsField].([]any); given {
		for _, s := range v {
			st.rotate = append(st.rotate, str(s))
		}
	}
}

// compare plans the change of an object, if it takes one.
func (p *planner) compare(ctx context.Context, it *item, have *stored, prefix string) error {
	k := it.kind
	st := &step{Action: change, Kind: k.noun, Name: prefix + it.name(), item: it, stored: have, body: object{}}
	for i := range k.fields {
		f := &k.fields[i]
		if _, given := it.values[f.name]; f.apart || f.kept && !given {
			continue
		}
		want, is := it.value(f), have.value(f)
		switch {
		case f.hidden:
			p.compareHidden(st, f, want, is)
		case f.same(want, is):
		case f.fixed:
			p.bad(it.path+"."+f.name, "cannot change; give the new one another %s, or delete this one first", k.key)
		case f.whole:
			st.set(f.name, want)
		default:
			st.set(f.name, difference(is, want))
		}
	}
	p.wish(it, st)
	if err := p.compareWishes(ctx, st); err != nil {
		return err
	}
	if len(st.Fields) > 0 {
		p.steps = append(p.steps, st)
	}
	return nil
}

func (st *step) set(name string, value any) {
	st.body[name] = value
	st.Fields = append(st.Fields, name)
}

// compareWishes drops the wishes that the object has already.
func (p *planner) compareWishes(ctx context.Context, st *step) error {
	if st.status == str(st.stored.object[statusField]) {
		st.status = ""
	}
	if st.status != "" {
		st.Fields = append(st.Fields, statusField)
	}
	if len(st.rotate) == 0 {
		return nil
	}
	have, err := p.secretsOf(ctx, st.stored.at)
	if err != nil {
		return fmt.Errorf("%s %s: %w", st.Kind, st.Name, err)
	}
	st.rotate = slices.DeleteFunc(st.rotate, func(s string) bool { return slices.Contains(have, any(s)) })
	if len(st.rotate) > 0 {
		st.Fields = append(st.Fields, secretsField)
	}
	return nil
}

// compareHidden compares what can be compared of values that the server hides.
func (p *planner) compareHidden(st *step, f *field, want, is any) {
	path := st.item.path + "." + f.name
	if f.form == names {
		p.compareNames(st, f, want, is)
		return
	}
	w, h := str(want), str(is)
	switch last4 := str(st.stored.object[f.name+"_last4"]); {
	case w == h:
	case last4 != "" && w != masked: // the end of it is shown
		if !strings.HasSuffix(w, last4) || p.secrets {
			st.set(f.name, w)
		}
	case strings.Contains(w, masked):
		p.bad(path, "is hidden (***) and not the one that the server has: put its value into the file")
	case strings.HasSuffix(h, masked) && strings.HasPrefix(w, strings.TrimSuffix(h, masked)):
		if p.secrets {
			st.set(f.name, w)
		} else {
			p.unseen++
		}
	default:
		st.set(f.name, want)
	}
}

// compareNames compares headers: their names are shown, their values are not.
func (p *planner) compareNames(st *step, f *field, want, is any) {
	have, patch := map[string]string{}, object{}
	is2, _ := is.(object)
	for name := range is2 {
		have[strings.ToLower(name)] = name
	}
	given, _ := want.(object)
	for _, name := range sorted(given) {
		_, there := have[strings.ToLower(name)]
		delete(have, strings.ToLower(name))
		switch hidden := str(given[name]) == masked; {
		case hidden && !there:
			p.bad(st.item.path+"."+f.name+"."+name, "is hidden (***): put its value into the file")
		case hidden:
		case there && !p.secrets:
			p.unseen++
		default:
			patch[name] = given[name]
		}
	}
	for _, name := range have {
		patch[name] = nil
	}
	if len(patch) > 0 {
		st.set(f.name, patch)
	}
}

// remove plans the end of an object and of what is in it.
func (p *planner) remove(ctx context.Context, st *stored, prefix string) error {
	p.removals = append(p.removals, &step{Action: remove, Kind: st.kind.noun, Name: prefix + st.name(), stored: st})
	for _, w := range st.kind.within {
		all, err := p.readAll(ctx, w, st.id)
		if err != nil {
			return err
		}
		for _, child := range all {
			if err := p.remove(ctx, child, prefix+st.name()+"/"); err != nil {
				return err
			}
		}
	}
	return nil
}

// difference is the merge patch that makes one value of the other.
func difference(have, want any) any {
	h, isH := have.(object)
	w, isW := want.(object)
	if !isH || !isW {
		return want
	}
	out := object{}
	for name := range h {
		if _, stays := w[name]; !stays {
			out[name] = nil
		}
	}
	for name, v := range w {
		if old, there := h[name]; !there {
			out[name] = v
		} else if !(&field{}).same(old, v) {
			out[name] = difference(old, v)
		}
	}
	return out
}

// counts are how many steps there are of each kind.
func counts(steps []*step) (made, changed, removed int) {
	for _, s := range steps {
		switch s.Action {
		case create:
			made++
		case change:
			changed++
		default:
			removed++
		}
	}
	return made, changed, removed
}
