package config

import (
	"fmt"
	"io"
	"strings"
)

// WriteReference writes the table of settings as Markdown.
func WriteReference(w io.Writer) error {
	var b strings.Builder
	b.WriteString("| Key | Variable | Flag | Default | Bounds | Meaning |\n|---|---|---|---|---|---|\n")
	for _, s := range new(Config).settings() {
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
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", key, variable, flag, def, s.value.rule, s.help)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}

// WriteExample writes every setting as a comment, in the order of the table, so
// that what a person uncomments is what differs from a bare server.
func WriteExample(w io.Writer) error {
	var b strings.Builder
	for _, s := range new(Config).settings() {
		key, value := s.key, s.def
		if s.secret {
			key, value = key+"_file", ""
		}
		fmt.Fprintf(&b, "\n# %s", s.help)
		if s.value.rule != "" {
			fmt.Fprintf(&b, " (%s)", s.value.rule)
		}
		fmt.Fprintf(&b, "\n#%s:", key)
		if value != "" {
			fmt.Fprintf(&b, " %s", value)
		}
		b.WriteString("\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return nil
}
