package deadletters

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

func askDiscard(v *site.Visit) (any, error) {
	s, err := selectionOf(v)
	if err != nil {
		return nil, err
	}
	p, err := s.preview(v, map[string]any{"statuses": []string{"dead"}})
	if err != nil {
		return nil, err
	}
	c := site.Confirm{Back: v.Frame.Link(deadPath), BackName: deadPlace}
	if p.Count == 0 {
		return nil, &site.Problem{Status: http.StatusNotFound, Detail: "No dead letter matches any more."}
	}
	n := words.Count(p.Count, "dead letter", "dead letters")
	c.Title, c.Danger, c.AskNote = "Discard "+n+"?", true, true
	c.Sentence = "They are cancelled: they leave this list and are not replayed with it. This cannot be undone."
	c.Facts = []string{
		"The log of each delivery stays until it is too old.",
		words.Count(len(p.PerEndpoint), "endpoint", "endpoints") + " never gets them.",
	}
	if tags := s.tags(); len(tags) > 0 {
		c.Facts = append(c.Facts, "Chosen by "+strings.Join(tags, ", ")+".")
	}
	c.Gentler = "Do nothing, and they are removed by themselves when they are too old."
	c.Typed, c.Button = strconv.FormatInt(p.Count, 10), "Discard "+n
	c.Hidden = map[string]string{"count": c.Typed}
	c.Action = s.address(v, discardPath, nil)
	return c, nil
}

func doDiscard(v *site.Visit) (site.Done, error) {
	s, err := selectionOf(v)
	if err != nil {
		return site.Done{}, err
	}
	count := v.Posted("count")
	expected, err := strconv.ParseInt(count, 10, 64)
	if err != nil {
		return site.Done{}, site.Wrong("typed", "The number of dead letters is missing. Open the page again.")
	}
	if strings.ReplaceAll(v.Posted("typed"), ",", "") != count {
		return site.Done{}, site.Wrong("typed", "Type "+count+".")
	}
	in := s.request()
	delete(in, "statuses") // none but dead letters are discarded
	in["expect_count"] = expected
	if note := v.Posted("note"); note != "" {
		in["note"] = note
	}
	var out view.Discarded
	if err := v.Do(http.MethodPost, v.API("dead-letters", "discard"), in, &out); err != nil {
		return site.Done{}, err
	}
	say := words.Count(out.Discarded, "dead letter is", "dead letters are") + " discarded."
	if !out.Complete {
		say += " Some are left: discard again."
	}
	return site.Done{To: v.Frame.Link(deadPath), Say: say}, nil
}
