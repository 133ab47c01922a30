package playground

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// applied is what the page shows on which a policy is given to an endpoint.
type applied struct {
	Back      string // to the playground, with the policy
	Hidden    url.Values
	Endpoints []view.Endpoint // to choose from
	More      bool            // there are others
	Endpoint  *view.Endpoint  // chosen
	Level     string          // its policy level then, as JSON
	Changes   []change
	Warnings  []string
	Span      words.Text
	Wrong     string // why it cannot be had
}

// change is a setting that would be different.
type change struct{ Path, From, To string }

// maxListed is how many endpoints there are to choose from; others can be typed.
const maxListed = 100

func loadApply(v *site.Visit) (any, error) {
	t, err := read(v)
	if err != nil {
		return nil, err
	}
	c := &applied{Back: path + "?" + t.policyQuery().Encode(), Hidden: t.policyQuery(), Level: string(t.level)}
	chosen := v.Query("endpoint")
	if chosen == "" {
		var list site.List[view.Endpoint]
		if err := v.Get(v.API("endpoints"), url.Values{"limit": {strconv.Itoa(maxListed)}}, &list); err != nil {
			return nil, err
		}
		c.Endpoints, c.More = list.Data, list.NextCursor != nil
		return c, nil
	}
	c.Endpoint = new(view.Endpoint)
	if err := v.Get(v.API("endpoints", chosen), nil, c.Endpoint); err != nil {
		return nil, err
	}
	var next view.PolicyChanges
	err = v.Do(http.MethodPost, v.API("endpoints", chosen)+"/policy/preview", map[string]any{"policy": t.level}, &next)
	if p, ok := errors.AsType[*site.Problem](err); ok && p.Status == http.StatusUnprocessableEntity {
		c.Wrong = p.Detail
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	for _, ch := range next.Changes {
		c.Changes = append(c.Changes, change{ch.Path, orNone(ch.From), orNone(ch.To)})
	}
	c.Warnings, c.Span = next.Warnings, words.SpanSentence(&next.Policy)
	return c, nil
}

func orNone(raw json.RawMessage) string {
	if text := plain(raw); text != "null" && text != "" {
		return text
	}
	return words.None
}

// doApply gives the policy to the endpoint, unless somebody else has changed that
// since the changes were shown.
func doApply(v *site.Visit) (site.Done, error) {
	id, level := v.Posted("endpoint"), json.RawMessage(v.Posted("level"))
	if !json.Valid(level) {
		return site.Done{}, &site.Problem{Status: http.StatusUnprocessableEntity, Detail: "The policy of this form cannot be read. Open the page again."}
	}
	var e view.Endpoint
	if err := v.Get(v.API("endpoints", id), nil, &e); err != nil {
		return site.Done{}, err
	}
	err := v.Patch(v.API("endpoints", id), map[string]any{"policy": replacing(e.Policy, level)}, nil)
	if p, ok := errors.AsType[*site.Problem](err); ok && p.Status == http.StatusPreconditionFailed {
		p.Detail = "The endpoint was changed since you looked at it. Open the page again to see what the policy would change now."
	}
	if err != nil {
		return site.Done{}, err
	}
	to := v.Frame.Link("/ui/endpoints/"+url.PathEscape(id), "tab", "policy")
	return site.Done{To: to, Say: "The policy is applied."}, nil
}
