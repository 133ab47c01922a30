package notify

import (
	"encoding/json"
	"time"
)

// Rendered is a notice in the forms of all channels.
type Rendered struct {
	Title, Subject, Text, HTML string
	Slack, Webhook             []byte
}

// Render words a notice for the tests.
func (s *Sender) Render(n *Notice, now time.Time) (Rendered, error) {
	c := s.links.describe(n, now)
	mail, err := emailOf(n, &c, now)
	if err != nil {
		return Rendered{}, err
	}
	r := Rendered{Title: c.title(), Subject: mail.Subject, Text: mail.Text, HTML: mail.HTML}
	if r.Slack, err = json.Marshal(slackOf(&c)); err != nil {
		return Rendered{}, err
	}
	r.Webhook, err = json.Marshal(s.payload(n, now))
	return r, err
}

// Lasted exports lasted for the tests.
func Lasted(d time.Duration) string { return lasted(d) }

// Number exports number for the tests.
func Number(v float64) string { return number(v) }
