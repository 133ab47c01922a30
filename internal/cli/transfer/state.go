package transfer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// masked is what the API shows of what cannot be read back.
const masked = "***"

// state reads what a server has.
type state struct {
	c *kit.Client
	// tenants are uids by ids; those that have none are left out.
	tenants map[string]string
}

// stored is an object of the server, as a document would show it.
type stored struct {
	item

	object object
	at     string // its path
}

// readAll lists objects of a kind, below a tenant if it belongs to one.
func (s *state) readAll(ctx context.Context, k *kind, tenant string) ([]*stored, error) {
	list := strings.Replace(k.list, "TENANT", url.PathEscape(tenant), 1)
	page, err := s.c.List(ctx, list, url.Values{"order": {"asc"}}, math.MaxInt-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", k.section, err)
	}
	out := make([]*stored, 0, len(page.Data))
	for _, raw := range page.Data {
		o, err := decode(raw)
		if err != nil {
			return nil, err
		}
		if k.ofTenant && str(o[idField]) == "log" { // always there, as it is
			continue
		}
		out = append(out, s.show(k, o, list))
	}
	if k.list == "v1/tenants" {
		s.tenants = map[string]string{}
		for _, t := range out {
			s.tenants[t.id] = cmp.Or(t.key, t.id)
		}
	}
	slices.SortStableFunc(out, func(a, b *stored) int {
		return cmp.Or(strings.Compare(a.name(), b.name()), strings.Compare(a.id, b.id))
	})
	return out, nil
}

// readOne reads one object.
func (s *state) readOne(ctx context.Context, k *kind, ref string) (*stored, error) {
	var raw json.RawMessage
	if err := s.c.Call(ctx, kit.Request{Method: http.MethodGet, Path: k.list + "/" + url.PathEscape(ref)}, &raw); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", k.noun, ref, err)
	}
	o, err := decode(raw)
	if err != nil {
		return nil, err
	}
	return s.show(k, o, k.list), nil
}

func decode(raw []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var o object
	if err := dec.Decode(&o); err != nil {
		return nil, fmt.Errorf("understand answer: %w", err)
	}
	return o, nil
}

// show turns an object of the API into one of a document: what has its usual value
// is left out.
func (s *state) show(k *kind, o object, list string) *stored {
	st := &stored{object: o, item: item{kind: k, id: str(o[idField]), key: str(o[k.key]), values: object{}, within: map[string][]*item{}}}
	last := st.id
	if k.byKey {
		last = st.key
	}
	st.at = list + "/" + url.PathEscape(last)
	for i := range k.fields {
		f := &k.fields[i]
		v := f.normal(o[f.name])
		switch {
		case f.name == tenantField && k.ofTenant && v != nil:
			v = cmp.Or(s.tenants[str(v)], str(v))
		case f.name == statusField && f.apart && v != "active" && str(o["status_reason"]) != "manual":
			continue // the server's doing, not somebody's wish
		}
		if v != nil && (f.kept || !f.same(v, f.usual)) {
			st.values[f.name] = v
		}
	}
	return st
}

// normal writes numbers in one way, and leaves zeros out where they say nothing.
func (f *field) normal(v any) any {
	switch v := v.(type) {
	case json.Number:
		return plainNumber(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = f.normal(v[i])
		}
		return out
	case object:
		out := object{}
		for name, e := range v {
			n := f.normal(e)
			if f.sparse && (n == nil || count(n) == "0") {
				continue
			}
			out[name] = n
		}
		return out
	default:
		return v
	}
}

// same compares two values of the field. A null in a policy says where a value comes
// from; a change of an object cannot bring one, so it is not looked at.
func (f *field) same(a, b any) bool {
	a, b = f.normal(a), f.normal(b)
	if !f.whole {
		a, b = withoutNulls(a), withoutNulls(b)
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func withoutNulls(v any) any {
	o, is := v.(object)
	if !is {
		return v
	}
	out := object{}
	for name, e := range o {
		if e != nil {
			out[name] = withoutNulls(e)
		}
	}
	return out
}

// value is what an object has in a field, given or not.
func (it *item) value(f *field) any {
	if v, given := it.values[f.name]; given {
		return v
	}
	return f.usual
}

// secretsOf reads the newest secret of each scheme. The server records that it was
// read.
func (s *state) secretsOf(ctx context.Context, at string) ([]any, error) {
	var answer struct {
		Secrets []struct{ Secret, Scheme string }
	}
	if err := s.c.Call(ctx, kit.Request{Method: http.MethodGet, Path: at + "/secret"}, &answer); err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	newest := map[string]string{}
	for _, one := range answer.Secrets { // newest first
		if newest[one.Scheme] == "" {
			newest[one.Scheme] = one.Secret
		}
	}
	out := make([]any, 0, len(newest))
	for _, scheme := range sorted(newest) {
		out = append(out, newest[scheme])
	}
	return out, nil
}
