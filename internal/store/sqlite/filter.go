package sqlite

import (
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// filter puts the conditions of a list together. Its texts are constants of
// this package; everything a caller gives is a parameter.
type filter struct {
	conditions []string
	order      string
	args       []any
}

// and adds a condition with its arguments.
func (f *filter) and(condition string, args ...any) {
	f.conditions = append(f.conditions, condition)
	f.args = append(f.args, args...)
}

// window keeps ids drawn in [since, until); zero times do not bound it.
func (f *filter) window(column string, since, until time.Time) {
	if !since.IsZero() {
		f.and(column+" >= ?", hook.IDFloor(since))
	}
	if !until.IsZero() {
		f.and(column+" < ?", hook.IDFloor(until))
	}
}

// types keeps events whose type matches one of the patterns. A prefix is
// compared as text, so no character of a pattern can mean anything but itself.
func (f *filter) types(column string, patterns []string) {
	var alternatives []string
	var args []any
	for _, p := range patterns {
		if p == "*" {
			return
		}
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			alternatives = append(alternatives, "(length("+column+") > length(?) AND substr("+column+", 1, length(?)) = ?)")
			args = append(args, prefix, prefix, prefix)
			continue
		}
		alternatives = append(alternatives, column+" = ?")
		args = append(args, p)
	}
	if len(alternatives) > 0 {
		f.and("("+strings.Join(alternatives, " OR ")+")", args...)
	}
}

// page bounds and orders the list; it comes last.
func (f *filter) page(column string, p store.Page) {
	compare, direction := " < ?", " DESC"
	if p.Asc {
		compare, direction = " > ?", ""
	}
	if p.After != 0 {
		f.and(column+compare, p.After)
	}
	f.order = " ORDER BY " + column + direction + " LIMIT ?"
	f.args = append(f.args, p.Limit)
}

// text is everything from WHERE on.
func (f *filter) text() string {
	if len(f.conditions) == 0 {
		return f.order
	}
	return " WHERE " + strings.Join(f.conditions, " AND ") + f.order
}

var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// escapeLike makes every character of s stand for itself in LIKE … ESCAPE '\'.
func escapeLike(s string) string { return likeEscapes.Replace(s) }
