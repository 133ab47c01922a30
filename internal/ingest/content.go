package ingest

import (
	"cmp"
	"errors"
	"sync"

	"github.com/breakwaterhq/breakwater/internal/filter"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/schema"
)

// This file holds what looks into payloads: schemas of types, and filters of endpoints.
// Events that meet neither are never decoded.

// large is the size from which payloads are decoded a few at a time: decoded they take
// many times as much.
const large = 64 << 10

// maxPrograms bounds the compiled filters in memory; past it the cache starts anew.
const maxPrograms = 10000

// programs keeps compiled filters: a change of one endpoint makes the tenant be read
// again with all others as they were.
type programs struct {
	mu  sync.Mutex
	all map[string]*program
}

// program is a filter, or why it is not one any more.
type program struct {
	text string
	code *filter.Program
	err  error
}

// of returns the program of an endpoint's filter, nil for none.
func (p *programs) of(text string) *program {
	if text == "" {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.all[text]; known != nil {
		return known
	}
	if p.all == nil || len(p.all) >= maxPrograms {
		p.all = make(map[string]*program)
	}
	made := &program{text: text}
	made.code, made.err = filter.Compile(text)
	p.all[text] = made
	return made
}

// typeSchema is the schema of an event type, compiled when the first event comes. One
// that cannot be compiled any more checks nothing: the API refuses those, and events are
// not lost by a rule that came later.
type typeSchema struct {
	compile func() *schema.Schema
}

func newTypeSchema(t *hook.EventType) *typeSchema {
	doc := t.Schema
	return &typeSchema{sync.OnceValue(func() *schema.Schema {
		v, err := filter.Decode(doc)
		if err != nil {
			return nil
		}
		s, err := schema.Compile(v)
		if err != nil {
			return nil
		}
		return s
	})}
}

// content is the payload of a submission, decoded when somebody asks for it.
type content struct {
	value any
	err   error // it is called JSON and cannot be read
	json  bool
}

func (in *Ingest) decode(s *hook.Submission) *content {
	c := &content{json: hook.IsJSON(s.ContentType)}
	if !c.json {
		return c
	}
	if len(s.Payload) > large {
		in.decoding <- struct{}{}
		defer func() { <-in.decoding }()
	}
	c.value, c.err = filter.Decode(s.Payload)
	return c
}

// fits checks a payload against the schema of its type.
func (c *content) fits(t *typeSchema) error {
	s := t.compile()
	if s == nil {
		return nil
	}
	bad := &hook.Invalid{Code: mismatch}
	switch {
	case !c.json:
		bad.Fields = []hook.FieldError{{Path: "payload", Message: "must be JSON: its type has a schema"}}
	case c.err != nil:
		bad.Fields = []hook.FieldError{{Path: "payload", Message: c.err.Error()}}
	default:
		for _, p := range s.Validate(c.value) {
			bad.Fields = append(bad.Fields, hook.FieldError{Path: "payload" + p.Path, Message: p.Message})
		}
	}
	if len(bad.Fields) == 0 {
		return nil
	}
	return bad
}

// mismatch is the code of a payload that does not fit.
const mismatch = "schema_mismatch"

func isMismatch(err error) bool {
	bad, ok := errors.AsType[*hook.Invalid](err)
	return ok && bad.Code == mismatch
}

// failed is a filter that could not be evaluated for an event.
type failed struct {
	target *target
	err    error
}

// filter returns the targets whose filters let an event through. Where one cannot be
// evaluated the endpoint gets the event: a mistake in a filter loses nothing.
func (c *content) filter(v *view, s *hook.Submission, matches []*target) (through []*target, wrong []failed) {
	e := &filter.Event{Type: s.Type, Tenant: cmp.Or(v.tenant.UID, hook.TenantPrefix.Format(v.tenant.ID)), Payload: c.value}
	through = make([]*target, 0, len(matches))
	for _, t := range matches {
		ok, err := true, error(nil)
		if t.filter != nil {
			ok, err = t.filter.match(c, e)
		}
		if err != nil {
			wrong = append(wrong, failed{t, err})
		}
		if ok || err != nil {
			through = append(through, t)
		}
	}
	return through, wrong
}

func (p *program) match(c *content, e *filter.Event) (bool, error) {
	switch {
	case p.err != nil:
		return false, p.err
	case c.err != nil:
		return false, c.err
	default:
		return p.code.Match(e)
	}
}
