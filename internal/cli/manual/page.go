package manual

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/config"
)

// failures says what scripts can rely on when a command fails.
const failures = `
A message names what is wrong (a flag, an argument, a setting, a field of the API or an object) and what to do next. With ` + "`--json`" + ` the last
line of stderr is the same as a document; of several objects each one that failed has a line with its ` + "`id`" + `:

` + "```json" + `
{"code":"usage","detail":"--count: must be at least 1","errors":[{"path":"--count","message":"must be at least 1"}],"exit_code":2}
{"code":"not_found","detail":"there is no such object, or this key may not see it","errors":[],
 "next":"endpoint ep_1 of tenant default; see: breakwater endpoints list, or name another with --tenant","status":404,"request_id":"req_...","exit_code":3}
` + "```" + `

| Member | |
|---|---|
| ` + "`code`" + ` | the code of the API's answer ([api.md](api.md)), else ` + "`usage`, `unreachable`, `partly_done`, `check_failed` or `failed`" + ` |
| ` + "`detail`" + ` | what is wrong, for people |
| ` + "`errors`" + ` | what is wrong with which flag, argument, setting or field: ` + "`path`, `message`, and `code`" + ` where the API gives one; may be empty |
| ` + "`next`" + ` | what to do about it, if that is known |
| ` + "`id`" + ` | which of several objects it is about |
| ` + "`status`, `request_id`" + ` | of the API's answer |
| ` + "`exit_code`" + ` | as above |

Scripts may depend on the names and on ` + "`code`, `path` and `exit_code`" + `; texts may change. A check that said no (exit code 8) has its result on stdout.
`

// page is docs/cli.md.
func page(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString(`# Command line

<!-- Written by a test from the commands themselves: go test ./internal/cli -run TestManual -update -->

One binary does everything: it serves, and it talks to a server over its API. ` + "`breakwater COMMAND --help`" + ` says the same as this page.

- Results go to stdout, everything else to stderr. ` + "`--json`" + ` prints the server's own documents, streams as a document on each line; ` + "`--quiet`" + ` only ids.
- A key is never a flag, so that no list of processes shows it: ` + "`--api-key-file`, `BREAKWATER_API_KEY_FILE` or `BREAKWATER_API_KEY`" + `. For a server on
  this machine the key that it left in ` + "`breakwater-data/admin.key`" + ` is tried.
- Ctrl-C ends the watching, not what the server does. What cannot be undone asks on a terminal, and needs ` + "`--yes`" + ` elsewhere.
- ` + "`breakwater completion bash`" + ` (zsh, fish, powershell) prints what makes a shell complete commands, flags, and the names that the server knows (it waits a second for them at most).

## Exit codes

| Code | Meaning |
|---|---|
`)
	for _, code := range kit.ExitCodes() {
		fmt.Fprintf(&b, "| %d | %s |\n", code.Code, cell(code.Meaning))
	}
	b.WriteString(failures)
	b.WriteString("\n## Flags of every command\n\n")
	writeFlags(&b, root.PersistentFlags(), nil)
	b.WriteString("\n## Commands\n\n| Command | Does |\n|---|---|\n")
	for _, c := range root.Commands() {
		if listed(c) {
			fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", c.Name(), anchor(c), cell(c.Short))
		}
	}
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(settings)
	for _, c := range root.Commands() {
		if listed(c) {
			each(c, func(c *cobra.Command) { writeCommand(&b, c, settings) })
		}
	}
	return b.String()
}

// listed leaves out what is the same in every program.
func listed(c *cobra.Command) bool {
	return c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion"
}

func anchor(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func writeCommand(b *strings.Builder, c *cobra.Command, settings *pflag.FlagSet) {
	level := "##"
	if c.Parent().HasParent() {
		level = "###"
	}
	fmt.Fprintf(b, "\n%s %s\n\n", level, c.CommandPath())
	fmt.Fprintf(b, "%s.\n", cell(c.Short))
	if c.Long != "" {
		fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimSpace(c.Long))
	}
	if !holdsOthers(c) {
		fmt.Fprintf(b, "\nUsage: `%s`\n\n```text\n", c.UseLine())
		for line := range strings.Lines(strings.TrimRight(c.Example, "\n") + "\n") {
			b.WriteString(strings.TrimPrefix(line, "  "))
		}
		b.WriteString("```\n")
	}
	flags := c.NonInheritedFlags()
	if !flags.HasAvailableFlags() || holdsOthers(c) {
		return
	}
	b.WriteByte('\n')
	writeFlags(b, flags, settings)
}

func holdsOthers(c *cobra.Command) bool { return c.HasAvailableSubCommands() && c.Example == "" }

// writeFlags lists flags, without those that are settings of a server: they have a
// page of their own.
func writeFlags(b *strings.Builder, flags, settings *pflag.FlagSet) {
	rows, hasSettings := 0, false
	flags.VisitAll(func(f *pflag.Flag) {
		switch {
		case f.Hidden || f.Name == "help":
			return
		case settings != nil && settings.Lookup(f.Name) != nil && settings.Lookup(f.Name).Usage == f.Usage:
			hasSettings = true
			return
		}
		rows++
		if rows == 1 {
			b.WriteString("| Flag | Default | |\n|---|---|---|\n")
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		word, usage := pflag.UnquoteUsage(f)
		if word != "" {
			name += " " + word
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, value, cell(usage))
	})
	if hasSettings {
		if rows > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("Every setting of the server is a flag: [configuration.md](configuration.md).\n")
	}
}

// cell makes text safe within a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ").Replace(text)
}
