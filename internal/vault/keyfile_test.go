package vault_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/vault"
)

func TestLoadOrCreate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret.key")
	made, err := vault.LoadOrCreate(path)
	if err != nil {
		t.Fatalf("first start: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(string(text), "\n"))
	if err != nil || len(raw) != 32 {
		t.Errorf("the file holds %d bytes (%v), want base64 of 32", len(raw), err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	loaded, err := vault.LoadOrCreate(path)
	if err != nil || vault.IDs(loaded) != vault.IDs(made) {
		t.Errorf("second start: key %s, %v, want %s", vault.IDs(loaded), err, vault.IDs(made))
	}
	other, err := vault.LoadOrCreate(filepath.Join(t.TempDir(), "secret.key"))
	if err != nil || vault.IDs(other) == vault.IDs(made) {
		t.Errorf("another server: key %s, %v, want another than %s", vault.IDs(other), err, vault.IDs(made))
	}
}

func TestKeyFileMustBePrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits on Windows")
	}
	for mode, ok := range map[os.FileMode]bool{
		0o600: true, 0o400: true, 0o700: true,
		0o640: false, 0o604: false, 0o644: false, 0o660: false, 0o620: false, 0o610: false, 0o601: false, 0o666: false,
	} {
		t.Run(fmt.Sprintf("%04o", mode), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "secret.key")
			if _, err := vault.LoadOrCreate(path); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			_, err := vault.LoadOrCreate(path)
			if ok && err != nil {
				t.Errorf("LoadOrCreate: %v, want no error", err)
			}
			if !ok && (err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) || !strings.Contains(err.Error(), fmt.Sprintf("%04o", mode))) {
				t.Errorf("LoadOrCreate: %v, want an error that shows the mode and the way out", err)
			}
		})
	}
}

// A broken key file is never replaced: what it sealed would be lost for good.
func TestBrokenKeyFileIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "cut short": "AAECAwQFBgcICQoLDA0ODxAREhMUFR", "huge": strings.Repeat("A", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "secret.key")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := vault.LoadOrCreate(path)
			if !errors.Is(err, vault.ErrBadKey) || !strings.Contains(err.Error(), path) {
				t.Errorf("LoadOrCreate = %v, want ErrBadKey that names the file", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != content {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

func TestKeyFileErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.LoadOrCreate(filepath.Join(dir, "private")); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a directory: %v, want an error", err)
	}
	if _, err := vault.LoadOrCreate(filepath.Join(dir, "missing", "secret.key")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing directory: %v, want not exist", err)
	}
}

// While keys are changed the file holds both, and it is never half of one.
func TestKeyFileIsReplacedAsAWhole(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret.key")
	made, err := vault.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("left by a run that was cut short"), 0o644); err != nil {
		t.Fatal(err)
	}
	fresh := newKey(t)
	for _, want := range [][]vault.Key{{fresh, made[0]}, {fresh}} {
		if err := vault.Replace(path, want); err != nil {
			t.Fatal(err)
		}
		got, err := vault.LoadOrCreate(path)
		if err != nil || vault.IDs(got) != vault.IDs(want) {
			t.Errorf("the file holds %s, %v, want %s", vault.IDs(got), err, vault.IDs(want))
		}
	}
	if left, err := filepath.Glob(path + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.WriteFile(path, []byte("AAAA,AAAA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := vault.Load(path); !errors.Is(err, vault.ErrBadKey) || !strings.Contains(err.Error(), "key 1 of 2") {
		t.Errorf("Load = %v, want ErrBadKey that names the first key", err)
	}
}
