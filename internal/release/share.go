package release

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// file is one file of an archive.
type file struct {
	name    string // with slashes
	mode    fs.FileMode
	content []byte
}

// sources are the files of the repository that every archive holds, by their
// names in it.
var sources = map[string]string{
	"LICENSE":                    "LICENSE",
	"NOTICE":                     "NOTICE",
	"README.md":                  "README.md",
	"CHANGELOG.md":               "CHANGELOG.md",
	"breakwater.example.yaml":    "deploy/breakwater.example.yaml",
	"systemd/breakwater.service": "deploy/systemd/breakwater.service",
	"systemd/postgres.conf":      "deploy/systemd/postgres.conf",
}

// printed are the files that the program writes itself, by its arguments.
var printed = map[string][]string{
	"completions/breakwater.bash":       {"completion", "bash"},
	"completions/_breakwater":           {"completion", "zsh"},
	"completions/breakwater.fish":       {"completion", "fish"},
	"completions/breakwater.ps1":        {"completion", "powershell"},
	"prometheus/breakwater.rules.yaml":  {"rules"},
	"grafana/breakwater-dashboard.json": {"dashboard-json"},
}

// shared returns what every archive holds beside the binary, in the order of
// names.
func (m *maker) shared(ctx context.Context, binary string) ([]file, error) {
	var files []file
	for name, source := range sources {
		content, err := os.ReadFile(filepath.Join(m.Root, filepath.FromSlash(source)))
		if err != nil {
			return nil, fmt.Errorf("read what belongs to a release: %w", err)
		}
		files = append(files, file{name, 0o644, content})
	}
	for name, args := range printed {
		content, err := m.output(ctx, binary, args)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, content})
	}
	pages, err := m.manPages(ctx, binary)
	if err != nil {
		return nil, err
	}
	files = append(files, pages...)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// output runs the program without the settings of whoever makes the release.
func (m *maker) output(ctx context.Context, binary string, args []string) ([]byte, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...) //nolint:gosec // the product itself
	cmd.Dir = m.work
	cmd.Env = []string{"HOME=" + m.work, "PATH=" + os.Getenv("PATH"), m.epoch()}
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("breakwater %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// manPages lets the program write its manual.
func (m *maker) manPages(ctx context.Context, binary string) ([]file, error) {
	dir := filepath.Join(m.work, "man")
	if _, err := m.output(ctx, binary, []string{"man", dir}); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read man pages: %w", err)
	}
	var pages []file
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read man pages: %w", err)
		}
		pages = append(pages, file{path.Join("man", entry.Name()), 0o644, content})
	}
	return pages, nil
}
