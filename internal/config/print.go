package config

import "github.com/breakwaterhq/breakwater/internal/api/view"

// Setting is one effective setting as it is printed.
type Setting = view.Setting

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
