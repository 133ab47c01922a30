package deliveries

import (
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/chart"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// delivery is what the page of a delivery shows.
type delivery struct {
	Delivery view.Delivery
	Name     string         // of its endpoint
	Endpoint *view.Endpoint // null: it is deleted
	Badge    words.Word
	Sentence words.Sentence
	Timeline template.HTML
	Attempts []attemptRow
	More     int // attempts that are not listed
	Nothing  words.Nothing
	Attempt  *attempt // the chosen one; null: there is none yet
	Back     string   // the list with its filter
	Newer    string   // neighbours in the list; empty: none
	Older    string
	Redo     string // pages that ask first; empty: it cannot be done
	Cancel   string

	visit *site.Visit
}

// attemptRow is an attempt in the table.
type attemptRow struct {
	view.Attempt
	Link   string
	Chosen bool
	Wait   template.HTML // bar; empty: nothing followed
	Drawn  string
	Of     string
}

// maxRows bounds the table of attempts: somebody may have redelivered a thousand times.
const maxRows = 100

func loadDelivery(v *site.Visit) (any, error) {
	id := v.ID("id")
	c := &delivery{Nothing: words.Empty(words.NoAttempts), visit: v}
	if err := v.Get(v.API("deliveries", id), nil, &c.Delivery); err != nil {
		return nil, err
	}
	var attempts site.List[view.Attempt]
	if err := v.Get(v.API("deliveries", id, "attempts"), nil, &attempts); err != nil {
		return nil, err
	}
	d := &words.Delivery{Delivery: c.Delivery}
	if err := c.readEndpoint(v, d, attempts.Data); err != nil {
		return nil, err
	}
	c.Badge, c.Sentence = words.StatusOf(c.Delivery.Status, c.Delivery.View), words.DeliverySentence(d, v.Now)
	v.Frame.Title = c.Delivery.Type + " to " + c.Name
	c.links(v)
	chosen := choose(attempts.Data, v.Query("attempt"))
	number := 0
	if chosen != nil {
		number = chosen.Number
		c.Attempt = attemptOf(v, chosen)
		c.Attempt.Why = words.WhyAttempt(d, chosen, attempts.Data, v.Now)
	}
	c.rows(v, attempts.Data, number)
	line := course{delivery: &c.Delivery, attempts: attempts.Data, ladder: d.Ladder, maxAttempts: d.MaxAttempts, selected: number, now: v.Now}
	c.Timeline = line.timeline().HTML()
	var err error
	c.Newer, c.Older, err = neighbours(v, &c.Delivery)
	return c, err
}

// readEndpoint adds what the endpoint, its lane and its policy say.
func (c *delivery) readEndpoint(v *site.Visit, d *words.Delivery, attempts []view.Attempt) error {
	id := c.Delivery.Endpoint
	c.Name = id
	e, err := v.Endpoint(id)
	if e == nil || err != nil {
		return err
	}
	c.Endpoint, c.Name = e, words.OfURL(e.URL, 0).Host
	var policy view.Policy
	if err := v.Get(v.API("endpoints", id, "policy"), nil, &policy); err != nil {
		return unlessGone(err)
	}
	var resolved struct {
		Retry struct {
			MaxAttempts int `json:"max_attempts"`
		} `json:"retry"`
	}
	if err := json.Unmarshal(policy.Resolved, &resolved); err != nil {
		return err
	}
	d.MaxAttempts = resolved.Retry.MaxAttempts
	if n := len(attempts); n == 0 || attempts[n-1].PolicyHash == policy.Hash {
		d.Ladder = policy.Ladder // else its waits were drawn by another one
	}
	if c.Delivery.Status != "pending" {
		return nil
	}
	var lane view.Lane
	if err := v.Get(v.API("endpoints", id, "lane"), nil, &lane); err != nil {
		return unlessGone(err)
	}
	d.Lane = &lane
	return nil
}

// unlessGone takes what was deleted a moment ago for what is not known.
func unlessGone(err error) error {
	if p := new(site.Problem); errors.As(err, &p) && p.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// links are the ways from this page, all with the filter of the list.
func (c *delivery) links(v *site.Visit) {
	f := v.Filter(filters...)
	self := "/ui/deliveries/" + url.PathEscape(c.Delivery.ID)
	c.Back = f.On("/ui/deliveries")
	if !v.Me.Writes() {
		return
	}
	if c.Endpoint != nil {
		c.Redo = f.On(self + "/redeliver")
	}
	if c.Delivery.Status == "pending" {
		c.Cancel = f.On(self + "/cancel")
	}
}

// choose returns the attempt that is asked for, else the latest.
func choose(attempts []view.Attempt, number string) *view.Attempt {
	if len(attempts) == 0 {
		return nil
	}
	if n, err := strconv.Atoi(number); err == nil {
		for i := range attempts {
			if attempts[i].Number == n {
				return &attempts[i]
			}
		}
	}
	return &attempts[len(attempts)-1]
}

// rows fills in the table, with the waits on one scale.
func (c *delivery) rows(v *site.Visit, attempts []view.Attempt, chosen int) {
	longest := 0.0
	for i := range attempts {
		if w := attempts[i].Wait; w != nil {
			longest = max(longest, w.CeilingMS, w.DelayMS)
		}
	}
	if c.More = max(len(attempts)-maxRows, 0); c.More > 0 {
		attempts = attempts[c.More:]
	}
	for i := range attempts {
		a := attempts[i]
		r := attemptRow{Attempt: a, Chosen: a.Number == chosen, Link: v.Frame.With("attempt", a.Number)}
		if w := a.Wait; w != nil {
			r.Wait = chart.WaitBar(w.DelayMS/1000, w.CeilingMS/1000, longest/1000)
			r.Drawn = words.Duration(millis(w.DelayMS))
			if w.Source == "backoff" {
				r.Of = "of " + words.Duration(millis(w.CeilingMS))
			} else {
				r.Of = words.DelaySourceOf(w.Source).Word
			}
		}
		c.Attempts = append(c.Attempts, r)
	}
}

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// nearby is how many deliveries are read to find a neighbour: ids of one moment are
// told apart by nothing else.
const nearby = "25"

// neighbours returns the addresses of the deliveries before and after this one in the
// list that somebody came from.
func neighbours(v *site.Visit, d *view.Delivery) (newer, older string, err error) {
	f := v.Filter(filters...)
	created := time.Time(d.CreatedAt)
	find := func(order, bound string, at time.Time, beyond func(id string) bool) (string, error) {
		q := f.Query()
		q.Set("limit", nearby)
		q.Set("order", order)
		q.Set(bound, at.UTC().Format(time.RFC3339Nano))
		var page site.List[view.Delivery]
		if err := v.Get(v.API("deliveries"), q, &page); err != nil {
			if badFilter(err) != "" {
				return "", nil // it is no filter of the list
			}
			return "", err
		}
		for _, near := range page.Data {
			if beyond(near.ID) {
				return f.On("/ui/deliveries/" + url.PathEscape(near.ID)), nil
			}
		}
		return "", nil
	}
	if newer, err = find("asc", "since", created, func(id string) bool { return id > d.ID }); err != nil {
		return "", "", err
	}
	older, err = find("desc", "until", created.Add(time.Millisecond), func(id string) bool { return id < d.ID })
	return newer, older, err
}

// stamp returns a time of the API.
func stamp(s view.Stamp) time.Time { return time.Time(s) }
