package deliveries

import (
	"net/url"
	"strconv"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// eventList is what the page of events shows.
type eventList struct {
	Filter  *site.Filter
	Wrong   string
	Rows    []view.Event
	Next    string
	First   string
	Nothing words.Nothing
}

func loadEvents(v *site.Visit) (any, error) {
	f := v.Filter("type", "q", "since", "until")
	c := &eventList{Filter: f, Nothing: nothing(f, words.NoEvents)}
	q := f.Query()
	q.Set("limit", strconv.Itoa(pageSize))
	if cursor := v.Query("cursor"); cursor != "" {
		q.Set("cursor", cursor)
		c.First = f.On(v.Frame.Path)
		v.Frame.Live = false
	}
	var page site.List[view.Event]
	if err := v.Get(v.API("events"), q, &page); err != nil {
		if c.Wrong = badFilter(err); c.Wrong == "" {
			return nil, err
		}
		v.Frame.Live = false
		return c, nil
	}
	c.Rows, c.Next = page.Data, site.Either(page.NextCursor, "")
	return c, nil
}

// event is what the page of an event shows.
type event struct {
	Event   view.Event
	Payload body
	Rows    []row
	More    string // address of all its deliveries; empty: these are all
}

func loadEvent(v *site.Visit) (any, error) {
	c := &event{}
	id := v.ID("id")
	if err := v.Get(v.API("events", id), nil, &c.Event); err != nil {
		return nil, err
	}
	v.Frame.Title = c.Event.Type + " " + c.Event.ID
	c.Payload = payloadOf(v, &c.Event)
	var page site.List[view.Delivery]
	if err := v.Get(v.API("events", id, "deliveries"), url.Values{"limit": {strconv.Itoa(pageSize)}}, &page); err != nil {
		return nil, err
	}
	if page.NextCursor != nil {
		c.More = v.Frame.Link("/ui/deliveries", "event", c.Event.ID)
	}
	var err error
	c.Rows, err = rowsOf(v, page.Data, func(path string) string { return v.Frame.Link(path, "event", c.Event.ID) })
	return c, err
}

// payloadOf shows the payload of an event.
func payloadOf(v *site.Visit, e *view.Event) body {
	text := []byte(e.Payload)
	if len(text) == 0 {
		text = e.PayloadBase64
	}
	b := bodyOf(text, v.Query("raw") != "")
	b.Size, b.Download = e.Size, v.Frame.Link("/ui/events/"+url.PathEscape(e.ID)+"/payload")
	return b
}

func payloadFile(v *site.Visit) (site.File, error) {
	var text []byte
	id := v.ID("id")
	err := v.Get(v.API("events", id, "payload"), nil, &text)
	return site.File{Name: id + ".txt", Body: text}, err
}
