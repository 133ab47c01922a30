// Package notify tells people: it sends the notices of alerts, and operational
// events, over channels (log, webhook, Slack, e-mail).
//
// A Sender takes notices that are due from a Queue, says before each try that
// it begins and afterwards what became of it. Whoever asks the queue next, after
// a restart or on another node, goes on from there. Each channel sends one
// notice at a time, so a slow one holds up nobody else. content.go words a
// notice; log.go, webhook.go, slack.go and email.go give it the form of a
// channel; check.go says what a channel may look like.
//
// It does not decide whether there is something to tell, or to whom: that is
// the job of package alert. It opens no HTTP connection of its own: requests go
// out through the guarded client that the caller hands over.
package notify
