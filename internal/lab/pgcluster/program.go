package pgcluster

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// ErrNoServer means that no PostgreSQL programs were found.
var ErrNoServer = errors.New("no PostgreSQL binaries in /usr/lib/postgresql/*/bin, /usr/pgsql-*/bin or PATH")

// findBinaries returns the folder of the newest server installed.
func findBinaries() (string, error) {
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/postgres", "/usr/pgsql-*/bin/postgres"} {
		match, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("look for PostgreSQL: %w", err)
		}
		found = append(found, match...)
	}
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return majorOf(a) - majorOf(b) })), nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", ErrNoServer
}

// majorOf reads the version number in a path such as
// /usr/lib/postgresql/15/bin/postgres.
func majorOf(path string) int {
	digits := bytes.TrimLeftFunc([]byte(path), func(r rune) bool { return r < '0' || r > '9' })
	if end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, _ := strconv.Atoi(string(digits))
	return n
}

// owner is the unprivileged user the server runs as.
type owner struct {
	name     string
	uid, gid int
}
