package deadletters

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// isGone reports whether the API says that something is not there.
func isGone(err error) bool {
	p := new(site.Problem)
	return errors.As(err, &p) && p.Status == http.StatusNotFound
}

// command sends a replay a command and goes back to its page.
func command(v *site.Visit, act, say string) (site.Done, error) {
	in := map[string]string{}
	if note := v.Posted("note"); note != "" {
		in["note"] = note
	}
	if err := v.Do(http.MethodPost, v.API("replays", v.ID("id"), act), in, nil); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Frame.Link(replaysPath + "/" + url.PathEscape(v.ID("id"))), Say: say}, nil
}

func doPause(v *site.Visit) (site.Done, error) {
	return command(v, "pause", "The replay is paused. What was fed goes on.")
}

func doResume(v *site.Visit) (site.Done, error) {
	return command(v, "resume", "The replay goes on, at its first pace.")
}

func doCancel(v *site.Visit) (site.Done, error) {
	return command(v, "cancel", "The replay is cancelled.")
}

func askCancel(v *site.Visit) (any, error) {
	var r view.Replay
	if err := v.Get(v.API("replays", v.ID("id")), nil, &r); err != nil {
		return nil, err
	}
	self := replaysPath + "/" + r.ID
	c := site.Confirm{
		Title: "Cancel this replay?", Danger: true, AskNote: true, Button: "Cancel the replay", Action: v.Frame.Link(self + "/cancel"), Back: v.Frame.Link(self), BackName: "Replay " + r.ID,
		Sentence: "Nothing more is fed. What was fed is delivered; the others stay as they are and can be replayed later.",
		Gentler:  "Pause it instead, and it can go on from where it is.",
		Facts:    []string{words.Number(r.Progress.Fed) + " were fed so far."},
	}
	if t := r.Progress.Total; t != nil {
		c.Facts[0] = words.Number(r.Progress.Fed) + " of " + words.Number(*t) + " were fed so far."
		c.Button = "Cancel and leave " + words.Number(max(*t-r.Progress.Fed-r.Progress.Skipped, 0))
	}
	return c, nil
}

// paceForm is the page on which the pace is changed.
type paceForm struct {
	Replay view.Replay
	Action string
	Back   string
}

func loadPace(v *site.Visit) (any, error) {
	c := &paceForm{}
	if err := v.Get(v.API("replays", v.ID("id")), nil, &c.Replay); err != nil {
		return nil, err
	}
	self := replaysPath + "/" + c.Replay.ID
	c.Action, c.Back = v.Frame.Link(self+"/pace"), v.Frame.Link(self)
	v.Fill(url.Values{"per_minute": {strconv.Itoa(c.Replay.PerMinute)}, "max_multiple": {number(c.Replay.MaxMultiple)}})
	return c, nil
}

func doPace(v *site.Visit) (site.Done, error) {
	in, err := paceOf(url.Values{"per_minute": {v.Posted("per_minute")}, "max_multiple": {v.Posted("max_multiple")}})
	if err != nil {
		return site.Done{}, err
	}
	var r view.Replay
	if err := v.Do(http.MethodPatch, v.API("replays", v.ID("id")), in, &r); err != nil {
		return site.Done{}, err
	}
	return site.Done{To: v.Frame.Link(replaysPath + "/" + r.ID), Say: "The pace starts from " + words.Number(r.PerMinute) + " per minute."}, nil
}
