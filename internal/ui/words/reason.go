package words

// Outcome is what people read for the reason of an attempt.
type Outcome struct {
	Word
	Tell string // what to tell whoever runs the endpoint; empty: nothing
}

// ReasonOf is the word for why an attempt ended as it did.
func ReasonOf(reason string) Outcome {
	o, known := outcomes[reason]
	o.API = reason
	if !known {
		o.Word.Word = reason
		if reason == "" {
			o.Word.Word = None
		}
	}
	return o
}

func outcome(word, meaning, tell string) Outcome {
	return Outcome{Word{Word: word, Meaning: meaning}, tell}
}

var outcomes = map[string]Outcome{
	"ok":              outcome("accepted", "The destination answered 2xx.", ""),
	"redirect":        outcome("redirect", "The destination answered with a redirect. Redirects are not followed: an event goes where its endpoint says.", "that it redirects; the endpoint's URL must be the final one"),
	"client_error":    outcome("refused", "The destination refused the content of this request.", "which answer it gives: the request, its signature or its type of event is refused"),
	"gone":            outcome("gone", "The destination answered 410: it wants no more events.", "that it answers 410, if it should not"),
	"request_timeout": outcome("request timeout", "The destination answered 408: it waited too long for the request.", "that it answers 408"),
	"too_early":       outcome("too early", "The destination answered 425 and wants the request later.", ""),
	"throttled":       outcome("throttled", "The destination asked for fewer requests.", ""),
	"server_error":    outcome("server error", "The destination failed while it handled the request.", "that it answers with a server error, and with which body"),
	"not_supported":   outcome("not supported", "The destination does not support the request.", "that it refuses the method or the protocol"),
	"unavailable":     outcome("unavailable", "The destination, or what stands before it, says that it is unavailable.", "that it answers that it is unavailable"),
	"connect_refused": outcome("connection refused", "Nothing listens at the address.", "that it refuses connections"),
	"connect_reset":   outcome("connection reset", "The connection was cut before the answer was complete.", "that it cuts connections"),
	"connect_timeout": outcome("no connection in time", "The address did not answer: a firewall, a wrong route, or a host that is off.", "that its address does not answer"),
	"unreachable":     outcome("unreachable", "There is no way to the address.", "that there is no route to its address"),
	"timeout":         outcome("timeout", "The destination did not answer in time. It may have handled the event all the same.", "that it answers too late; it may take events, answer at once and work afterwards"),
	"tls_handshake":   outcome("TLS handshake", "The two sides could not agree on a secure connection.", "that its TLS handshake fails"),
	"tls_certificate": outcome("certificate", "The certificate has expired, is for another name, or comes from an unknown authority.", "that its certificate must be renewed or mended"),
	"dns_error":       outcome("name lookup", "The name could not be looked up.", "that the name servers of its domain do not answer"),
	"dns_nxdomain":    outcome("no such name", "The name does not exist or has no address.", "that its name does not exist"),
	"protocol":        outcome("no valid answer", "The answer was not valid HTTP.", "that its answer is not valid HTTP"),
	"blocked_address": outcome("blocked address", "The name leads to an address that must not be reached from here.", "that its name leads to a private address"),
	"interrupted":     outcome("interrupted", "We stopped before the answer came. It is sent again.", ""),
	"local_error":     outcome("our side", "It failed on our side: memory, open files or keys. It is tried again.", ""),
}

// Answer is how an attempt ended, as it stands beside the icon of its class:
// 500 server_error, connect_refused.
func Answer(status *int, reason string) string {
	switch {
	case status == nil || *status == 0:
		if reason == "" {
			return None
		}
		return reason
	case reason == "":
		return Number(*status)
	default:
		return Number(*status) + " " + reason
	}
}
