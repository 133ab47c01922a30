package site

// Confirm is what the template confirm.html asks before something that cannot be
// undone, or touches more than one delivery: what will happen, to how many, and the
// gentler way.
type Confirm struct {
	Title    string
	Sentence string
	Facts    []string
	Gentler  string // another way; empty: none
	Action   string // where the form is posted
	Hidden   map[string]string
	Typed    string // what must be typed; empty: nothing
	AskNote  bool
	Button   string // verb and number
	Danger   bool
	Back     string
	BackName string
}
