package program_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/test/program"
)

// drawn is how many addresses each of two processes asks for. Drawn by chance
// alone, two of them would be the same.
const drawn = 400

func TestAddressesAreGivenOnce(t *testing.T) {
	var mine []string
	for range drawn {
		mine = append(mine, program.Address())
	}
	if os.Getenv("ADDRESSES_OF_A_CHILD") != "" {
		fmt.Println(strings.Join(mine, "\n"))
		return
	}

	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAddressesAreGivenOnce$")
	child.Env = append(os.Environ(), "ADDRESSES_OF_A_CHILD=1")
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen, all := map[string]bool{}, mine
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "127.0.0.1:") {
			all = append(all, line)
		}
	}
	for _, address := range all {
		if seen[address] {
			t.Errorf("%s was given twice", address)
		}
		seen[address] = true
	}
	if len(seen) != 2*drawn {
		t.Errorf("%d addresses, want %d", len(seen), 2*drawn)
	}
}
