package kit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Problem is an error answer of the API (problem+json).
type Problem struct {
	Title     string   `json:"title"`
	Status    int      `json:"status"`
	Detail    string   `json:"detail"`
	Code      string   `json:"code"`
	Current   string   `json:"current"` // state that stands in the way
	RequestID string   `json:"request_id"`
	Reasons   []string `json:"reasons"` // of /livez and /readyz
	Errors    []Field  `json:"errors"`

	about      subject
	retryAfter string
}

// subject is what was asked for.
type subject struct {
	method, path, tenant string
	signed               bool
}

func newProblem(resp *http.Response, body []byte, about subject) error {
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil {
		p = Problem{} // not from our server, perhaps from a proxy in between
	}
	p.Status = resp.StatusCode
	p.Title = cmp.Or(p.Title, resp.Status)
	p.about, p.retryAfter = about, resp.Header.Get("Retry-After")
	for i, e := range p.Errors {
		if name, ok := strings.CutPrefix(e.Path, "query."); ok { // a flag, to those who type it
			name, _, _ = strings.Cut(name, "[")
			p.Errors[i].Path = "--" + strings.ReplaceAll(name, "_", "-")
			p.Detail = strings.ReplaceAll(p.Detail, e.Path, p.Errors[i].Path)
		}
	}
	return &p
}

func (p *Problem) detail() string {
	return cmp.Or(p.Detail, strings.Join(p.Reasons, "; "), p.Title)
}

func (p *Problem) Error() string {
	said := make([]string, len(p.Errors))
	for i, e := range p.Errors {
		said[i] = e.Path + " " + e.Message
	}
	repeats := len(said) > 0 && p.Detail == strings.Join(said, "; ")
	var b strings.Builder
	if repeats && len(said) > 1 {
		fmt.Fprintf(&b, "%d things are wrong", len(said))
	} else {
		b.WriteString(p.detail())
	}
	if p.Code != "" {
		fmt.Fprintf(&b, " (%s)", p.Code)
	}
	if !repeats || len(said) > 1 {
		for _, e := range p.Errors {
			fmt.Fprintf(&b, "\n  %s: %s", e.Path, e.Message)
		}
	}
	if next := p.next(); next != "" {
		b.WriteString("\n  " + next)
	}
	if p.RequestID != "" && p.Status >= http.StatusInternalServerError {
		fmt.Fprintf(&b, "\n  request %s", p.RequestID)
	}
	return b.String()
}

// next says what to do, where the server cannot: it knows no commands and flags.
func (p *Problem) next() string {
	switch p.Status {
	case http.StatusUnauthorized:
		return "give a key with --api-key-file, BREAKWATER_API_KEY or BREAKWATER_API_KEY_FILE"
	case http.StatusForbidden:
		return "give another key with --api-key-file; an administrator makes one with: " + p.about.newKey()
	case http.StatusNotFound:
		return p.about.look()
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if p.retryAfter != "" {
			return "try again in " + p.retryAfter + " s"
		}
	}
	switch p.Code {
	case "tenant_required":
		return "name a tenant with --tenant; see: breakwater tenants list"
	case "uid_taken":
		return "choose another; see: breakwater " + p.about.list()
	case "url_blocked":
		if !strings.Contains(p.Detail, "lead to this address") {
			return ""
		}
		return "to deliver to this machine, start the server with --dev; to a private network, with --allow-cidr 10.0.0.0/8"
	case "invalid_parameter":
		if strings.Contains(p.Detail, "--endpoint ") {
			return "see: breakwater --tenant " + p.about.tenant + " endpoints list"
		}
	case "filter_empty":
		return "name deliveries or a filter such as --endpoint or --since, or --all"
	case "version_mismatch":
		return "somebody has changed it meanwhile: look at it, then run this again"
	case "state_conflict":
		return p.about.is(p.Current)
	case "tenant_not_empty":
		return "delete what it has first, or all of it with --force"
	}
	return ""
}

// collections are the parts of the API that hold objects: what one is called, and the
// command that lists them.
var collections = map[string]struct{ noun, list string }{
	"endpoints": {"endpoint", "endpoints list"}, "deliveries": {"delivery", "deliveries list"}, "events": {"event", "deliveries list"},
	"attempts": {"attempt", "tail"}, "replays": {"replay", "replay list"}, "alerts": {"alert", "alerts list --status firing,resolved"},
	"alert-channels": {"alert channel", "alerts channels list"}, "keys": {"key", "keys list"}, "tenants": {"tenant", "tenants list"},
	"policies": {"policy", "policies list"}, "event-types": {"event type", "event-types list"},
}

// views are the paths below a collection that are no object.
var views = map[string]bool{"stream": true, "batch": true, "count": true, "groups": true, "discard": true}

// collection returns the part of the API that was asked, and which object of it.
func (a subject) collection() (of, id string) {
	below := strings.TrimPrefix(strings.TrimPrefix(a.path, "T/"), "v1/")
	of, rest, _ := strings.Cut(below, "/")
	id, _, _ = strings.Cut(rest, "/")
	if collections[of].noun == "" || views[id] {
		return of, ""
	}
	if plain, err := url.PathUnescape(id); err == nil {
		id = plain
	}
	return of, id
}

// list is the command that shows what there is of this kind.
func (a subject) list() string {
	of, _ := a.collection()
	list := collections[of].list
	if strings.HasPrefix(a.path, "T/") && a.tenant != defaultTenant {
		list = "--tenant " + a.tenant + " " + list
	}
	return list
}

// look says what was looked for, and how to find what there is.
func (a subject) look() string {
	of, id := a.collection()
	ofTenant := strings.HasPrefix(a.path, "T/")
	switch {
	case id == "" && ofTenant:
		return "tenant " + a.tenant + "; see: breakwater tenants list"
	case id == "":
		return ""
	case !ofTenant || a.tenant == "-":
		return fmt.Sprintf("%s %s; see: breakwater %s", collections[of].noun, id, a.list())
	case a.tenant == defaultTenant:
		return fmt.Sprintf("%s %s of tenant %s; see: breakwater %s, or name another with --tenant", collections[of].noun, id, a.tenant, a.list())
	default:
		return fmt.Sprintf("%s %s of tenant %s; see: breakwater %s, or breakwater tenants list", collections[of].noun, id, a.tenant, a.list())
	}
}

// is says in which state the object is, and where to look at it.
func (a subject) is(state string) string {
	of, id := a.collection()
	if id == "" || state == "" {
		return ""
	}
	see := a.list()
	if strings.Contains(id, "_") && of != "keys" {
		see = "inspect " + id
	}
	return fmt.Sprintf("%s %s is %s; see: breakwater %s", collections[of].noun, id, state, see)
}

// newKey is the command that makes a key which may do it.
func (a subject) newKey() string {
	below, ofTenant := strings.CutPrefix(a.path, "T/")
	reads := a.method == http.MethodGet && !a.signed
	switch {
	case !ofTenant && !strings.HasPrefix(a.path, "v1/alerts/"):
		return "breakwater keys create --scope admin"
	case below == "events":
		if !reads {
			return a.keyOf("tenant:send")
		}
		return a.keyOf("tenant:read")
	case reads:
		return a.keyOf("tenant:read")
	default:
		return a.keyOf("tenant:write")
	}
}

func (a subject) keyOf(scope string) string {
	tenant := a.tenant
	if tenant == "-" {
		tenant = "TENANT"
	}
	return "breakwater keys create --scope " + scope + " --tenant " + tenant
}
