// Package egress is the one way out: the HTTP client that posts webhooks to
// addresses strangers chose.
//
// It judges every address before a connection is opened (guard.go, dial.go),
// keeps every attempt inside its deadlines, whatever the other side does
// (conn.go, attempt.go), bounds what is read of an answer (response.go), and
// gives each failure one reason of the closed list (reason.go).
//
// It does not decide what an answer means, retry anything that may have
// arrived, sign, or log. A test of this package walks the whole module and
// fails when another package opens outbound connections on its own.
package egress
