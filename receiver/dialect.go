package receiver

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Dialect is the kind of database behind a *sql.DB.
type Dialect int

// The databases that SQL knows. Postgres and SQLite (3.35 and later) are tested with real
// ones. Of MySQL (8.0 and later, or MariaDB 10.6) only the text of the statements is
// tested, never a server: try it before you rely on it.
const (
	Postgres Dialect = iota + 1
	SQLite
	MySQL
)

func (d Dialect) String() string {
	switch d {
	case Postgres:
		return "Postgres"
	case SQLite:
		return "SQLite"
	case MySQL:
		return "MySQL"
	default:
		return "Dialect(" + strconv.Itoa(int(d)) + ")"
	}
}

// maxName leaves room for the suffixes of the inbox and of indexes in the 63
// characters of a name in Postgres.
const maxName = 40

// tableName is deliberately narrow: such a name means the same quoted and
// unquoted in every database, and cannot hold a statement.
var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// checkTable refuses names that are not plain.
func (d Dialect) checkTable(table string) error {
	schema, name, qualified := strings.Cut(table, ".")
	parts := []string{schema, name}
	if !qualified {
		parts = parts[:1]
	}
	for _, part := range parts {
		if len(part) > maxName || !tableName.MatchString(part) {
			return fmt.Errorf("receiver: Table must be a name or schema.name of a-z, 0-9 and _, not beginning with a digit, each at most %d characters", maxName)
		}
	}
	if qualified && d == SQLite {
		return fmt.Errorf("receiver: Table must be a plain name for %s, without a schema", d)
	}
	return nil
}

// quote puts each part of a checked name in quotation marks, so that words of
// the language are names, too.
func (d Dialect) quote(table string) string {
	mark := `"`
	if d == MySQL {
		mark = "`"
	}
	return mark + strings.ReplaceAll(table, ".", mark+"."+mark) + mark
}

// words are what differs between the databases. In statements their names stand in
// braces.
func (d Dialect) words(table string) *strings.Replacer {
	_, plain, qualified := strings.Cut(table, ".")
	if !qualified {
		plain = table
	}
	words := []string{
		"{seen}", d.quote(table),
		"{inbox}", d.quote(table + "_inbox"),
	}
	if d == MySQL {
		// Of two equal keys the second is ignored. Keys compare byte by byte: the
		// default collation would take A for a.
		return strings.NewReplacer(append(words,
			"{ignore}", "IGNORE ", "{or nothing}", "",
			"{skip locked}", " FOR UPDATE SKIP LOCKED",
			"{key}", "VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin",
			"{text}", "MEDIUMTEXT CHARACTER SET utf8mb4",
			"{bytes}", "LONGBLOB",
			"{seen index}", ",\n\tINDEX (scope, seen_at)", "{seen index after}", "",
			"{inbox index}", ",\n\tINDEX (scope, state, due_at)", "{inbox index after}", "",
		)...)
	}
	bytes, skip := "BLOB", ""
	if d == Postgres {
		bytes, skip = "BYTEA", " FOR UPDATE SKIP LOCKED"
	}
	index := func(suffix, on, columns string) string {
		return fmt.Sprintf("\nCREATE INDEX IF NOT EXISTS %s ON %s (%s);", d.quote(plain+suffix), d.quote(on), columns)
	}
	return strings.NewReplacer(append(words,
		"{ignore}", "", "{or nothing}", " ON CONFLICT (scope, id) DO NOTHING",
		"{skip locked}", skip,
		"{key}", "TEXT", "{text}", "TEXT", "{bytes}", bytes,
		"{seen index}", "", "{seen index after}", index("_at", table, "scope, seen_at"),
		"{inbox index}", "", "{inbox index after}", index("_inbox_due", table+"_inbox", "scope, state, due_at"),
	)...)
}

// numbered writes ? as $1, $2 ... where the database wants that. No statement has
// a question mark in a literal.
func (d Dialect) numbered(statement string) string {
	if d != Postgres {
		return statement
	}
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(statement, "?") {
		if n > 0 {
			b.WriteString("$" + strconv.Itoa(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}

// isLocked reports whether SQLite says that another connection is writing. The
// drivers have error types of their own, but all of them keep SQLite's words.
func (d Dialect) isLocked(err error) bool {
	return d == SQLite && err != nil && strings.Contains(err.Error(), "is locked")
}

// schema makes the tables. Times are Unix milliseconds, written by the program: the
// clock of the database is not asked.
const schema = `CREATE TABLE IF NOT EXISTS {seen} (
	scope {key} NOT NULL,
	id {key} NOT NULL,
	seen_at BIGINT NOT NULL,
	PRIMARY KEY (scope, id){seen index}
);{seen index after}
CREATE TABLE IF NOT EXISTS {inbox} (
	scope {key} NOT NULL,
	id {key} NOT NULL,
	state INTEGER NOT NULL,
	due_at BIGINT NOT NULL,
	tries INTEGER NOT NULL,
	accepted_at BIGINT NOT NULL,
	type {text} NOT NULL,
	delivery_id {text} NOT NULL,
	attempt INTEGER NOT NULL,
	sent_at BIGINT NOT NULL,
	body {bytes} NOT NULL,
	reason {text} NOT NULL,
	PRIMARY KEY (scope, id){inbox index}
);{inbox index after}
`
