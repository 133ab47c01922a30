// Package receive is the group of commands for those who write a receiver: events on
// their own machine, signed, and why a signature does not match.
package receive

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// Commands returns the commands of the group.
func Commands(s *kit.Session) []*cobra.Command {
	return []*cobra.Command{listenCommand(s), verifyCommand(s)}
}

// maxFile bounds what is read of a file.
const maxFile = 64 << 20

// readFile reads the file that a flag names; - is stdin.
func readFile(s *kit.Session, flag, path string) ([]byte, error) {
	if path == "" {
		return nil, kit.Usagef("--%s: name a file", flag)
	}
	source := s.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, kit.Usagef("--%s: %w", flag, err)
		}
		defer f.Close()
		source = f
	}
	raw, err := io.ReadAll(io.LimitReader(source, maxFile+1))
	if err != nil {
		return nil, kit.Usagef("--%s: %w", flag, err)
	}
	if len(raw) > maxFile {
		return nil, kit.Usagef("--%s: %s has more than %d bytes", flag, path, maxFile)
	}
	return raw, nil
}

// firstLine returns what a file holds, without white space around it.
func firstLine(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	line, rest, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	if rest != "" {
		return "", fmt.Errorf("%s must hold one secret", path)
	}
	return strings.TrimSpace(line), nil
}
