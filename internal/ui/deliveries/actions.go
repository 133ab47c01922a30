package deliveries

import (
	"net/http"
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// ask begins a page that asks before a delivery is changed.
func ask(v *site.Visit, act string) (*view.Delivery, site.Confirm, error) {
	d := new(view.Delivery)
	err := v.Get(v.API("deliveries", v.ID("id")), nil, d)
	f := v.Filter(filters...)
	self := "/ui/deliveries/" + url.PathEscape(d.ID)
	return d, site.Confirm{Action: f.On(self + "/" + act), AskNote: true, Back: f.On(self), BackName: "Delivery " + d.ID}, err
}

func askRedeliver(v *site.Visit) (any, error) {
	d, c, err := ask(v, "redeliver")
	if err != nil {
		return nil, err
	}
	c.Title, c.Button = "Redeliver "+d.Type+"?", "Redeliver now"
	c.Sentence = "One more attempt is made now, whatever its status. If the breaker is open it is the next probe; if the endpoint is paused it waits until that is resumed."
	c.Facts = []string{"The webhook-id stays the same: a receiver that remembers it takes the event once.", "The attempt is not charged."}
	switch d.Status {
	case "delivered":
		c.Facts = append(c.Facts, "It was delivered already, "+words.Age(stamp(d.SettledAt), v.Now)+".")
	case "dead", "cancelled":
		c.Facts = append(c.Facts, "If the attempt fails, the delivery stays "+d.Status+".")
	case "pending":
		c.Facts = append(c.Facts, "Its schedule goes on as it is if the attempt fails.")
	}
	c.Gentler = "A replay sends many, slowly at first, and pauses itself when they fail."
	return c, nil
}

func askCancel(v *site.Visit) (any, error) {
	d, c, err := ask(v, "cancel")
	if err != nil {
		return nil, err
	}
	c.Title, c.Button, c.Danger = "Cancel "+d.Type+"?", "Cancel this delivery", true
	c.Sentence = "It will not be sent any more. Other deliveries of the event go on."
	c.Facts = []string{"It is kept with its log, and can be redelivered or replayed as long as it is."}
	return c, nil
}

func doRedeliver(v *site.Visit) (site.Done, error) {
	return do(v, "retry", "One more attempt is made now.")
}

func doCancel(v *site.Visit) (site.Done, error) {
	return do(v, "cancel", "The delivery is cancelled.")
}

func do(v *site.Visit, act, say string) (site.Done, error) {
	id := v.ID("id")
	in := map[string]string{}
	if note := v.Posted("note"); note != "" {
		in["note"] = note
	}
	if err := v.Do(http.MethodPost, v.API("deliveries", id, act), in, nil); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Filter(filters...).On("/ui/deliveries/" + url.PathEscape(id)), Say: say}, nil
}
