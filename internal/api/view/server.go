package view

// PortalLink is a link that was just made.
type PortalLink struct {
	URL       string `json:"url" doc:"Whoever has it is let in; shown once."`
	ExpiresAt Stamp  `json:"expires_at"`
}

// Settings is the configuration of the server that answers.
type Settings struct {
	Data []Setting `json:"data" nullable:"false"`
}

// Setting is one value of the configuration.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value" doc:"In the syntax of the configuration; *** for a secret that is set."`
	Origin string `json:"origin" doc:"The flag, variable, or file with its line; default when none set it."`
}
