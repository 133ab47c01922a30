package deadletters

import (
	"html/template"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
	"github.com/breakwaterhq/breakwater/internal/ui/words"
)

// replay is what the page of a replay shows.
type replay struct {
	Replay   view.Replay
	Name     string // of its endpoint; empty: of several
	Endpoint *view.Endpoint
	Now      words.Word // what its endpoint does
	Badge    words.Word
	Tags     []string
	Sentence words.Sentence
	Progress template.HTML
	Underway int64
	Left     int64 // not fed; -1: not known
	Most     int   // the pace that it may reach
	Next     string
	Failed   string // address of what failed again
	Course   template.HTML
	Self     string
	Active   bool
	Share    string // of what was fed and has ended, that was delivered
}

func loadReplay(v *site.Visit) (any, error) {
	c := &replay{}
	r := &c.Replay
	if err := v.Get(v.API("replays", v.ID("id")), nil, r); err != nil {
		return nil, err
	}
	f := filterOf(r)
	c.Badge, c.Tags, c.Sentence, c.Progress = words.ReplayStatusOf(r.Status), f.tags(), words.ReplaySentence(r, v.Now), progressOf(r, false)
	c.Underway, c.Left, c.Share = underway(&r.Progress), -1, words.None
	c.Self = replaysPath + "/" + r.ID
	c.Active = r.Status == "queued" || r.Status == "running" || r.Status == "paused"
	if p := &r.Progress; p.Total != nil {
		c.Left = max(*p.Total-p.Fed-p.Skipped, 0)
	}
	if ended := r.Progress.Delivered + r.Progress.Failed; ended > 0 {
		share := float64(r.Progress.Delivered) / float64(ended)
		c.Share = words.Share(&share)
	}
	c.pace()
	if f.Endpoint != "" {
		e, err := v.Endpoint(f.Endpoint)
		if err != nil {
			return nil, err
		}
		c.Name = f.Endpoint
		if e != nil {
			c.Endpoint, c.Name, c.Now = e, words.OfURL(e.URL, 0).Host, words.StateOfEndpoint(e).Badge()
		}
		c.Failed = v.Frame.Link("/ui/deliveries", "status", "dead", "endpoint", f.Endpoint)
	} else {
		c.Failed = v.Frame.Link("/ui/deliveries", "status", "dead")
	}
	v.Frame.Title = "Replay " + r.ID
	var err error
	c.Course, err = courseOf(v, r, f.Endpoint)
	return c, err
}

// pace says what the pace may become.
func (c *replay) pace() {
	r := &c.Replay
	c.Most = max(r.PerMinute, int(float64(r.PerMinute)*r.MaxMultiple))
	switch {
	case !c.Active:
		c.Next = "began at " + words.Number(r.PerMinute)
	case r.Status == "paused":
		c.Next = "goes on at " + words.Number(r.PerMinute)
	case r.CurrentPerMinute >= c.Most:
		c.Next = "at its maximum: " + number(r.MaxMultiple) + " × " + words.Number(r.PerMinute)
	default:
		c.Next = "grows up to " + words.Number(c.Most)
	}
}
