package release

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
)

// PackageVersion lets tests see how versions are ordered.
func PackageVersion(version string) string { return packageVersion(version) }

// Names are the files that every archive holds beside the binary and man pages.
func Names() []string {
	return append(slices.Collect(maps.Keys(sources)), slices.Collect(maps.Keys(printed))...)
}

// Pack makes an archive and packages of files that are named only: each holds its
// own name.
func Pack(ctx context.Context, cfg Config, t Target, work string, names []string) error {
	m := &maker{Config: cfg, work: work, made: map[string]string{}}
	m.Log = io.Discard
	var files []file
	for _, name := range names {
		files = append(files, file{name, 0o644, []byte(name + "\n")})
	}
	err := m.archive(t, m.name(t), files)
	if cfg.NFPM != "" {
		err = errors.Join(err, m.packages(ctx, t, files))
	}
	return err
}
