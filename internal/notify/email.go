package notify

import (
	"context"
	"errors"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
)

const maxSubject = 200

// htmlPage is the same notice for those who read HTML: no pictures, no scripts,
// nothing that is fetched. The template escapes what it is given.
var htmlPage = template.Must(template.New("notice").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title></head>
<body style="font-family:sans-serif;font-size:15px;color:#222222">
<p style="border-left:6px solid {{.Colour}};padding-left:10px;font-weight:bold">{{.Title}}</p>
{{if .Facts}}<table cellpadding="3">
{{range .Facts}}<tr><td style="color:#666666">{{.Name}}</td><td>{{.Value}}</td></tr>
{{end}}</table>
{{end}}{{if .Links}}<ul>
{{range .Links}}<li><a href="{{.Value}}">{{.Name}}</a></li>
{{end}}</ul>
{{end}}</body></html>
`))

// sendEmail sends a notice to all addresses that do not have it. reached are
// those that have it afterwards, also when there is an error for others.
func (s *Sender) sendEmail(ctx context.Context, n *Notice, c *content, now time.Time) (reached []string, err error) {
	if s.mailer == nil {
		return nil, permanent(errors.New("no mail server is set (smtp.host)"))
	}
	var to []string
	for _, address := range n.Channel.To {
		if !slices.Contains(n.Reached, address) {
			to = append(to, address)
		}
	}
	if len(to) == 0 {
		return n.Reached, nil
	}
	msg, err := emailOf(n, c, now)
	if err != nil {
		return n.Reached, permanent(err)
	}
	refused, err := s.mailer.Send(ctx, msg, to)
	if err != nil && len(refused) == 0 {
		return n.Reached, judgeMail(err)
	}
	return sumUp(n.Reached, to, refused)
}

// sumUp says what it means that the server refused some recipients. With one of
// them left to try again the whole notice waits; those refused for good make it
// fail only when nobody has it.
func sumUp(before, to []string, refused map[string]*mailer.Error) (reached []string, err error) {
	reached = slices.Clone(before)
	var problems []string
	again := false
	for _, address := range to {
		e := refused[address]
		if e == nil {
			reached = append(reached, address)
			continue
		}
		problems = append(problems, e.Error())
		again = again || !e.Permanent
	}
	text := strings.Join(problems, "; ")
	switch {
	case len(problems) == 0:
		return reached, nil
	case again:
		return reached, errors.New(text)
	case len(reached) == 0:
		return reached, permanent(errors.New(text))
	default:
		return reached, &partError{text}
	}
}

// partError is when a notice was sent, but not to everybody.
type partError struct{ text string }

func (e *partError) Error() string { return e.text }

func judgeMail(err error) error {
	var e *mailer.Error
	if errors.As(err, &e) && e.Permanent {
		return permanent(err)
	}
	return err
}

// emailOf gives a notice the form of an e-mail. All notices of an alert belong
// to one thread.
func emailOf(n *Notice, c *content, now time.Time) (mailer.Message, error) {
	var html strings.Builder
	page := map[string]any{"Title": c.title(), "Colour": colours[c.tag], "Facts": c.facts, "Links": c.linked()}
	if err := htmlPage.Execute(&html, page); err != nil {
		return mailer.Message{}, err
	}
	return mailer.Message{
		To: n.Channel.To, Subject: c.subject(), Text: c.lines(), HTML: html.String(), Date: now,
		ID: n.id() + "_" + hook.ChannelPrefix.Format(n.Channel.ID), Thread: n.thread(),
		Urgent: c.tag == hook.SeverityPage.String(),
	}, nil
}

// subject is the line in the mailbox: [page][retry_storm] api.example.com/hook.
func (c *content) subject() string {
	return clean("["+c.tag+"]["+c.rule+"] "+c.where, maxSubject)
}
