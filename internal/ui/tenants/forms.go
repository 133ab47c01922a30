package tenants

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// form is what the form of a tenant shows beside its fields.
type form struct {
	Heading, Action, Button, Back string
	Version                       int64
}

func loadNew(v *site.Visit) (any, error) {
	v.Fill(url.Values{})
	return &form{Heading: "New tenant", Action: v.Frame.Link(listPath), Button: "Create the tenant", Back: v.Frame.Link(listPath)}, nil
}

func loadEdit(v *site.Visit) (any, error) {
	t, err := read(v)
	if err != nil {
		return nil, err
	}
	v.Frame.Title = "Edit " + t.Name
	policy := pretty(t.Policy)
	v.Fill(url.Values{
		"name": {t.Name}, "uid": {site.Either(t.UID, "")}, "policy": {policy}, "version": {strconv.FormatInt(t.Version, 10)},
		"limits.events_per_second": {amount(t.Limits.EventsPerSecond)}, "limits.max_pending": {amount(float64(t.Limits.MaxPending))},
		"limits.max_endpoints": {amount(float64(t.Limits.MaxEndpoints))}, "limits.max_stored_bytes": {amount(float64(t.Limits.MaxStoredBytes))},
	})
	return &form{
		Heading: "Edit " + t.Name, Action: v.Frame.Link(tenantPath(t.ID, "edit")), Button: "Save", Back: v.Frame.Link(tenantPath(t.ID)), Version: t.Version,
	}, nil
}

// amount writes a limit; that of the server is an empty field.
func amount(f float64) string {
	if f == 0 {
		return ""
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// fields reads the form of a tenant.
func fields(v *site.Visit) (map[string]any, error) {
	limits := map[string]any{}
	for _, name := range []string{"events_per_second", "max_pending", "max_endpoints", "max_stored_bytes"} {
		field, n := "limits."+name, json.Number("0")
		if text := v.Posted(field); text != "" {
			f, err := strconv.ParseFloat(text, 64)
			if err != nil || f != f || f < 0 || f > 1e18 || name != "events_per_second" && f != float64(int64(f)) {
				return nil, site.Wrong(field, "must be a number from 0; empty is the setting of the server")
			}
			n = json.Number(strconv.FormatFloat(f, 'f', -1, 64))
		}
		limits[name] = n
	}
	in := map[string]any{"name": v.Posted("name"), "limits": limits}
	if text := v.Posted("policy"); text != "" {
		if !json.Valid([]byte(text)) {
			return nil, site.Wrong("policy", "must be a JSON object such as {\"preset\": \"quick\"}")
		}
		in["policy"] = json.RawMessage(text)
	}
	return in, nil
}

func create(v *site.Visit) (site.Done, error) {
	in, err := fields(v)
	if err != nil {
		return site.Done{}, err
	}
	if uid := v.Posted("uid"); uid != "" {
		in["uid"] = uid
	}
	var t view.Tenant
	if err := v.Do(http.MethodPost, v.Server("tenants"), in, &t); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Frame.Link(tenantPath(t.ID)), Say: "The tenant " + t.Name + " is created. Give it an endpoint and a key next."}, nil
}

func edit(v *site.Visit) (site.Done, error) {
	before, err := read(v)
	if err != nil {
		return site.Done{}, err
	}
	in, err := fields(v)
	if err != nil {
		return site.Done{}, err
	}
	in["uid"] = nil
	if uid := v.Posted("uid"); uid != "" {
		in["uid"] = uid
	}
	if in["policy"], err = replaced(before.Policy, in["policy"]); err != nil {
		return site.Done{}, err
	}
	if err := v.Patch(v.Server("tenants", before.ID), in, nil); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Frame.Link(tenantPath(before.ID)), Say: "The tenant is saved."}, nil
}

// replaced is the patch that makes a policy out of the one before: what is not in it
// any more is taken out.
func replaced(before json.RawMessage, after any) (any, error) {
	was, now := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := json.Unmarshal(before, &was); err != nil {
		was = nil
	}
	if text, given := after.(json.RawMessage); given {
		if err := json.Unmarshal(text, &now); err != nil {
			return nil, site.Wrong("policy", "must be a JSON object")
		}
	}
	if len(now) == 0 {
		return nil, nil // null: none
	}
	for name := range was {
		if _, stays := now[name]; !stays {
			now[name] = json.RawMessage("null")
		}
	}
	return now, nil
}

func loadDelete(v *site.Visit) (any, error) {
	t, err := read(v)
	if err != nil {
		return nil, err
	}
	var o view.Overview
	if err := v.Get(v.Server("tenants", t.ID, "stats"), url.Values{"window": {"1h"}}, &o); err != nil {
		return nil, err
	}
	endpoints := o.Breakers.Closed + o.Breakers.Open + o.Breakers.HalfOpen
	return &site.Confirm{
		Title:    "Delete the tenant " + t.Name,
		Sentence: "Its endpoints are deleted, what is pending is cancelled, and its keys are revoked. It cannot be undone.",
		Facts: []string{
			words.Count(endpoints, "endpoint", "endpoints"),
			words.AtLeast(o.DeadLetters.Total, o.DeadLetters.AtLeast) + " dead letters",
			words.Number(o.Totals.Events) + " events were published in the last hour",
		},
		Gentler: "To stop sending for a while, pause its endpoints instead. To keep others from publishing, revoke its keys.",
		Action:  v.Frame.Link(tenantPath(t.ID, "delete")), Typed: site.Either(t.UID, t.ID), AskNote: false, Button: "Delete " + t.Name, Danger: true,
		Back: v.Frame.Link(tenantPath(t.ID)), BackName: t.Name,
	}, nil
}

func remove(v *site.Visit) (site.Done, error) {
	t, err := read(v)
	if err != nil {
		return site.Done{}, err
	}
	if name := site.Either(t.UID, t.ID); v.Posted("typed") != name {
		return site.Done{}, site.Wrong("typed", "must be "+name)
	}
	if err := v.Do(http.MethodDelete, v.Server("tenants", t.ID)+"?force=true", nil, nil); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: listPath, Say: "The tenant " + t.Name + " is deleted."}, nil
}

// over reports whether a key works no more.
func over(k *view.Key, now time.Time) bool {
	expires := time.Time(k.ExpiresAt)
	return !time.Time(k.RevokedAt).IsZero() || !expires.IsZero() && !now.Before(expires)
}

// limits lists what a tenant may use.
func limits(l *view.Limits) []limit {
	const ofServer = "as the server says"
	out := []limit{{"Events per second", ofServer}, {"Pending deliveries", ofServer}, {"Endpoints", ofServer}, {"Stored bytes", ofServer}}
	if l.EventsPerSecond > 0 {
		out[0].Value = words.PerSecond(l.EventsPerSecond)
	}
	for i, n := range []int64{l.MaxPending, l.MaxEndpoints} {
		if n > 0 {
			out[i+1].Value = words.Number(n)
		}
	}
	if l.MaxStoredBytes > 0 {
		out[3].Value = words.Size(l.MaxStoredBytes)
	}
	return out
}

// pretty writes a policy for people; empty: there is none.
func pretty(policy json.RawMessage) string {
	if text := bytes.TrimSpace(policy); len(text) == 0 || string(text) == "{}" || string(text) == "null" {
		return ""
	}
	var b bytes.Buffer
	if err := json.Indent(&b, policy, "", "  "); err != nil {
		return string(policy)
	}
	return b.String()
}
