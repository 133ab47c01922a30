package sqlstore

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// Query is a statement whose conditions depend on what was asked. Values are
// always parameters; only fixed text is ever added to SQL, which has a WHERE
// when conditions come.
type Query struct {
	SQL  string
	Args []any

	built bool
}

// Built tells that the text was put together for its arguments: there may be
// many of its kind, so that none is worth being kept prepared.
func (q *Query) Built() bool { return q.built }

// Arg adds a parameter and returns its place holder.
func (q *Query) Arg(v any) string {
	q.built = true
	q.Args = append(q.Args, v)
	return "$" + strconv.Itoa(len(q.Args))
}

// And adds a condition in which each ? stands for the next value.
func (q *Query) And(condition string, values ...any) {
	for _, v := range values {
		condition = strings.Replace(condition, "?", q.Arg(v), 1)
	}
	q.SQL += "\n  AND " + condition
}

// Page adds the page's bounds, order and limit over an id column.
func (q *Query) Page(column string, p store.Page) {
	switch {
	case p.After == 0:
	case p.Asc:
		q.And(column+" > ?", p.After)
	default:
		q.And(column+" < ?", p.After)
	}
	q.SQL += "\nORDER BY " + column + Direction(p.Asc) + "\nLIMIT " + q.Arg(max(p.Limit, 1))
}

// Direction is what follows a column in an order.
func Direction(asc bool) string {
	if asc {
		return ""
	}
	return " DESC"
}

// Window keeps ids drawn in [since, until); zero times do not bound it.
func (q *Query) Window(column string, since, until time.Time) {
	if !since.IsZero() {
		q.And(column+" >= ?", hook.IDFloor(since))
	}
	if !until.IsZero() {
		q.And(column+" < ?", hook.IDFloor(until))
	}
}

// TypeIn is the condition that a column matches one of the patterns, "" when any
// type does. A prefix is compared as text, so no character but the final star
// means anything but itself.
func (q *Query) TypeIn(column string, patterns []string) string {
	if len(patterns) == 0 || slices.Contains(patterns, "*") {
		return ""
	}
	var alternatives []string
	for _, p := range patterns {
		prefix, ok := strings.CutSuffix(p, "*")
		if !ok {
			alternatives = append(alternatives, column+" = "+q.Arg(p))
			continue
		}
		length := q.Arg(utf8.RuneCountInString(prefix))
		alternatives = append(alternatives, "(length("+column+") > "+length+" AND substr("+column+", 1, "+length+") = "+q.Arg(prefix)+")")
	}
	return "(" + strings.Join(alternatives, " OR ") + ")"
}

// numbers lists enum members as literals, which partial indexes need to see.
func numbers[E ~uint8](members []E) string {
	texts := make([]string, len(members))
	for i, m := range members {
		texts[i] = strconv.Itoa(int(m))
	}
	return strings.Join(texts, ", ")
}

var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// containing is the pattern of LIKE … ESCAPE '\' for text that contains s.
func containing(s string) string { return "%" + likeEscapes.Replace(s) + "%" }
