package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// maxControlMembers is far more than any object of the API has. It bounds what
// a body can make the decoder complain about.
const maxControlMembers = 4096

// opaque is the one member whose value is nobody's business but the receiver's.
const opaque = "payload"

// checkNames refuses a valid JSON document in which an object names a member
// twice, at any depth: decoders disagree on which one counts, and ours would
// put the two together.
func checkNames(body []byte) error {
	w := nameWalk{dec: json.NewDecoder(bytes.NewReader(body)), bad: &Invalid{}}
	w.dec.UseNumber()
	for !w.bad.Full() {
		tok, err := w.dec.Token()
		if err != nil { // the end: the document is known to be valid
			break
		}
		if err := w.step(tok); err != nil {
			return err
		}
	}
	return w.bad.Err()
}

// nameWalk is where in a document a check of names is.
type nameWalk struct {
	dec     *json.Decoder
	bad     *Invalid
	open    []openValue
	members int
}

// openValue is an object or an array that has not ended.
type openValue struct {
	names  map[string]bool // nil: an array
	name   string          // of the member that is being read
	inside bool            // between a name and the end of its value
	index  int             // of the element that is being read
}

func (w *nameWalk) step(tok json.Token) error {
	if d, ok := tok.(json.Delim); ok {
		switch d {
		case '{':
			w.open = append(w.open, openValue{names: map[string]bool{}})
		case '[':
			w.open = append(w.open, openValue{})
		default:
			w.open = w.open[:len(w.open)-1]
			w.ended()
		}
		return nil
	}
	if n := len(w.open); n > 0 && w.open[n-1].names != nil && !w.open[n-1].inside {
		name, _ := tok.(string)
		return w.member(name)
	}
	w.ended()
	return nil
}

// ended notes that a value has.
func (w *nameWalk) ended() {
	if n := len(w.open); n > 0 {
		w.open[n-1].inside = false
		w.open[n-1].index++
	}
}

func (w *nameWalk) member(name string) error {
	top := &w.open[len(w.open)-1]
	top.name, top.inside = name, true
	w.members++
	if w.members > maxControlMembers {
		return FieldError("body", "out_of_range", fmt.Sprintf("must have at most %d members in all", maxControlMembers))
	}
	if top.names[name] {
		w.bad.Add(w.path(), "not_allowed", "is given twice")
	}
	top.names[name] = true
	if name == opaque && len(w.open) == 1 {
		var skipped json.RawMessage
		if err := w.dec.Decode(&skipped); err != nil {
			return errInvalidJSON("the body is not JSON")
		}
		w.ended()
	}
	return nil
}

func (w *nameWalk) path() string {
	var b strings.Builder
	for i, v := range w.open {
		switch {
		case v.names == nil:
			fmt.Fprintf(&b, "[%d]", v.index)
		case i > 0:
			b.WriteString("." + v.name)
		default:
			b.WriteString(v.name)
		}
	}
	return b.String()
}
