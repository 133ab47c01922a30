// Package config turns flags, BREAKWATER_* variables and a YAML file into
// app.Options, in that order of precedence.
//
// One table (settings.go) lists every setting with its type, default, bounds
// and help; the three sources, the flags, the checks, the printout and
// docs/configuration.md all follow from it. Mistakes are collected, never
// reported one by one.
//
// It opens no store, starts nothing and keeps no global state: what a setting
// means is known only to the packages that use it.
package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/app"
)

// DefaultFile is read from the working folder when no file is named.
const DefaultFile = "breakwater.yaml"

// FileFlag names the YAML file on the command line; FileVariable does the same
// in the environment.
const (
	FileFlag     = "config"
	FileVariable = "BREAKWATER_CONFIG"
)

// Config is the effective configuration of a server.
type Config struct {
	// Options lacks only Version, Log and Announce, which belong to the
	// caller.
	Options   app.Options
	LogLevel  slog.Level
	LogFormat string // "json", "text", or empty: text on a terminal, else json

	given map[string]given // by key
}

// Input is where Load looks.
type Input struct {
	Flags   *pflag.FlagSet // parsed flags of AddFlags; nil: none
	Environ []string       // as os.Environ gives it
	Version string         // for the default User-Agent
}

// given is the text of one setting and where it came from.
type given struct {
	text   string
	origin string
	rank   int
	isFile bool // text names a file that holds the value
}

// The ranks of the sources; a higher one wins.
const (
	rankDefault = iota
	rankYAML
	rankEnv
	rankFlag
)

// Load reads all sources, fills in defaults and checks everything. Its error
// is an *Error with every problem found.
func Load(in Input) (*Config, error) {
	c := &Config{given: map[string]given{}}
	settings := c.settings()
	l := loader{known: index(settings), given: c.given}
	l.readFlags(in.Flags)
	l.readEnviron(in.Environ)
	l.readFile(configFile(in))
	l.apply(settings)
	if c.Options.UserAgent == "" {
		c.Options.UserAgent = "Breakwater/" + in.Version
	}
	if c.LogFormat == "" && c.Options.Dev {
		c.LogFormat = "text"
	}
	l.crossCheck(c)
	if len(l.problems) > 0 {
		return nil, &Error{Problems: l.problems}
	}
	return c, nil
}

// configFile names the YAML file and tells whether it was asked for: a default
// file that does not exist is no problem.
func configFile(in Input) (path string, wanted bool) {
	if in.Flags != nil {
		if f := in.Flags.Lookup(FileFlag); f != nil && f.Changed {
			return f.Value.String(), true
		}
	}
	for _, kv := range in.Environ {
		if v, ok := strings.CutPrefix(kv, FileVariable+"="); ok && v != "" {
			return v, true
		}
	}
	return DefaultFile, false
}

// loader gathers what the sources say and what is wrong with it.
type loader struct {
	known    names
	given    map[string]given
	problems []Problem
}

func (l *loader) problem(p Problem) { l.problems = append(l.problems, p) }

// give records one value. A value of a higher source stays; giving a secret
// and its file in the same source is a contradiction.
func (l *loader) give(s *setting, g given) {
	old, ok := l.given[s.key]
	switch {
	case ok && old.rank == g.rank && old.isFile != g.isFile:
		l.problem(Problem{
			Key: s.key, Origin: old.origin + " and " + g.origin,
			Message: "set either the value or its file, not both",
		})
	case !ok || old.rank <= g.rank:
		l.given[s.key] = g
	}
}

// apply writes defaults and given values where they belong, in the order of the
// table.
func (l *loader) apply(settings []setting) {
	for _, s := range settings {
		g, ok := l.given[s.key]
		if !ok {
			g = given{text: s.def, origin: "default"}
		}
		text, err := resolve(g, s.private)
		// Nothing is a value only where nothing is the default: an empty flag
		// can take back what a file says.
		if err == nil && (text != "" || s.def != "") {
			err = s.value.parse(text)
		}
		if err != nil {
			l.problem(Problem{Key: s.key, Origin: g.origin, Value: s.shown(g), Message: err.Error()})
		}
	}
}

// maxSecretFile bounds the files that <key>_file names.
const maxSecretFile = 64 << 10

// resolve returns the value of g, reading the file that it names if need be.
func resolve(g given, private bool) (string, error) {
	if !g.isFile {
		return g.text, nil
	}
	f, err := os.Open(g.text)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", rootCause(err))
	}
	defer f.Close()
	if private {
		if err := checkPrivate(f, g.text); err != nil {
			return "", err
		}
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxSecretFile+1))
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", rootCause(err))
	}
	if len(raw) > maxSecretFile {
		return "", errors.New("file is too large for a secret")
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r")
	if text == "" {
		return "", errors.New("file is empty")
	}
	return text, nil
}

// checkPrivate refuses a file that every account of the machine may read. A
// group may: that is how a file is shared with one service.
func checkPrivate(f *os.File, path string) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot be read: %w", rootCause(err))
	}
	// Windows has no such bits; Go reports made-up ones.
	if perm := info.Mode().Perm(); perm&0o007 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("everybody on this machine has access to the file (mode %04o); run: chmod 600 %s", perm, path)
	}
	return nil
}

// rootCause drops the operation and the path of a file error; the problem
// names them already.
func rootCause(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
