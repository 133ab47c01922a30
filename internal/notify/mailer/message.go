package mailer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

const (
	maxSubject = 300
	maxID      = 120
)

// Message is an e-mail in plain text and HTML.
type Message struct {
	To      []string // all who are named in the header
	Subject string
	Text    string
	HTML    string
	Date    time.Time

	// ID is the left part of the message id, Thread that of a message that need not
	// exist, to which all messages of a thread refer. Letters, digits, "_" and "-".
	ID     string
	Thread string

	Urgent bool
}

func (msg *Message) check() error {
	if err := CheckLine(msg.Subject, maxSubject); err != nil {
		return fmt.Errorf("subject %w", err)
	}
	if len(msg.To) == 0 {
		return errors.New("to must not be empty")
	}
	for _, address := range msg.To {
		if err := CheckAddress(address); err != nil {
			return fmt.Errorf("to %w", err)
		}
	}
	if !isID(msg.ID) || !isID(msg.Thread) {
		return fmt.Errorf(`id and thread must be 1 to %d letters, digits, "_" and "-"`, maxID)
	}
	return nil
}

func isID(s string) bool {
	return s != "" && len(s) <= maxID &&
		!strings.ContainsFunc(s, func(r rune) bool { return !isLetterOrDigit(r) && r != '_' && r != '-' })
}

// compose makes the e-mail. Everything that gets into a header was checked.
func (m *Mailer) compose(msg *Message) (*gomail.Msg, error) {
	if err := msg.check(); err != nil {
		return nil, err
	}
	out := gomail.NewMsg()
	from := *m.from
	out.FromMailAddress(&from)
	if err := out.To(msg.To...); err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	thread := "<" + msg.Thread + "@" + m.domain() + ">"
	out.Subject(msg.Subject)
	out.SetMessageIDWithValue(msg.ID + "@" + m.domain())
	out.SetGenHeaderPreformatted(gomail.HeaderInReplyTo, thread)
	out.SetGenHeaderPreformatted(gomail.HeaderReferences, thread)
	out.SetDateWithValue(msg.Date)
	out.SetUserAgent("Breakwater")
	// Absence notes and other robots must not answer.
	out.SetGenHeader("Auto-Submitted", "auto-generated")
	if msg.Urgent {
		out.SetImportance(gomail.ImportanceHigh)
	}
	out.SetBodyString(gomail.TypeTextPlain, msg.Text)
	out.AddAlternativeString(gomail.TypeTextHTML, msg.HTML)
	return out, nil
}
