package settings

import (
	"net/http"
	"net/url"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

const keysPath = "/ui/settings/keys"

var (
	newKeyPage = site.Page{
		Path: keysPath + "/new", Template: "settings-key-new.html", Title: "New key", Place: place, Operator: true, Writes: true, Load: loadNewKey,
	}
	revokePage = site.Page{
		Path: keysPath + "/{key}/revoke", Template: "confirm.html", Title: "Revoke key", Place: place, Operator: true, Writes: true, Load: askRevoke,
	}
	// keyMadePage is shown once: it has the key.
	keyMadePage = site.Page{Template: "settings-key-made.html", Title: "Key created", Place: place, Operator: true}
)

type keys struct {
	Tabs []Tab
	Keys []key
	Next string
}

// key is one with its words.
type key struct {
	view.Key
	May   words.Word
	State words.Word
	Of    string // the tenant's name
	Mine  bool   // with which the visitor is logged in
}

// Over reports whether it works no more.
func (k *key) Over() bool { return k.State.API != "active" }

// Nothing is what the list says where it is empty.
func (k *keys) Nothing() words.Nothing { return words.Empty(words.NoKeys) }

func loadKeys(v *site.Visit) (any, error) {
	q := url.Values{"limit": {"50"}}
	if cursor := v.Query("cursor"); cursor != "" {
		q.Set("cursor", cursor)
	}
	var list site.List[view.Key]
	if err := v.Get(v.Server("keys"), q, &list); err != nil {
		return nil, err
	}
	c := &keys{Tabs: tabs(v), Next: site.Either(list.NextCursor, "")}
	names := map[string]string{}
	for _, k := range list.Data {
		shown := key{Key: k, May: words.ScopeOf(k.Scope), State: words.KeyStatusOf(keyStatus(&k, v.Now)), Mine: k.ID == v.Me.Key}
		if k.Tenant != nil {
			name, known := names[*k.Tenant]
			if !known {
				name = tenantName(v, *k.Tenant)
				names[*k.Tenant] = name
			}
			shown.Of = name
		}
		c.Keys = append(c.Keys, shown)
	}
	return c, nil
}

func keyStatus(k *view.Key, now time.Time) string {
	revoked, expires := time.Time(k.RevokedAt), time.Time(k.ExpiresAt)
	switch {
	case !revoked.IsZero():
		return "revoked"
	case !expires.IsZero() && !now.Before(expires):
		return "expired"
	default:
		return "active"
	}
}

// tenantName returns the uid of a tenant, or its id where it has none or is gone.
func tenantName(v *site.Visit, id string) string {
	var t view.Tenant
	if err := v.Get(v.Server("tenants", id), nil, &t); err != nil {
		return id
	}
	return site.Either(t.UID, id)
}

// maxKeyPages bounds how many keys are looked through for a name.
const maxKeyPages = 5

// findKey looks for a key; nil: it is not among the newest.
func findKey(v *site.Visit, id string) (*view.Key, error) {
	q := url.Values{"limit": {"100"}}
	for range maxKeyPages {
		var list site.List[view.Key]
		if err := v.Get(v.Server("keys"), q, &list); err != nil {
			return nil, err
		}
		for i := range list.Data {
			if list.Data[i].ID == id {
				return &list.Data[i], nil
			}
		}
		if list.NextCursor == nil {
			return nil, &site.Problem{Status: http.StatusNotFound, Detail: "There is no such key."}
		}
		q.Set("cursor", *list.NextCursor)
	}
	return nil, nil
}

// newKey is the form of a new key.
type newKey struct {
	Scopes []words.Word
	Lives  []life
}

type life struct{ Value, Text string }

var lives = []life{{"", "never"}, {"24h", "in a day"}, {"30d", "in 30 days"}, {"90d", "in 90 days"}, {"365d", "in a year"}}

func loadNewKey(v *site.Visit) (any, error) {
	c := &newKey{Lives: lives}
	for _, scope := range []string{"tenant:send", "tenant:read", "tenant:write", "admin:read", "admin"} {
		c.Scopes = append(c.Scopes, words.ScopeOf(scope))
	}
	v.Fill(url.Values{"scope": {"tenant:send"}, "of": {v.Tenant()}})
	return c, nil
}

// keyMade is what is shown once of a new key.
type keyMade struct {
	view.Key
	Text string `json:"key"`
}

func createKey(v *site.Visit) (site.Done, error) {
	if !v.Me.Operator() {
		return site.Done{}, &site.Problem{Status: http.StatusNotFound, Detail: "There is no such page, or it is not yours to see."}
	}
	in := map[string]string{"name": v.Posted("name"), "scope": v.Posted("scope")}
	if tenant := v.Posted("of"); tenant != "" {
		in["tenant"] = tenant
	}
	if text := v.Posted("expires_at"); text != "" {
		d, err := quantity.ParseDuration(text)
		if err != nil || d <= 0 {
			return site.Done{}, site.Wrong("expires_at", "must be a duration such as 30d")
		}
		in["expires_at"] = v.Now.Add(d).UTC().Format(time.RFC3339)
	}
	var out keyMade
	if err := v.Do(http.MethodPost, v.Server("keys"), in, &out); err != nil {
		return site.Done{}, err
	}
	return site.Done{Show: &keyMadePage, Content: &out}, nil
}

func askRevoke(v *site.Visit) (any, error) {
	id := v.ID("key")
	k, err := findKey(v, id)
	if err != nil {
		return nil, err
	}
	if k == nil {
		k = &view.Key{ID: id, Name: id}
	}
	c := &site.Confirm{
		Title: "Revoke the key " + k.Name + "?", Sentence: "Requests with it are refused from now on, and nobody stays logged in with it. It cannot be taken back.",
		Facts: []string{k.ID}, Gentler: "Make the new key first, and revoke this one when nothing uses it any more.",
		Action: v.Frame.Link(keysPath + "/" + url.PathEscape(id) + "/revoke"), Button: "Revoke the key", Danger: true, Back: v.Frame.Link(keysPath), BackName: "Keys",
	}
	if used := time.Time(k.LastUsedAt); !used.IsZero() {
		c.Facts = append(c.Facts, "last used "+words.Age(used, v.Now))
	} else if k.Scope != "" {
		c.Facts = append(c.Facts, "never used")
	}
	c.Facts = append(c.Facts, "Links to the portal that were made with it end, too.")
	if id == v.Me.Key {
		c.Facts = append(c.Facts, "You are logged in with this key: you will be logged out.")
	}
	return c, nil
}

func revokeKey(v *site.Visit) (site.Done, error) {
	if err := v.Do(http.MethodDelete, v.Server("keys", v.ID("key")), nil, nil); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Frame.Link(keysPath), Say: "The key is revoked."}, nil
}
