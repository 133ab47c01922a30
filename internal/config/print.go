package config

// Setting is one effective setting as it is printed.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // "***" for secrets that are set
	Origin string `json:"origin"`
}

// Effective lists every setting with the source that decided it.
func (c *Config) Effective() []Setting {
	settings := c.settings()
	out := make([]Setting, len(settings))
	for i, s := range settings {
		out[i] = Setting{Key: s.key, Value: s.value.show(), Origin: "default"}
		if g, ok := c.given[s.key]; ok {
			out[i].Origin = g.origin
		}
		if s.secret && out[i].Value != "" {
			out[i].Value = "***"
		}
	}
	return out
}
