package words

// Nothing is what a page says where there is nothing to show: what will be here,
// why it is empty, and the one way to change that.
type Nothing struct {
	Title   string
	Text    string
	Button  string // empty: none
	Command string // of the command line; empty: none
}

// Place is a list that can be empty.
type Place string

// The places that can be empty.
const (
	NoTenants     Place = "tenants"
	NoEndpoints   Place = "endpoints"
	NoEvents      Place = "events"
	NoDeliveries  Place = "deliveries"
	NoAttempts    Place = "attempts"
	NoDeadLetters Place = "dead_letters"
	NoReplays     Place = "replays"
	NoAlerts      Place = "alerts"
	NoChannels    Place = "channels"
	NoKeys        Place = "keys"
	NoTrouble     Place = "attention"
	NoOperational Place = "operational_events"
	NoFigures     Place = "figures"
	NoAudit       Place = "audit"
	NoMatch       Place = "match"
)

// Places lists them all.
func Places() []Place {
	return []Place{
		NoTenants, NoEndpoints, NoEvents, NoDeliveries, NoAttempts, NoDeadLetters, NoReplays, NoAlerts, NoChannels, NoKeys,
		NoTrouble, NoOperational, NoFigures, NoAudit, NoMatch,
	}
}

// Empty is what a place says.
func Empty(p Place) Nothing {
	if n, known := nothings[p]; known {
		return n
	}
	return nothings[NoMatch]
}

var nothings = map[Place]Nothing{
	NoTenants:     {"No tenants yet", "A tenant is a customer with endpoints of its own.", "New tenant", "breakwater tenants create acme"},
	NoEndpoints:   {"No endpoints yet", "An endpoint is a URL that gets the events of some types.", "New endpoint", "breakwater endpoints create http://127.0.0.1:9000/"},
	NoEvents:      {"No events yet", "Events that are published appear here with their deliveries.", "", `breakwater send order.paid -d '{"order":42}'`},
	NoDeliveries:  {"No deliveries yet", "Each event makes one delivery for each endpoint that takes its type.", "", `breakwater send order.paid -d '{"order":42}'`},
	NoAttempts:    {"Not sent yet", "Each attempt appears here with its request, its answer, and why the next one waits.", "", ""},
	NoDeadLetters: {"Nothing has been given up on", "Deliveries that ran out of attempts, were refused or expired would be listed here.", "", ""},
	NoReplays:     {"No replays yet", "A replay sends dead letters again, slowly at first. Choose some under Dead letters.", "Dead letters", ""},
	NoAlerts:      {"Nothing fires", "An alert appears here when a rule finds something wrong, and stays with its history when it is over.", "", ""},
	NoChannels:    {"Alerts go to the log only", "A channel sends them to a webhook, to Slack or by e-mail.", "New channel", ""},
	NoKeys:        {"No keys", "A key lets a program publish, or a person look and act.", "New key", ""},
	NoTrouble:     {"Nothing needs attention", "Endpoints whose breaker is open, that are in a retry storm or whose queue grows would be listed here, worst first.", "", ""},
	NoOperational: {"Nothing has happened", "Storms, breakers that open and close, and endpoints that are disabled appear here.", "", ""},
	NoFigures:     {"No figures yet", "Figures are kept per minute. The first appear within a minute of the first event.", "", ""},
	NoAudit:       {"No changes yet", "Who changed what, when and with which key appears here.", "", ""},
	NoMatch:       {"Nothing matches this filter", "There may be more with a wider filter or a longer time.", "Clear the filter", ""},
}

// DeadLettersEmpty adds how much was delivered to what an empty list of dead
// letters says.
func DeadLettersEmpty(deliveredDay uint64) Nothing {
	n := Empty(NoDeadLetters)
	n.Text += " " + Short(deliveredDay) + plural(deliveredDay, " delivery has", " deliveries have") + " arrived in the last 24 h."
	return n
}
