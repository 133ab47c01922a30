// Package release makes what is handed out: for every target a binary, an archive
// of it with everything that belongs to it, a bill of materials, packages for
// Debian and Red Hat, a formula for Homebrew, and the checksums of all, signed if
// there is a key.
//
// The same source, version, time and Go make the same bytes, in whatever folder
// and on whatever machine. It uploads nothing.
package release

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Target is what a binary runs on, in Go's words.
type Target struct{ OS, Arch string }

func (t Target) String() string { return t.OS + "/" + t.Arch }

// Host is the target of this machine.
func Host() Target { return Target{runtime.GOOS, runtime.GOARCH} }

// Targets are those that releases are made for.
func Targets() []Target {
	var all []Target
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			all = append(all, Target{system, arch})
		}
	}
	return all
}

// ParseTargets reads a list such as linux/amd64,darwin/arm64. Nothing means all,
// host the target of this machine.
func ParseTargets(list string) ([]Target, error) {
	if list == "" {
		return Targets(), nil
	}
	var chosen []Target
	for word := range strings.SplitSeq(list, ",") {
		system, arch, _ := strings.Cut(word, "/")
		t := Target{system, arch}
		if word == "host" {
			t = Host()
		}
		if !slices.Contains(Targets(), t) {
			return nil, fmt.Errorf("target %q is none of %v", word, Targets())
		}
		if !slices.Contains(chosen, t) {
			chosen = append(chosen, t)
		}
	}
	return chosen, nil
}

// Config says what to make.
type Config struct {
	Root      string    // folder of the module
	Out       string    // folder for what is made; what is in it goes
	Version   string    // stamped into the binary and into names
	Time      time.Time // of every file; not before 1980, which zip does not know
	Targets   []Target  // nil means all
	NFPM      string    // program that makes packages; empty means that none are made
	Downloads string    // where the archives will be, for the formula; empty means the project's page
	SignKey   string    // file with a private key of SSH; empty means that nothing is signed
	Go        string    // empty means go
	Log       io.Writer // gets a line for each step; nil means nowhere
}

var (
	versionForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+~-]{0,63}$`)
	addressForm = regexp.MustCompile(`^https://[0-9A-Za-z][^\s"\\#]{0,500}$`) // stands between quotes in the formula
	earliest    = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (c *Config) check() error {
	switch {
	case c.Root == "" || c.Out == "":
		return errors.New("release: root and out are required")
	case !versionForm.MatchString(c.Version):
		return fmt.Errorf("release: version %q must be 1 to 64 letters, digits, dots, dashes, tildes or plus signs", c.Version)
	case c.Time.Before(earliest):
		return fmt.Errorf("release: time %s must not be before 1980", c.Time.UTC().Format(time.RFC3339))
	case c.Downloads != "" && !addressForm.MatchString(c.Downloads):
		return fmt.Errorf("release: downloads %q must be an https address", c.Downloads)
	}
	if c.SignKey != "" { // now, not after minutes of compiling
		_, err := os.Stat(c.SignKey)
		_, missing := exec.LookPath("ssh-keygen")
		if err := errors.Join(err, missing); err != nil {
			return fmt.Errorf("release: sign: %w", err)
		}
	}
	for _, t := range c.Targets {
		if !slices.Contains(Targets(), t) {
			return fmt.Errorf("release: target %s is none of %v", t, Targets())
		}
	}
	return nil
}

// maker is one run.
type maker struct {
	Config

	work  string            // scratch, removed at the end
	share []file            // what every archive holds beside the binary
	made  map[string]string // checksums of what was made, by name
}

// Run makes a release.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.check(); err != nil {
		return err
	}
	if cfg.Targets == nil {
		cfg.Targets = Targets()
	}
	cfg.Time = cfg.Time.UTC().Truncate(time.Second)
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	work, err := os.MkdirTemp("", "breakwater-release-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	m := &maker{Config: cfg, work: work, made: map[string]string{}}
	return errors.Join(m.run(ctx), os.RemoveAll(work))
}

func (m *maker) run(ctx context.Context) error {
	if err := errors.Join(os.RemoveAll(m.Out), os.MkdirAll(m.Out, 0o755)); err != nil { //nolint:gosec // for everybody to fetch
		return fmt.Errorf("empty %s: %w", m.Out, err)
	}
	// The binary of this machine writes the files that come from the program.
	own, err := m.build(ctx, Host())
	if err != nil {
		return err
	}
	if m.share, err = m.shared(ctx, own); err != nil {
		return err
	}
	for _, t := range m.Targets {
		if err := m.target(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	if err := m.formula(); err != nil {
		return err
	}
	return m.sums(ctx)
}

func (m *maker) target(ctx context.Context, t Target) error {
	binary, err := m.build(ctx, t)
	if err != nil {
		return err
	}
	program := "breakwater"
	if t.OS == "windows" {
		program += ".exe"
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the binary: %w", err)
	}
	files := append([]file{{name: program, mode: 0o755, content: content}}, m.share...)
	name := m.name(t)
	if err := m.archive(t, name, files); err != nil {
		return err
	}
	bill, err := billOf(binary, m.Version, t, m.Time)
	if err != nil {
		return err
	}
	if err := m.write(name+".cdx.json", bill); err != nil {
		return err
	}
	if t.OS != "linux" || m.NFPM == "" {
		return nil
	}
	return m.packages(ctx, t, files)
}

// name is what the names of the files for a target begin with.
func (m *maker) name(t Target) string {
	return fmt.Sprintf("breakwater_%s_%s_%s", m.Version, t.OS, t.Arch)
}

// epoch tells other programs which time it is.
func (m *maker) epoch() string { return "SOURCE_DATE_EPOCH=" + strconv.FormatInt(m.Time.Unix(), 10) }

func (m *maker) write(name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(m.Out, name), content, 0o644); err != nil { //nolint:gosec // for everybody to fetch
		return fmt.Errorf("write %s: %w", name, err)
	}
	m.made[name] = fmt.Sprintf("%x", sha256.Sum256(content))
	m.say("made %s, %d KiB", name, (len(content)+1023)/1024)
	return nil
}

func (m *maker) say(format string, args ...any) {
	_, _ = fmt.Fprintf(m.Log, format+"\n", args...) // a lost line of progress hurts nobody
}

// build compiles the product for a target, or finds what it compiled before.
func (m *maker) build(ctx context.Context, t Target) (string, error) {
	binary := filepath.Join(m.work, "breakwater-"+t.OS+"-"+t.Arch)
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	m.say("compiling for %s; the first time this takes minutes", t)
	return binary, m.Compile(ctx, t, binary)
}

// Compile writes the binary of a target. What a person has set for Go must not
// show in it.
func (c *Config) Compile(ctx context.Context, t Target, binary string) error {
	stamp := "-s -w -buildid= -X github.com/breakwaterhq/breakwater/internal/cli.version=" + c.Version
	cmd := exec.CommandContext(ctx, cmp.Or(c.Go, "go"), "build", "-trimpath", "-buildvcs=false", "-ldflags", stamp, "-o", binary, "./cmd/breakwater") //nolint:gosec // go, or what the caller takes for it
	cmd.Dir = c.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch,
		"GOFLAGS=-mod=readonly", "GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile for %s: %w\n%s", t, err, out)
	}
	return nil
}
