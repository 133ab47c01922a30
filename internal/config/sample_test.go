package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/config"
)

const exampleHead = `# Settings of Breakwater. Every setting is here as a comment, with its default where it has one.
# Flags and BREAKWATER_* variables win over this file. Secrets belong in files of their own (…_file).
# To look for mistakes: breakwater config check --config breakwater.yaml
# This file is generated: go test ./internal/config -run TestExampleFile -update
`

// TestExampleFile: the file that packages install names every setting, starts a
// server with the defaults, and says what these are.
func TestExampleFile(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	want.WriteString(exampleHead)
	if err := config.WriteExample(&want); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "deploy", "breakwater.example.yaml")
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is out of date; run this test with -update", file)
	}

	values := func(path string) map[string]string {
		var environ []string
		if path != "" {
			environ = []string{config.FileVariable + "=" + path}
		}
		cfg, err := config.Load(config.Input{Environ: environ})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all := map[string]string{}
		for _, s := range cfg.Effective() {
			all[s.Key] = s.Value
		}
		return all
	}
	defaults := values("")
	if diff := cmp.Diff(defaults, values(file)); diff != "" {
		t.Errorf("the file changes settings (-without +with):\n%s", diff)
	}
	// Uncommented, what has a value has the default.
	uncommented := regexp.MustCompile(`(?m)^#([a-z_0-9.]+: \S.*)$`).ReplaceAllString(string(got), "$1")
	if count := strings.Count(uncommented, "\n"+"store.max_conns: 16\n"); count != 1 {
		t.Fatalf("store.max_conns is there %d times uncommented", count)
	}
	all := filepath.Join(t.TempDir(), "all.yaml")
	if err := os.WriteFile(all, []byte(uncommented), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(defaults, values(all)); diff != "" {
		t.Errorf("defaults are not those of a server (-server +file):\n%s", diff)
	}
}
