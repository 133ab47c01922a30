package deliveries

import (
	"maps"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// curl is the request of an attempt for a shell. Secrets are masked in what is stored,
// so a receiver that checks signatures refuses it. Values come from others: each stands
// in single quotes, in which a shell reads nothing but its end.
func curl(a *view.Attempt) string {
	var b strings.Builder
	b.WriteString("curl -X POST " + quote(a.Request.URL))
	for _, name := range slices.Sorted(maps.Keys(a.Request.Headers)) {
		switch strings.ToLower(name) {
		case "content-length", "host", "accept-encoding", "connection":
			continue // curl sets its own
		}
		for _, value := range a.Request.Headers[name] {
			b.WriteString(" \\\n  -H " + quote(strings.ToLower(name)+": "+value))
		}
	}
	b.WriteString(" \\\n  --data-binary @" + a.Event + ".txt")
	return b.String()
}

// quote writes a text as one word of a shell.
func quote(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1 // a line could end here
		}
		return r
	}, s)
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
