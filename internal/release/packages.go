package release

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// packages makes a deb and an rpm. The program that makes them finds the files of
// the archive in its working folder, beside the scripts of the packages.
func (m *maker) packages(ctx context.Context, t Target, files []file) error {
	stage, err := os.MkdirTemp(m.work, "package-")
	if err != nil {
		return fmt.Errorf("make a folder for packages: %w", err)
	}
	for _, f := range files {
		if strings.HasPrefix(f.name, "man/") { // systems keep pages compressed
			if f, err = squeezed(f); err != nil {
				return fmt.Errorf("compress %s: %w", f.name, err)
			}
		}
		if err := m.put(filepath.Join(stage, filepath.FromSlash(f.name)), f); err != nil {
			return err
		}
	}
	from := filepath.Join(m.Root, "deploy", "packages")
	scripts, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("read what packages are made by: %w", err)
	}
	for _, s := range scripts {
		content, err := os.ReadFile(filepath.Join(from, s.Name()))
		if err != nil {
			return fmt.Errorf("read what packages are made by: %w", err)
		}
		if err := m.put(filepath.Join(stage, s.Name()), file{mode: 0o755, content: content}); err != nil {
			return err
		}
	}
	for _, form := range []string{"deb", "rpm"} {
		if err := m.pack(ctx, t, stage, form); err != nil {
			return err
		}
	}
	return nil
}

// squeezed has neither the name nor the time of the file in it.
func squeezed(f file) (file, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return f, err
	}
	if _, err := w.Write(f.content); err != nil {
		return f, err
	}
	err = w.Close()
	return file{f.name + ".gz", f.mode, b.Bytes()}, err
}

// put writes a file as it will be in a package, its time included.
func (m *maker) put(path string, f file) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as in the package
		return fmt.Errorf("lay out packages: %w", err)
	}
	err := os.WriteFile(path, f.content, f.mode)
	if err := errors.Join(err, os.Chtimes(path, m.Time, m.Time)); err != nil {
		return fmt.Errorf("lay out packages: %w", err)
	}
	return nil
}

func (m *maker) pack(ctx context.Context, t Target, stage, form string) error {
	name := m.name(t) + "." + form
	made := filepath.Join(m.work, name)
	program, err := filepath.Abs(m.NFPM)
	if err != nil {
		return fmt.Errorf("find the program that makes packages: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "package", "--config", "nfpm.yaml", "--packager", form, "--target", made) //nolint:gosec // what the caller names
	cmd.Dir = stage
	cmd.Env = append(os.Environ(), "PACKAGE_VERSION="+packageVersion(m.Version), "PACKAGE_ARCH="+t.Arch, m.epoch())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make %s: %w\n%s", name, err, out)
	}
	content, err := os.ReadFile(made)
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return m.write(name, content)
}

var (
	numbered = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(.*)$`)
	later    = regexp.MustCompile(`^(-\d+-g[0-9a-f]+)?(-dirty)?$`)
)

// packageVersion is a version as deb and rpm order them: what is before a release
// has a tilde, commits after one a plus sign, and a dash is not allowed.
func packageVersion(version string) string {
	parts := numbered.FindStringSubmatch(version)
	if parts == nil {
		return "0.0.0~" + strings.ReplaceAll(version, "-", ".")
	}
	number, rest := parts[1], strings.TrimPrefix(parts[2], "-")
	switch {
	case rest == "":
		return number
	case later.MatchString(parts[2]):
		return number + "+" + strings.ReplaceAll(rest, "-", ".")
	default:
		return number + "~" + strings.ReplaceAll(rest, "-", ".")
	}
}
