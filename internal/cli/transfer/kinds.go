// Package transfer takes the configuration of a server out into a file and brings
// one in from there, and takes out dead letters and events.
//
// Everything goes through the API, so it is checked, audited and bounded like what a
// person does. What kinds of objects there are is one table (kinds.go): a new kind is
// a row of it. What their fields may hold is known to the server alone.
package transfer

import "encoding/json"

// object is one object of the API, as JSON has it. Numbers are json.Number.
type object = map[string]any

// form is what a field of the document looks like.
type form string

const (
	text    form = "a text"
	number  form = "a number"
	toggle  form = "true or false"
	texts   form = "a list of texts"
	names   form = "names with texts"
	tree    form = "a mapping"
	objects form = "a list of mappings"
	value   form = "a value" // whatever JSON has
)

// field is one field of a kind. What the document leaves out has its usual value.
type field struct {
	name  string
	form  form
	usual any // nil: none, null for the server

	required bool
	fixed    bool // given when it is made; it cannot change
	kept     bool // left out means: as it is
	hidden   bool // its values cannot be read back; the server shows *** instead
	sparse   bool // a zero in it is the same as nothing
	apart    bool // has a way of its own into the server
	byKey    bool // left out when it is made means: the same as the key
	whole    bool // a change replaces it; nulls in it mean something
}

// kind is one kind of objects.
type kind struct {
	section string // its list in the document
	noun    string
	key     string // the field that people know it by
	list    string // path of all of them, below that of their tenant with TENANT
	byKey   bool   // its path ends with the key; else with the id
	put     bool   // made and changed by PUT of the whole; needs byKey
	fields  []field
	within  []*kind // kinds that belong to one object of this one, a tenant
	// ofTenant: a field names the tenant whose it is, and tells apart two of one name.
	ofTenant bool
	forever  string // key of the one that cannot be deleted
}

const (
	statusField  = "status"
	secretsField = "secrets"
	tenantField  = "tenant"
	idField      = "id"
)

var (
	noTexts   = []any{}
	noMapping = object{}
)

// kinds is everything that a document may hold, in the order in which it is made.
var kinds = []*kind{
	{
		section: "policies", noun: "policy", key: "name", list: "v1/policies", byKey: true,
		fields: []field{
			{name: "description", form: text, usual: ""},
			{name: "policy", form: tree, usual: noMapping},
		},
	},
	{
		section: "tenants", noun: "tenant", key: "uid", list: "v1/tenants", forever: "default",
		fields: []field{
			{name: "name", form: text, kept: true, byKey: true},
			{name: "policy", form: tree, usual: noMapping},
			{name: "limits", form: tree, usual: noMapping, sparse: true},
			{name: "metadata", form: names, usual: noMapping},
		},
		within: []*kind{
			{
				section: "endpoints", noun: "endpoint", key: "uid", list: "v1/tenants/TENANT/endpoints",
				fields: []field{
					{name: "url", form: text, required: true},
					{name: "description", form: text, usual: ""},
					{name: "types", form: texts, usual: []any{"*"}},
					{name: "filter", form: text},
					{name: "policy", form: tree, usual: noMapping},
					{name: "signatures", form: objects, kept: true},
					{name: "body", form: text, usual: "payload"},
					{name: "trace_context", form: text, usual: "off"},
					{name: "headers", form: names, usual: noMapping, hidden: true},
					{name: "metadata", form: names, usual: noMapping},
					{name: statusField, form: text, kept: true, apart: true},
					{name: secretsField, form: texts, kept: true, apart: true},
				},
			},
			{
				section: "event_types", noun: "event type", key: "type", list: "v1/tenants/TENANT/event-types", byKey: true,
				fields: []field{
					{name: "description", form: text, usual: ""},
					{name: "schema", form: value, whole: true},
					{name: "example", form: value, whole: true},
				},
			},
		},
	},
	{
		section: "alert_channels", noun: "alert channel", key: "name", list: "v1/alert-channels", ofTenant: true,
		fields: []field{
			{name: tenantField, form: text, fixed: true},
			{name: "kind", form: text, required: true, fixed: true},
			{name: "levels", form: texts, usual: noTexts},
			{name: "min_severity", form: text},
			{name: "rules", form: texts, usual: noTexts},
			{name: "operational_events", form: texts, usual: noTexts},
			{name: "send_resolved", form: toggle, usual: true},
			{name: "url", form: text, hidden: true},
			{name: "secret", form: text, kept: true, hidden: true},
			{name: "headers", form: names, usual: noMapping, hidden: true},
			{name: "to", form: texts, usual: noTexts},
		},
	},
}

func (k *kind) field(name string) *field {
	for i := range k.fields {
		if k.fields[i].name == name {
			return &k.fields[i]
		}
	}
	return nil
}

// known lists the names that an object of this kind may have in a document.
func (k *kind) known() []string {
	out := []string{idField, k.key}
	for _, f := range k.fields {
		out = append(out, f.name)
	}
	for _, w := range k.within {
		out = append(out, w.section)
	}
	return out
}

// str is a value that is a text, else "".
func str(v any) string {
	s, _ := v.(string)
	return s
}

// count is a value that is a number.
func count(v any) json.Number {
	n, _ := v.(json.Number)
	return n
}
