// Package manual writes the commands down as they are: man pages for those who
// install the product, and a page of its documentation.
package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// Command writes the manual of all commands. It is for those who make packages,
// and not listed.
func Command(s *kit.Session) *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use: "man DIR", Short: "Write a man page of every command into a folder", Args: kit.WantArgs(1, 1), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // for everybody to read
				return kit.Usagef("DIR: %w", err)
			}
			if markdown {
				return writeFile(filepath.Join(args[0], "cli.md"), page(cmd.Root()))
			}
			return pages(cmd.Root(), args[0], s)
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "write one page of Markdown, cli.md, instead")
	return cmd
}

func writeFile(name, text string) error {
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("write manual: %w", err)
	}
	return nil
}

// pages writes the man pages. The same source gives the same pages: their date is
// SOURCE_DATE_EPOCH, if there is one.
func pages(root *cobra.Command, dir string, s *kit.Session) error {
	date := time.Now().UTC()
	if text := s.Variable("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return kit.Usagef("SOURCE_DATE_EPOCH: %q must be a number of seconds since 1970", text)
		}
		date = time.Unix(seconds, 0).UTC()
	}
	root.DisableAutoGenTag = true
	each(root, func(c *cobra.Command) { c.Long = paragraphs(cmp.Or(c.Long, c.Short)) })
	var codes strings.Builder
	for _, code := range kit.ExitCodes() {
		fmt.Fprintf(&codes, "**%d**\n\t%s\n\n", code.Code, code.Meaning)
	}
	root.Long += "\n\n# EXIT STATUS\n" + codes.String()
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "Breakwater " + s.Version, Manual: "Breakwater"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return fmt.Errorf("write man pages: %w", err)
	}
	return nil
}

// each calls f for a command and for all below it that are listed.
func each(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() && child.Name() != "help" {
			each(child, f)
		}
	}
}

// paragraphs makes Markdown of a command's description: indented lines stay as they
// are, and nothing in it is a mark.
func paragraphs(text string) string {
	var b strings.Builder
	indented := false
	for line := range strings.Lines(text) {
		if now := strings.HasPrefix(line, "  "); now != indented {
			indented = now
			b.WriteByte('\n')
		}
		if indented {
			b.WriteString("    " + line)
		} else {
			b.WriteString(marks.Replace(line))
		}
	}
	return b.String()
}

var marks = strings.NewReplacer("<", `\<`, "*", `\*`, "_", `\_`)
