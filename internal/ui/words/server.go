package words

// NodeStatusOf is the badge of a process that works on the store.
func NodeStatusOf(status string) Word { return nodeStatuses.of(status) }

// KeyStatusOf is the badge of an API key.
func KeyStatusOf(status string) Word { return keyStatuses.of(status) }

var (
	nodeStatuses = vocabulary{
		"live":     {Word: "Live", Class: ok, Icon: "delivering"},
		"draining": {Word: "Stopping", Class: warn, Icon: "draining", Meaning: "it ends what it has begun and begins nothing"},
		"gone":     {Word: "Gone", Class: grey, Icon: "disabled", Meaning: "it stopped, or has not renewed its lease"},
	}
	keyStatuses = vocabulary{
		"active":  {Word: "Active", Class: ok, Icon: "delivering"},
		"expired": {Word: "Expired", Class: grey, Icon: "wait"},
		"revoked": {Word: "Revoked", Class: grey, Icon: "disabled"},
	}
)
