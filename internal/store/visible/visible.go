// Package visible is the door to the table deliveries where rows are deferred.
//
// A statement over that table may miss deliveries whose rows are not inserted yet.
// So its text has a type of its own, which no connection takes. It is given out to
// those who have the deferred rows inserted first, and to those who say why they
// need not. Package archtest fails for a statement that names the table and is a
// plain string, and for a leave that somebody gives himself.
package visible

// SQL is a statement that names the table deliveries, or a part of one.
type SQL string

// Rows is the leave to run statements over deliveries whose rows were made visible.
type Rows struct{}

// Made gives the leave. Only what makes rows visible may call it.
func Made() Rows { return Rows{} }

// Text returns the statement as connections take it.
func (Rows) Text(s SQL) string { return string(s) }

// Despite is why a statement may run though rows are deferred.
type Despite uint8

// The reasons. This list is complete.
const (
	// Defers: a commit defers rows, or inserts them with their result, and says what
	// became of them. Its statements mind that a row may be missing.
	Defers Despite = 1 + iota
	// Inserts: the statement is part of making rows visible.
	Inserts
	// AddsDeferred: the caller adds what is deferred from memory or from the names in
	// the events.
	AddsDeferred
	// NeedsAttempt: the statement looks for attempts, and a delivery that is deferred
	// has none.
	NeedsAttempt
	// Found: the deliveries are named by ids that a visible read has found.
	Found
)

// Text returns the statement as connections take it.
func (Despite) Text(s SQL) string { return string(s) }
