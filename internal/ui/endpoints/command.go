package endpoints

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// command is one thing that people do to an endpoint, by the API's name. What loses
// something, or halts many deliveries for good, asks first.
type command struct {
	name  string
	title string
	done  string
	asks  bool
	form  func(*site.Confirm, *subject)
}

// subject is what a question is about.
type subject struct {
	view.Endpoint
	waiting string // how many deliveries have not ended
}

var commands = []command{
	{name: "pause", title: "Pause", done: "The endpoint is paused. Deliveries are accepted and held.", asks: true, form: askPause},
	{name: "resume", title: "Resume", done: "The endpoint is resumed. What is due goes out, slowly at first."},
	{name: "probe", title: "Probe now", done: "A probe is asked for. Its answer appears here."},
	{name: "reset", title: "Close breaker", done: "The breaker is asked to close. It does so within a second or two.", asks: true, form: askReset},
	{name: "disable", title: "Disable", done: "The endpoint is disabled. Deliveries are held until they expire.", asks: true, form: askDisable},
	{name: "delete", title: "Delete", asks: true, form: askDelete},
}

func (c *command) do(v *site.Visit) (site.Done, error) {
	id := v.ID("endpoint")
	if c.name == "delete" {
		return remove(v, id)
	}
	if err := v.Do(http.MethodPost, v.API("endpoints", id, c.name), map[string]string{"note": v.Posted("note")}, nil); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Frame.Link(pathOf(id)), Say: c.done}, nil
}

// remove deletes an endpoint whose address was typed.
func remove(v *site.Visit, id string) (site.Done, error) {
	var e view.Endpoint
	if err := v.Get(v.API("endpoints", id), nil, &e); err != nil {
		return site.Done{}, err
	}
	if v.Posted("typed") != e.URL {
		return site.Done{}, site.Wrong("typed", "This is not the URL of the endpoint.")
	}
	var gone struct {
		Cancelled int64 `json:"cancelled"`
	}
	if err := v.Do(http.MethodDelete, v.API("endpoints", id), nil, &gone); err != nil {
		return site.Done{}, err
	}
	return site.Done{
		To:  v.Frame.Link(listPath),
		Say: words.OfURL(e.URL, 24).String() + " is deleted, and " + words.Count(gone.Cancelled, "pending delivery was", "pending deliveries were") + " cancelled.",
	}, nil
}

// ask reads what the question is about.
func (c *command) ask(v *site.Visit) (any, error) {
	id := v.ID("endpoint")
	s := subject{waiting: "Deliveries that are"}
	if err := v.Get(v.API("endpoints", id), nil, &s.Endpoint); err != nil {
		return nil, err
	}
	n, more := countOf(v, "deliveries", url.Values{"endpoint": {s.ID}, "status": {"pending"}})
	s.waiting = words.AtLeast(n, more)
	host := words.OfURL(s.URL, 24).String()
	ask := &site.Confirm{
		Title: c.title + " " + host + "?", Action: v.Frame.Link(pathOf(s.ID, c.name)), Button: c.title, AskNote: true,
		Back: v.Frame.Link(pathOf(s.ID)), BackName: host,
	}
	c.form(ask, &s)
	v.Frame.Title = ask.Title
	return ask, nil
}

func askPause(c *site.Confirm, s *subject) {
	c.Sentence = "Deliveries are accepted and held; nothing is sent until you resume. " + s.waiting + " wait now."
	c.Facts = []string{"Holding costs no attempt.", "What is held longer than the policy allows (breaker.max_hold, usually 3 days) becomes a dead letter, which can be replayed."}
}

func askReset(c *site.Confirm, s *subject) {
	c.Sentence = "The breaker closes, a Retry-After that is waited for ends, and all that was learnt about this endpoint is forgotten: what it refused, what broke it, how far its recovery was. " +
		s.waiting + " waiting deliveries are then sent, slowly at first."
	c.Facts = []string{"For an endpoint that was repaired or replaced. One that is still broken opens the breaker again after a few failures, which use up attempts."}
	c.Gentler = "Probe now sends one request and closes the breaker if it succeeds. It costs nothing if it fails."
	c.Button = "Close breaker"
}

func askDisable(c *site.Confirm, s *subject) {
	c.Sentence = "The endpoint is turned off. " + s.waiting + " deliveries wait now; they and all that follow are held, and become dead letters when they expire."
	c.Gentler = "Pause does the same for a while, and says so. Resume ends both."
	c.Danger = true
}

func askDelete(c *site.Confirm, s *subject) {
	c.Sentence = s.waiting + " pending deliveries will be cancelled. This cannot be undone."
	c.Facts = []string{"What was delivered or is dead stays in the log.", "Events that come later are not kept for it."}
	c.Gentler = "Instead, you can pause it: deliveries are accepted and held, and nothing is sent."
	c.Typed, c.Danger, c.AskNote, c.Button = s.URL, true, false, "Delete and cancel "+s.waiting
}

// countOf counts deliveries or dead letters. What cannot be counted now is 0.
func countOf(v *site.Visit, what string, q url.Values) (n int64, more bool) {
	var c struct {
		Count int64 `json:"count"`
		Exact bool  `json:"exact"`
	}
	if err := v.Get(v.API(what, "count"), q, &c); err != nil {
		return 0, true
	}
	return c.Count, !c.Exact
}

// isMissing reports whether the API said that something is not there.
func isMissing(err error) bool {
	p := new(site.Problem)
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}
