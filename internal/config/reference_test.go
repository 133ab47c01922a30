package config_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/config"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

func flagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(fs)
	return fs
}

const referenceHead = `# Configuration

Flags win over ` + "`BREAKWATER_*`" + ` variables, which win over the YAML file: ` + "`--config`, `BREAKWATER_CONFIG`" + `, else
` + "`breakwater.yaml`" + ` in the working folder. A variable that is set to nothing counts as not set.

Unknown keys, unknown ` + "`BREAKWATER_*`" + ` variables and values out of bounds are reported all at once and end the
start with exit code 2; ` + "`breakwater config check`" + ` does the same without starting, ` + "`breakwater config print`" + ` shows
every effective value and where it came from.

Durations are Go's (` + "`30s`, `1h30m`" + `) or whole days (` + "`7d`" + `), sizes are whole numbers with B, KiB, MiB, GiB or TiB,
lists are separated by commas. A key with a ` + "`_file`" + ` form is a secret: it is masked wherever it is printed, and the
file's trailing newline is cut. Setting both forms in the same place is an error.

Traces follow OpenTelemetry's own variables, ` + "`OTEL_*`" + `: [traces.md](traces.md).

This page is generated: ` + "`go test ./internal/config -run TestReference -update`" + `.

`

func TestReference(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	got.WriteString(referenceHead)
	if err := config.WriteReference(&got); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join("..", "..", "docs", "configuration.md")
	if *update {
		if err := os.WriteFile(page, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s is out of date; run this test with -update", page)
	}
	if !strings.Contains(got.String(), "| `store.max_conns` | `BREAKWATER_STORE_MAX_CONNS` | `--store-max-conns` | `16` | 8 to 200 |") {
		t.Error("names of store.max_conns do not follow from its key")
	}
}

func TestEveryFlagHasHelp(t *testing.T) {
	t.Parallel()
	flagSet().VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			t.Errorf("--%s has no help", f.Name)
		}
	})
}

// FuzzYAML looks for documents that make Load crash or fail without saying
// why.
func FuzzYAML(f *testing.F) {
	for _, s := range []string{
		"store:\n  max_conns: 4\n", "a: &a [*a]\n", "? {a: b}\n: c\n", "listen: !!binary aGk=\n",
		"<<: {dev: true}\n", "egress: {ports: [1, 2]}\n", "store: {store: {store: {}}}\n", "---\n---\n", "\x00", "a: *b",
	} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "fuzz.yaml")
	f.Fuzz(func(t *testing.T, doc []byte) {
		if err := os.WriteFile(path, doc, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Input{Environ: []string{"BREAKWATER_CONFIG=" + path}})
		if (c == nil) == (err == nil) {
			t.Fatalf("Load = %v, %v: want one of the two", c, err)
		}
	})
}
