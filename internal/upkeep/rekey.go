package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/rekey"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Rekeyed is what a change of keys did.
type Rekeyed struct {
	rekey.Result

	KeyFile  string   // holds the new key now; empty: the keys are in the settings
	OldFiles []string // hold the keys that it held before, for old backups
}

// Rekey seals everything with the key of a file. sealed is told how many values were
// looked at.
func Rekey(ctx context.Context, o app.Options, newKeyFile string, sealed func(int)) (out Rekeyed, err error) {
	fresh, err := vault.Load(newKeyFile)
	if err != nil {
		return out, err
	}
	if len(fresh) != 1 {
		return out, fmt.Errorf("key file %s: must hold one key", newKeyFile)
	}
	keys, err := o.LoadKeys(vault.Load)
	if errors.Is(err, fs.ErrNotExist) {
		return out, fmt.Errorf("%w: give the key that the server runs with, as encryption_key, or name its folder with --data-dir", err)
	}
	if err != nil {
		return out, err
	}
	db, err := open(ctx, &o)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f := keyFile{path: o.SecretKeyFile(), fresh: fresh[0], keys: keys, out: &out}
	if o.DatabaseURL != "" || len(o.EncryptionKeys) > 0 {
		f.path = "" // kept elsewhere, and changed there
	}
	out.Result, err = rekey.Run(ctx, rekey.Config{
		Store: db, Setting: app.KeySetting, New: fresh[0], Old: keys, NextID: nextID, Begin: f.begin, Sealed: sealed,
		Now: func() time.Time { return time.Now().Truncate(time.Microsecond) },
	})
	if err == nil && out.Complete() {
		err = f.end()
	}
	return out, err
}

// keyFile is the file of a server that keeps its keys itself. While values are sealed
// anew it holds all keys, so that the server can start whenever that is cut short.
type keyFile struct {
	path  string
	fresh vault.Key
	keys  []vault.Key
	out   *Rekeyed
}

func (f *keyFile) begin() error {
	if f.path == "" {
		return nil
	}
	all := []vault.Key{f.fresh}
	for _, k := range f.keys {
		if k.ID() == f.fresh.ID() {
			continue
		}
		old := f.path + ".old-" + k.ID()
		if err := vault.Replace(old, []vault.Key{k}); err != nil {
			return err
		}
		f.out.OldFiles = append(f.out.OldFiles, old)
		all = append(all, k)
	}
	if vault.IDs(all) == vault.IDs(f.keys) {
		return nil
	}
	return vault.Replace(f.path, all)
}

func (f *keyFile) end() error {
	if f.path == "" {
		return nil
	}
	f.out.KeyFile = f.path
	if len(f.keys) == 1 && f.keys[0].ID() == f.fresh.ID() {
		return nil
	}
	return vault.Replace(f.path, []vault.Key{f.fresh})
}
