package apidocs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// content is what the page shows.
type content struct {
	Title, About, Version string
	Server                string // where the examples send their requests
	Groups                []group
	Shared                []answer // that many routes have
	Schemas               []object
}

type group struct {
	ID, Name, About string
	Routes          []route
}

type route struct {
	ID, Method, Path string
	Summary, About   string
	Key              bool // it needs one
	Scopes           []string
	Parameters       []param
	Body             []entity
	BodyRequired     bool
	Answers          []answer
	Curl             string
}

type param struct {
	member
	In      string
	Example string
}

// entity is a body of one media type.
type entity struct {
	Media   string
	Type    []part
	Members []member // of what has no name
	Example string
}

type answer struct {
	ID      string // of those that are shared
	Name    string
	Link    string // to one that is shared
	Status  string
	About   string
	Headers []param
	Bodies  []entity
}

// object is a schema.
type object struct {
	ID, Name, About string
	Type            []part // when it is no object
	Facts           string
	Members         []member
	Examples        []string
}

// contentOf reads what the document says.
func contentOf(d *document) *content {
	c := &content{Title: d.Info.Title, About: d.Info.Description, Version: d.Info.Version, Server: serverOf(d)}
	routes := map[string][]route{}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range methods {
			if op, ok := d.Paths[path][method]; ok {
				tag := "other"
				if len(op.Tags) > 0 {
					tag = op.Tags[0]
				}
				routes[tag] = append(routes[tag], d.route(strings.ToUpper(method), path, &op))
			}
		}
	}
	for _, t := range d.Tags {
		if len(routes[t.Name]) > 0 {
			c.Groups = append(c.Groups, group{tagID(t.Name), t.Name, t.Description, routes[t.Name]})
		}
		delete(routes, t.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(routes)) { // what no tag is described for
		c.Groups = append(c.Groups, group{tagID(name), name, "", routes[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Components.Responses)) {
		r := d.Components.Responses[name]
		c.Shared = append(c.Shared, answer{ID: answerID(name), Name: name, Status: statusOf(&r), About: r.Description, Bodies: entities(r.Content)})
	}
	slices.SortStableFunc(c.Shared, func(a, b answer) int { return strings.Compare(a.Status, b.Status) })
	for _, name := range slices.Sorted(maps.Keys(d.Components.Schemas)) {
		c.Schemas = append(c.Schemas, objectOf(name, d.Components.Schemas[name]))
	}
	return c
}

// methods in the order in which a reader meets them.
var methods = []string{"get", "post", "put", "patch", "delete", "head", "options", "trace"}

// serverOf is where the examples send their requests.
func serverOf(d *document) string {
	if len(d.Servers) > 0 && strings.Contains(d.Servers[0].URL, "://") {
		return strings.TrimSuffix(d.Servers[0].URL, "/")
	}
	return "http://127.0.0.1:8080"
}

func (d *document) route(method, path string, op *operation) route {
	r := route{
		ID: op.ID, Method: method, Path: path, Summary: op.Summary, About: op.Description,
		Key: len(op.Security) > 0, Scopes: op.Scopes,
	}
	for _, p := range op.Parameters {
		r.Parameters = append(r.Parameters, paramOf(p.Name, &p))
	}
	if op.Body != nil {
		r.Body, r.BodyRequired = entities(op.Body.Content), op.Body.Required
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		r.Answers = append(r.Answers, d.answer(status, op.Responses[status]))
	}
	r.Curl = command(method, path, op)
	return r
}

func paramOf(name string, p *parameter) param {
	example := ""
	if len(p.Example) > 0 {
		example = plain(p.Example)
	}
	return param{member{name, typeOf(p.Schema), p.Required, facts(p.Schema), p.Description}, p.In, example}
}

func (d *document) answer(status string, r response) answer {
	a := answer{Status: status, About: r.Description}
	if name, ok := strings.CutPrefix(r.Ref, responseRef); ok {
		a.Name, a.Link, a.About = name, answerID(name), d.Components.Responses[name].Description
		return a
	}
	a.Bodies = entities(r.Content)
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		h := r.Headers[name]
		a.Headers = append(a.Headers, paramOf(name, &h))
	}
	return a
}

func entities(content map[string]media) []entity {
	var out []entity
	for _, name := range slices.Sorted(maps.Keys(content)) {
		m := content[name]
		out = append(out, entity{Media: name, Type: typeOf(m.Schema), Members: inline(m.Schema), Example: indent(m.Example)})
	}
	return out
}

// statusOf is the status that the example of a shared answer has.
func statusOf(r *response) string {
	for _, m := range r.Content {
		var problem struct {
			Status json.Number `json:"status"`
		}
		if json.Unmarshal(m.Example, &problem) == nil && problem.Status != "" {
			return problem.Status.String()
		}
	}
	return ""
}

func objectOf(name string, s *schema) object {
	o := object{ID: schemaID(name), Name: name, About: s.Description, Facts: facts(s), Members: membersOf(s, "")}
	if len(o.Members) == 0 {
		o.Type = typeOf(s)
	}
	for _, e := range s.Examples {
		o.Examples = append(o.Examples, indent(e))
	}
	return o
}

// indent writes JSON in lines, without escapes that only HTML needs: the template
// escapes. What is no JSON is text.
func indent(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(b.String())
}

// command is the request for a shell, with KEY and URL as the page says above.
func command(method, path string, op *operation) string {
	query := url.Values{}
	for _, p := range op.Parameters {
		switch value := exampleOf(&p); {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(cmp.Or(value, "…")))
		case p.In == "query" && p.Required:
			query.Set(p.Name, value)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var b strings.Builder
	b.WriteString("curl -sS")
	if ok := op.Responses["200"]; ok.Content["text/event-stream"].Schema != nil {
		b.WriteString(" -N") // as it comes
	}
	if method != "GET" {
		b.WriteString(" -X " + method)
	}
	b.WriteString(` "$URL` + path + `"`)
	if len(op.Security) > 0 {
		b.WriteString(" \\\n  -H \"Authorization: Bearer $KEY\"")
	}
	if op.Body == nil {
		return b.String()
	}
	media := "application/json"
	if _, ok := op.Body.Content[media]; !ok {
		media = slices.Sorted(maps.Keys(op.Body.Content))[0]
	}
	b.WriteString(" \\\n  -H 'Content-Type: " + media + "'")
	if example := op.Body.Content[media].Example; len(example) > 0 {
		b.WriteString(" \\\n  -d '" + strings.ReplaceAll(indent(example), "'", `'\''`) + "'")
	}
	return b.String()
}

func exampleOf(p *parameter) string {
	switch {
	case len(p.Example) > 0:
		return plain(p.Example)
	case p.Schema != nil && len(p.Schema.Enum) > 0:
		return plain(p.Schema.Enum[0])
	case p.Schema != nil && len(p.Schema.Default) > 0:
		return plain(p.Schema.Default)
	}
	return ""
}

func tagID(name string) string    { return "tag-" + strings.ReplaceAll(name, " ", "-") }
func answerID(name string) string { return "answer-" + name }
