// Package egress is the one way out: the HTTP client that posts webhooks to
// addresses strangers chose.
//
// It judges every address before a connection is opened (guard.go, dial.go),
// keeps every attempt inside its deadlines, whatever the other side does
// (conn.go, attempt.go), bounds what is read of an answer (response.go), and
// gives each failure one reason of the closed list (reason.go).
//
// Requests travel on one of two carriers. The lean one (lean.go) writes and
// reads on the goroutine of the caller: compose.go makes the request, head.go
// reads the answer, wire.go is a connection, pool.go keeps the idle ones. The
// standard one (standard.go) is net/http and serves those who need a proxy.
//
// It does not decide what an answer means, retry anything that may have
// arrived, sign, or log. A test of this package walks the whole module and
// fails when another package opens outbound connections on its own.
package egress
