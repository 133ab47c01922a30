// Package torture hurts the real binary for as long as one likes: it is killed,
// stopped past its lease, cut off from its database and its disk loses power,
// by chance from a seed. Package check then compares what was accepted, what
// the receiver saw and what the API claims.
//
// `go test` runs a small share; `make torture KILLS=500 CUTS=500 SEED=1` runs as
// much as it is told. It speaks to the product over HTTP only and uses nothing
// of it but the packages that start PostgreSQL and give out addresses.
package torture_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// amount is how much is done. The defaults are the share of `make test`.
type amount struct {
	kills int // kill -9, half of them on either store
	cuts  int // power cuts of the SQLite store
	seed  uint64
	long  bool // asked for by `make torture`
}

var todo amount

func TestMain(m *testing.M) {
	if shim := os.Getenv(shimVariable); shim != "" {
		becomeTraced(shim) // does not return
	}
	var err error
	if todo, err = readAmount(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if scratch, err = os.MkdirTemp("", "breakwater-torture"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	results.print(os.Stdout)
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// scratch holds the binaries and everything else that is not a test's own.
var scratch string

func readAmount() (amount, error) {
	a := amount{kills: 6, cuts: 8, seed: uint64(time.Now().UnixNano()), long: os.Getenv("TORTURE_KILLS") != "" || os.Getenv("TORTURE_CUTS") != ""}
	for name, to := range map[string]*int{"TORTURE_KILLS": &a.kills, "TORTURE_CUTS": &a.cuts} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > 1_000_000 {
				return a, fmt.Errorf("%s is %q: must be a whole number from 0 to 1000000", name, text)
			}
			*to = n
		}
	}
	if text := os.Getenv("TORTURE_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return a, fmt.Errorf("TORTURE_SEED is %q: must be a whole number", text)
		}
		a.seed = n
	}
	return a, nil
}

// chance returns the test's own source, so that a part that is run alone does
// what it did in the whole run.
func chance(t *testing.T) *rand.Rand {
	t.Helper()
	h := fnv.New64a()
	_, _ = h.Write([]byte(t.Name()))
	t.Logf("seed %d", todo.seed)
	return rand.New(rand.NewPCG(todo.seed, h.Sum64()))
}

// between draws a duration.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

var (
	product = sync.OnceValues(func() (string, error) { return build("breakwater") })
	// unsafeProduct obeys TORTURE_SYNCHRONOUS, see internal/store/sqlite.
	unsafeProduct = sync.OnceValues(func() (string, error) { return build("breakwater-unsafe", "-tags", "torture_unsafe") })
)

func build(name string, flags ...string) (string, error) {
	path := filepath.Join(scratch, name)
	args := append([]string{"build", "-trimpath", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, "github.com/breakwaterhq/breakwater/cmd/breakwater")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}

func binaryOf(t *testing.T, from func() (string, error)) string {
	t.Helper()
	path, err := from()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// skip leaves a part out, loudly: the table says so, and in CI it is a failure
// unless the machine cannot have what is missing.
func skip(t *testing.T, part, store, why string) {
	t.Helper()
	results.add(result{part: part, store: store, skipped: why})
	t.Skipf("NOT TESTED: %s", why)
}
