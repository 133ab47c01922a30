package policy

import (
	"encoding/json"
	"strings"
	"time"
)

// Restore reads a policy back from its canonical form: what is stored must be
// enough to explain every wait that the policy decided. It has no preset name.
func Restore(canonical []byte) (Policy, error) {
	var tree map[string]any
	if err := json.Unmarshal(canonical, &tree); err != nil {
		return Policy{}, err
	}
	s := settings{}
	s.restore("", tree)
	return s.assemble(), nil
}

func (s settings) restore(object string, tree map[string]any) {
	for key, value := range tree {
		path := strings.TrimPrefix(object+"."+key, ".")
		if inner, ok := value.(map[string]any); ok {
			s.restore(path, inner)
		} else {
			s[path] = restored(path, value)
		}
	}
}

func restored(path string, value any) any {
	milliseconds := func(v any) time.Duration { return time.Duration(v.(float64) * float64(time.Millisecond)) }
	r, _ := entryRule(parent(path), lastName(path))
	if f := fieldByPath[path]; f != nil {
		r = f.rule
	}
	switch r.(type) {
	case wholeRule:
		return int(value.(float64))
	case durationRule:
		return milliseconds(value)
	case delays:
		var list []time.Duration
		for _, v := range value.([]any) {
			list = append(list, milliseconds(v))
		}
		return list
	default:
		return value
	}
}
