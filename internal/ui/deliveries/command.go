package deliveries

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

// command is the request of a delivery for a shell.
type command struct {
	Text     string // empty: it is too long for a page, or there is none
	Size     int
	Why      string // there is none
	Download string
}

// maxCommand bounds the command that a page shows: the payload is in it, and a part of
// a command is none.
const maxCommand = 12 << 10

// Curl asks for the command. It is a method because it is made from the payload, with
// the time of day: a stream, which shows neither, does not ask for it.
func (c *delivery) Curl() (command, error) {
	text, err := curl(c.visit, c.Delivery.ID)
	if p := new(site.Problem); errors.As(err, &p) && p.Status < http.StatusInternalServerError {
		return command{Why: p.Detail}, nil // its endpoint is deleted, or the event has been removed
	}
	if err != nil {
		return command{}, err
	}
	out := command{Size: len(text), Download: c.visit.Frame.Link("/ui/deliveries/" + url.PathEscape(c.Delivery.ID) + "/curl")}
	if len(text) <= maxCommand {
		out.Text = string(text)
	}
	return out, nil
}

func curl(v *site.Visit, id string) (text []byte, err error) {
	err = v.Get(v.API("deliveries", id, "curl"), nil, &text)
	return text, err
}

func curlFile(v *site.Visit) (site.File, error) {
	id := v.ID("id")
	text, err := curl(v, id)
	return site.File{Name: id + ".sh.txt", Body: text}, err
}
