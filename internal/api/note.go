package api

import "github.com/breakwaterhq/breakwater/internal/api/rest"

// Noted is the body of a command: a note for the audit log, or nothing.
type Noted struct{ Body *noteBody }

type noteBody struct {
	Note string `json:"note,omitempty" maxLength:"500" doc:"Kept in the audit log."`
}

// note returns the note, empty for none.
func (n Noted) note() (string, error) {
	if n.Body == nil {
		return "", nil
	}
	bad := &rest.Invalid{}
	bad.CheckText("note", n.Body.Note, 500)
	return n.Body.Note, bad.Err()
}
