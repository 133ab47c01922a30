package kit

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
)

// Confirm asks a person; without one, --yes has to be given.
func (s *Session) Confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	if !IsTerminal(s.Stderr) || s.Stdin == nil {
		return Usagef("%s Say so with --yes.", question)
	}
	_, _ = fmt.Fprintf(s.Stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(s.Stdin).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}
