// Package eventtypes is the part of the API in which tenants say what their events look
// like: description, schema and example of each type.
//
// It keeps what people write. Events are checked where they are accepted.
package eventtypes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/filter"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/schema"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Config is what AddRoutes needs. All of it is required.
type Config struct {
	Path  string // of a tenant, which is {tenant} in it
	Store store.EventTypes
	IDs   *hook.IDSource
	// Changed tells the caches that events of a tenant may be judged otherwise now.
	Changed func(tenant hook.ID)
}

// limits are those of a tenant: its schemas are in memory where its events come in.
var limits = store.TypeLimits{Types: 500, SchemaBytes: 1 << 20}

const maxExample = 64 << 10 // bytes

// registry serves the routes.
type registry struct {
	cfg    Config
	server *rest.Server
}

// TypePath is an event type of a path.
type TypePath struct {
	rest.TenantPath
	Type string `path:"type" maxLength:"128" doc:"Such as order.paid." example:"order.paid"`
}

type typeList struct {
	rest.TenantPath
	rest.PageParams
}

type typeCreate struct {
	rest.TenantPath
	Body struct {
		Type        string          `json:"type" minLength:"1" maxLength:"128" doc:"Such as order.paid. It cannot change." example:"order.paid"`
		Description string          `json:"description,omitempty" maxLength:"1000"`
		Schema      json.RawMessage `json:"schema,omitempty" doc:"JSON Schema 2020-12, up to 64 KiB; references stay inside the document and do not go in circles."`
		Example     json.RawMessage `json:"example,omitempty" doc:"A payload, for people; it has to fit the schema."`
	}
}

type typePatch struct {
	TypePath
	rest.IfMatch
	Body struct {
		Description rest.Change[string]          `json:"description,omitzero" maxLength:"1000"`
		Schema      rest.Change[json.RawMessage] `json:"schema,omitzero" doc:"Replaces the stored one; null: payloads are not checked any more."`
		Example     rest.Change[json.RawMessage] `json:"example,omitzero" doc:"Replaces the stored one; null: none."`
	}
}

// AddRoutes adds the routes of event types.
func AddRoutes(server *rest.Server, cfg Config) {
	r := &registry{cfg: cfg, server: server}
	g := server.Group("event types")
	all, one := cfg.Path+"/event-types", cfg.Path+"/event-types/{type}"
	rest.Add(g, rest.NeedRead, "GET "+all, "list-event-types", "List what is known about event types", r.list)
	rest.Add(g, rest.NeedWrite, "POST "+all, "create-event-type", "Describe an event type", r.create,
		rest.Describe("With a schema, events of this type whose payload does not fit are refused with 422 schema_mismatch. Types that nobody described are accepted as they are."))
	rest.Add(g, rest.NeedRead, "GET "+one, "get-event-type", "Get what is known about an event type", r.get)
	rest.Add(g, rest.NeedWrite, "PATCH "+one, "change-event-type", "Change what is known about an event type", r.patch)
	rest.Add(g, rest.NeedWrite, "DELETE "+one, "delete-event-type", "Forget an event type", r.delete,
		rest.Describe("Its events are accepted as they are from then on."))
}

func (r *registry) list(ctx context.Context, c *rest.Call, in *typeList) (*rest.ListOutput[view.EventType], error) {
	read := func(p store.Page) ([]hook.EventType, error) { return r.cfg.Store.ListEventTypes(ctx, c.Tenant, p) }
	return rest.ListOf(r.server, c, in.PageParams, read,
		func(t hook.EventType) hook.ID { return t.ID }, func(t hook.EventType) view.EventType { return view.OfEventType(&t) })
}

func (r *registry) read(ctx context.Context, c *rest.Call, name string) (hook.EventType, error) {
	tenant, err := c.OneTenant()
	if err != nil {
		return hook.EventType{}, err
	}
	if hook.CheckType(name) != nil {
		return hook.EventType{}, hook.ErrNotFound
	}
	return r.cfg.Store.EventTypeByName(ctx, tenant, name)
}

func (r *registry) get(ctx context.Context, c *rest.Call, in *TypePath) (*rest.Versioned[view.EventType], error) {
	t, err := r.read(ctx, c, in.Type)
	if err != nil {
		return nil, err
	}
	return versioned(&t), nil
}

func versioned(t *hook.EventType) *rest.Versioned[view.EventType] {
	return &rest.Versioned[view.EventType]{ETag: rest.ETag(t.Version), Body: view.OfEventType(t)}
}

func (r *registry) create(ctx context.Context, c *rest.Call, in *typeCreate) (*rest.Created[view.EventType], error) {
	tenant, err := c.OneTenant()
	if err != nil {
		return nil, err
	}
	bad := &rest.Invalid{}
	t := hook.EventType{
		ID: r.cfg.IDs.Next(c.Now), TenantID: tenant, Type: in.Body.Type, Description: in.Body.Description,
		Schema: given(in.Body.Schema), Example: given(in.Body.Example), Version: 1, CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if err := hook.CheckType(t.Type); err != nil {
		bad.AddAs("type_invalid", "type", err.Error())
	}
	if err := check(bad, &t); err != nil {
		return nil, err
	}
	v := view.OfEventType(&t)
	if err := r.cfg.Store.CreateEventType(ctx, t, limits, r.server.Audit(c, tenant, "event_type.create", t.Type, diff(nil, v))); err != nil {
		return nil, fmt.Errorf("create event type: %w", refused(err, t.Type))
	}
	r.cfg.Changed(tenant)
	return &rest.Created[view.EventType]{Location: "/v1/tenants/" + v.Tenant + "/event-types/" + t.Type, Body: v}, nil
}

func (r *registry) patch(ctx context.Context, c *rest.Call, in *typePatch) (*rest.Versioned[view.EventType], error) {
	return rest.Update(in.IfMatch, func() (*rest.Versioned[view.EventType], error) {
		before, err := r.read(ctx, c, in.Type)
		if err != nil {
			return nil, err
		}
		if err := in.Check(before.Version); err != nil {
			return nil, err
		}
		return r.store(ctx, c, before, in)
	})
}

// store applies the patch to before and stores the result.
func (r *registry) store(ctx context.Context, c *rest.Call, before hook.EventType, in *typePatch) (*rest.Versioned[view.EventType], error) {
	t := before
	in.Body.Description.Apply(&t.Description)
	if in.Body.Schema.Set {
		t.Schema = given(in.Body.Schema.To)
	}
	if in.Body.Example.Set {
		t.Example = given(in.Body.Example.To)
	}
	t.UpdatedAt = c.Now
	if err := check(&rest.Invalid{}, &t); err != nil {
		return nil, err
	}
	record := r.server.Audit(c, t.TenantID, "event_type.change", t.Type, diff(view.OfEventType(&before), view.OfEventType(&t)))
	stored, err := r.cfg.Store.UpdateEventType(ctx, t, limits, record)
	if err != nil {
		return nil, fmt.Errorf("change event type: %w", refused(err, t.Type))
	}
	r.cfg.Changed(t.TenantID)
	return versioned(&stored), nil
}

func (r *registry) delete(ctx context.Context, c *rest.Call, in *TypePath) (*rest.Nothing, error) {
	t, err := r.read(ctx, c, in.Type)
	if err != nil {
		return nil, err
	}
	record := r.server.Audit(c, t.TenantID, "event_type.delete", t.Type, diff(view.OfEventType(&t), nil))
	if err := r.cfg.Store.DeleteEventType(ctx, t.TenantID, t.Type, record); err != nil {
		return nil, fmt.Errorf("delete event type: %w", err)
	}
	r.cfg.Changed(t.TenantID)
	return &rest.Nothing{}, nil
}

// given returns a document without white space; nil: there is none.
func given(doc json.RawMessage) json.RawMessage {
	if len(doc) == 0 || string(doc) == "null" {
		return nil
	}
	var compact bytes.Buffer
	if json.Compact(&compact, doc) != nil { // it was decoded before
		return doc
	}
	return compact.Bytes()
}

// check checks what create and change have in common.
func check(bad *rest.Invalid, t *hook.EventType) error {
	bad.CheckText("description", t.Description, rest.MaxDescription)
	payloads := checkSchema(bad, t.Schema)
	example, ok := decode(bad, "example", t.Example, maxExample)
	if ok && payloads != nil {
		for _, p := range payloads.Validate(example) {
			bad.Add("example"+p.Path, "schema_mismatch", p.Message)
		}
	}
	return bad.Err()
}

// checkSchema returns the schema ready to be applied, nil when there is none.
func checkSchema(bad *rest.Invalid, doc json.RawMessage) *schema.Schema {
	v, ok := decode(bad, "schema", doc, schema.MaxBytes)
	if !ok {
		return nil
	}
	s, err := schema.Compile(v)
	if err != nil {
		bad.Add("schema", "invalid", err.Error())
		return nil
	}
	return s
}

func decode(bad *rest.Invalid, path string, doc json.RawMessage, most int) (v any, ok bool) {
	if len(doc) == 0 {
		return nil, false
	}
	if len(doc) > most {
		bad.Add(path, "out_of_range", fmt.Sprintf("must have at most %d bytes", most))
		return nil, false
	}
	v, err := filter.Decode(doc)
	if err != nil || !utf8.Valid(doc) {
		bad.Add(path, "invalid_format", "must be JSON in UTF-8")
		return nil, false
	}
	return v, true
}

// refused says in the terms of the request why the store keeps no more.
func refused(err error, name string) error {
	switch {
	case errors.Is(err, hook.ErrUIDTaken):
		return rest.Conflict("exists", name+" is described already: change it with PATCH, or delete it first")
	case errors.Is(err, hook.ErrTooManyTypes):
		return rest.FieldError("type", "out_of_range", fmt.Sprintf("would be one more than the %d that a tenant may describe; delete one first", limits.Types))
	case errors.Is(err, hook.ErrSchemasTooLarge):
		return rest.FieldError("schema", "out_of_range", fmt.Sprintf("would make the schemas of the tenant larger than %d bytes together", limits.SchemaBytes))
	default:
		return err
	}
}

// diff compares two event types for the audit log.
func diff(before, after any) map[string]any {
	return rest.Diff(before, after, map[string]bool{"version": true, "updated_at": true, "created_at": true, "tenant": true})
}
