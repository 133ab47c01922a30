package vault

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxKeyFile bounds what is read from a key file: a wrong path may name
// anything.
const maxKeyFile = 1 << 10

// LoadOrCreate reads the key file at path, and makes one with a new key when
// there is none. The file must be readable by its owner only. While keys are
// changed it holds several, the one that seals first.
//
// Whoever loses this file loses the sealed secrets, so a new one is on disk
// when LoadOrCreate returns.
func LoadOrCreate(path string) ([]Key, error) {
	keys, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	key, err := create(path)
	if errors.Is(err, fs.ErrExist) { // another process was faster: its key counts
		return Load(path)
	}
	if err != nil {
		return nil, err
	}
	return []Key{key}, nil
}

// Load reads the key file at path.
func Load(path string) ([]Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open key file: %w", err)
	}
	defer f.Close()
	// The open file is asked, not the path: it cannot be swapped in between.
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("check key file: %w", err)
	}
	if err := checkMode(path, info.Mode()); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	keys, err := ParseKeys(strings.Split(string(text), ","))
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return keys, nil
}

// Replace makes the file at path hold the given keys. Whenever the process or the
// machine stops, there is the old file or the new one.
func Replace(path string, keys []Key) error {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = k.reveal()
	}
	next := path + ".new"
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("write key file: %w", err)
	}
	err = f.Chmod(0o600) // it may have been left by a run that was cut short
	if err == nil {
		_, err = f.WriteString(strings.Join(texts, ",") + "\n")
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write key file: %w", err)
	}
	if err := errors.Join(os.Rename(next, path), syncDir(filepath.Dir(path))); err != nil {
		return fmt.Errorf("put key file in place: %w", err)
	}
	return nil
}

func checkMode(path string, mode fs.FileMode) error {
	if !mode.IsRegular() {
		return fmt.Errorf("key file %s: not a regular file", path)
	}
	if perm := mode.Perm(); perm&0o077 != 0 {
		return fmt.Errorf("key file %s: others than its owner have access (mode %04o); run: chmod 600 %s", path, perm, path)
	}
	return nil
}

func create(path string) (Key, error) {
	key, err := NewKey(rand.Reader)
	if err != nil {
		return Key{}, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Key{}, fmt.Errorf("create key file: %w", err)
	}
	_, err = f.WriteString(key.reveal() + "\n")
	err = errors.Join(err, f.Sync(), f.Close(), syncDir(filepath.Dir(path)))
	if err != nil {
		// Half a key would stop the next start, and nothing is sealed with it.
		_ = os.Remove(path)
		return Key{}, fmt.Errorf("write key file: %w", err)
	}
	return key, nil
}

// syncDir makes the new name durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
