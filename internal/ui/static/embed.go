// Package static holds what browsers may keep for ever: the style sheet and the
// icons of the dashboard, each under a name with the hash of its content, so that a
// new version has a new name and an old one never shows with new pages.
//
// It does not serve anything and knows no page.
package static

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"maps"
	"path"
	"strings"
)

//go:embed *.css *.svg *.js
var files embed.FS

// hashLength is how many digits of a file's hash are part of its name.
const hashLength = 12

// byName and byHashed lead from a name as it is written in templates to that with
// the hash, and back. Both are filled once: what is embedded does not change.
var byName, byHashed = index()

func index() (byName, byHashed map[string]string) {
	byName, byHashed = map[string]string{}, map[string]string{}
	entries, err := files.ReadDir(".")
	if err != nil {
		return byName, byHashed // cannot happen: the root of what is embedded is there
	}
	for _, e := range entries {
		content, err := files.ReadFile(e.Name())
		if err != nil {
			continue // nor can this
		}
		sum := sha256.Sum256(content)
		ext := path.Ext(e.Name())
		hashed := strings.TrimSuffix(e.Name(), ext) + "." + hex.EncodeToString(sum[:])[:hashLength] + ext
		byName[e.Name()], byHashed[hashed] = hashed, e.Name()
	}
	return byName, byHashed
}

// Name returns the name under which a file is to be asked for: style.css becomes
// style.0123456789ab.css. A file that there is not keeps its name, and is not found.
func Name(file string) string {
	if hashed, known := byName[file]; known {
		return hashed
	}
	return file
}

// Names returns all of them, by the names that templates write.
func Names() map[string]string { return maps.Clone(byName) }

// FS has every file under its name with the hash and under no other: what it
// serves can be kept for ever.
func FS() fs.FS { return hashedFS{} }

type hashedFS struct{}

// Open implements fs.FS.
func (hashedFS) Open(name string) (fs.File, error) {
	file, known := byHashed[name]
	if !known {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return files.Open(file)
}
