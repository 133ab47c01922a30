package config

import (
	"fmt"
	"io"
	"strings"
)

// Setting is one effective setting as it is printed.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // "***" for secrets that are set
	Origin string `json:"origin"`
}

// Effective lists every setting with the source that decided it.
func (c *Config) Effective() []Setting {
	out := make([]Setting, len(settings))
	for i := range settings {
		s := &settings[i]
		out[i] = Setting{Key: s.key, Value: s.value.show(c), Origin: "default"}
		if g, ok := c.given[s.key]; ok {
			out[i].Origin = g.origin
		}
		if s.secret && out[i].Value != "" {
			out[i].Value = "***"
		}
	}
	return out
}

// WriteReference writes the table of settings as Markdown.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| Key | Variable | Flag | Default | Bounds | Meaning |\n|---|---|---|---|---|---|\n")
	for i := range settings {
		s := &settings[i]
		flag := "`--" + s.flagName() + "`"
		switch {
		case s.secret && s.plainFlag:
			flag += ", `--" + s.flagName() + "-file`"
		case s.secret:
			flag = "`--" + s.flagName() + "-file`"
		}
		key, variable := "`"+s.key+"`", "`"+s.variable()+"`"
		if s.secret {
			key += ", `" + s.key + "_file`"
			variable += ", `" + s.variable() + "_FILE`"
		}
		def := "–"
		if s.def != "" {
			def = "`" + s.def + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", key, variable, flag, def, s.value.bounds(), s.help)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}
