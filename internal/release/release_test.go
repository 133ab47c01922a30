package release_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/breakwaterhq/breakwater/internal/release"
)

func TestVersionsOfPackagesAreInOrder(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.2.0":                  "1.2.0",
		"1.2.0":                   "1.2.0",
		"v1.2.0-rc.1":             "1.2.0~rc.1",
		"v1.2.0-5-gef8c431":       "1.2.0+5.gef8c431",
		"v1.2.0-5-gef8c431-dirty": "1.2.0+5.gef8c431.dirty",
		"v1.2.0-dirty":            "1.2.0+dirty",
		"ef8c431":                 "0.0.0~ef8c431",
		"ef8c431-dirty":           "0.0.0~ef8c431.dirty",
		"v1.2.0-rc.1-2-gef8c431":  "1.2.0~rc.1.2.gef8c431",
	} {
		if got := release.PackageVersion(version); got != want {
			t.Errorf("%s becomes %s, want %s", version, got, want)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	all, err := release.ParseTargets("")
	if err != nil || len(all) != 6 {
		t.Errorf("all: %v, %v", all, err)
	}
	some, err := release.ParseTargets("linux/arm64,windows/amd64,linux/arm64")
	if want := []release.Target{{OS: "linux", Arch: "arm64"}, {OS: "windows", Arch: "amd64"}}; err != nil || !slices.Equal(some, want) {
		t.Errorf("some: %v, %v", some, err)
	}
	if _, err := release.ParseTargets("linux/mips"); err == nil || !strings.Contains(err.Error(), `"linux/mips" is none of`) {
		t.Errorf("unknown: %v", err)
	}
}

func TestWrongConfigurationMakesNothing(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*release.Config){
		"root and out are required": func(c *release.Config) { c.Out = "" },
		`version "" must be`:        func(c *release.Config) { c.Version = "" },
		`version "a b" must be`:     func(c *release.Config) { c.Version = "a b" },
		"must not be before 1980":   func(c *release.Config) { c.Time = time.Unix(0, 0) },
		"must be an https address":  func(c *release.Config) { c.Downloads = "http://x.example" },
		`"https://a\"b" must be`:    func(c *release.Config) { c.Downloads = `https://a"b` },
		"release: sign: ":           func(c *release.Config) { c.SignKey = filepath.Join(t.TempDir(), "none") },
		"target plan9/arm is none":  func(c *release.Config) { c.Targets = []release.Target{{OS: "plan9", Arch: "arm"}} },
	} {
		cfg := release.Config{Root: "../..", Out: filepath.Join(t.TempDir(), "dist"), Version: "v1", Time: time.Unix(1_700_000_000, 0)}
		change(&cfg)
		if err := release.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestPackagesHoldWhatArchivesHold: every file that a package asks for is made, and
// every script is there.
func TestPackagesHoldWhatArchivesHold(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", "deploy", "packages")
	text, err := os.ReadFile(filepath.Join(folder, "nfpm.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Contents []struct{ Src, Dst string }
		Scripts  map[string]string
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	made := append(release.Names(), "breakwater", "man")
	asked := map[string]bool{}
	for _, c := range file.Contents {
		if !slices.Contains(made, c.Src) {
			t.Errorf("%s is not part of a release", c.Src)
		}
		asked[c.Src] = true
	}
	for _, name := range made {
		if !asked[name] && name != "README.md" && !strings.HasSuffix(name, ".ps1") {
			t.Errorf("packages leave %s out", name)
		}
	}
	for _, script := range file.Scripts {
		if content, err := os.ReadFile(filepath.Join(folder, script)); err != nil || !strings.HasPrefix(string(content), "#!/bin/sh\n") {
			t.Errorf("%s: %v", script, err)
		}
	}
	for _, variable := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(string(text), -1) {
		if !slices.Contains([]string{"PACKAGE_ARCH", "PACKAGE_VERSION"}, variable[1]) {
			t.Errorf("nobody sets %s", variable[1])
		}
	}
}
