package app

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/dirlock"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Files of the data dir.
const (
	databaseFile = "breakwater.db"
	secretFile   = "secret.key"
	adminFile    = "admin.key"
	nodeFile     = "node.name"
)

// prepareDataDir makes the data dir and locks it against a second process. The
// embedded store does the locking by itself.
func (a *App) prepareDataDir() (unlock func(), err error) {
	if err := os.MkdirAll(a.opts.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make data dir: %w", err)
	}
	if a.opts.DatabaseURL == "" {
		return func() {}, nil
	}
	lock, err := dirlock.Acquire(a.opts.DataDir)
	if err != nil {
		return nil, fmt.Errorf("lock data dir: %w", err)
	}
	return func() { _ = lock.Release() }, nil
}

func (a *App) openStore(ctx context.Context) error {
	var db store.DB
	// A server that is not there may be a wrong address: nobody waits for that one.
	err := a.tryAgain(ctx, "open the store", func(ctx context.Context) (err error) {
		db, err = a.openDB(ctx)
		return err
	}, postgres.Slow)
	if err != nil {
		return err
	}
	a.db, a.outage.ping = db, db.Ping
	return nil
}

func (a *App) openDB(ctx context.Context) (store.DB, error) {
	o, skipMigrate := &a.opts, !a.opts.Migrate
	figures := store.FigureOptions{Uncounted: !o.Stats, Damaged: a.storeWatch.figuresDamaged}
	if o.DatabaseURL != "" {
		db, err := postgres.Open(ctx, o.DatabaseURL, postgres.Options{
			MaxConns: o.StoreMaxConns, SkipMigrate: skipMigrate, Log: o.Log, Figures: figures,
		})
		if err != nil {
			return nil, fmt.Errorf("open postgres store: %w", err)
		}
		return db, nil
	}
	db, err := sqlite.Open(ctx, filepath.Join(o.DataDir, databaseFile), sqlite.Options{
		SkipMigrate: skipMigrate, Trouble: a.storeWatch.trouble, Figures: figures,
	})
	if err != nil {
		return nil, fmt.Errorf("open embedded store: %w", err)
	}
	return db, nil
}

// storeName names the store without its password.
func (a *App) storeName() string {
	if a.opts.DatabaseURL == "" {
		return "sqlite " + filepath.Join(a.opts.DataDir, databaseFile)
	}
	u, err := url.Parse(a.opts.DatabaseURL)
	if err != nil {
		return "postgres"
	}
	return "postgres " + u.Host + u.Path
}

// join registers this node and prepares its ids.
func (a *App) join(ctx context.Context) error {
	name, err := a.nodeName()
	if err != nil {
		return err
	}
	now := time.Now().Truncate(time.Microsecond)
	var maxID hook.ID
	err = a.patiently(ctx, "read the greatest id", func(ctx context.Context) (err error) {
		maxID, err = a.db.MaxID(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read greatest id: %w", err)
	}
	// The slot of a new node is not known before it has joined; its id is drawn
	// at random within this millisecond instead.
	newID := hook.IDFloor(now) + hook.ID(randomBits()&(1<<22-1))
	err = a.patiently(ctx, "join", func(ctx context.Context) (err error) {
		a.node, err = a.db.Join(ctx, hook.Node{
			Name: name, Addr: a.opts.Listen, Version: a.opts.Version, StartedAt: now,
		}, newID, a.opts.LeaseTTL)
		return err
	})
	if err != nil {
		return fmt.Errorf("join as node %s: %w", name, err)
	}
	a.ids, err = hook.NewIDSource(a.node.Slot, maxID)
	return err
}

func randomBits() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint32(b[:])
}

// nodeName is given, or made once and kept: a restart under the same name takes
// its shards back at once.
func (a *App) nodeName() (string, error) {
	if a.opts.NodeName != "" {
		return a.opts.NodeName, nil
	}
	path := filepath.Join(a.opts.DataDir, nodeFile)
	if kept, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(kept))) > 0 {
		return strings.TrimSpace(string(kept)), nil
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "node"
	}
	name := fmt.Sprintf("%.48s-%08x", host, randomBits())
	if err := os.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep node name: %w", err)
	}
	return name, nil
}

// KeySetting is where the store remembers the keys that are needed to open what is
// sealed: one, or while keys are changed the new one and the old ones.
const KeySetting = "encryption_key_id"

// openVault loads the encryption keys. Nodes of one database must share them,
// or one could not read what another has sealed: the first node's key is
// remembered, and a node without it refuses to start.
func (a *App) openVault(ctx context.Context) error {
	_, statErr := os.Stat(a.opts.SecretKeyFile())
	made := errors.Is(statErr, os.ErrNotExist) && len(a.opts.EncryptionKeys) == 0
	keys, err := a.opts.LoadKeys(vault.LoadOrCreate)
	if err != nil {
		return err
	}
	if a.vault, err = vault.Open(keys); err != nil {
		return err
	}
	a.keyIDs = vault.IDs(keys)
	var want string
	err = a.patiently(ctx, "compare encryption keys", func(ctx context.Context) (err error) {
		want, err = a.db.ClaimSetting(ctx, KeySetting, keys[0].ID())
		return err
	})
	if err != nil {
		return fmt.Errorf("compare encryption keys: %w", err)
	}
	if err = MissingKeys(keys, want); err != nil && made {
		_ = os.Remove(a.opts.SecretKeyFile()) // it seals nothing
	}
	return err
}

// MissingKeys says what to do when a node lacks keys that the store needs.
func MissingKeys(have []vault.Key, needed string) error {
	known := map[string]bool{}
	for _, k := range have {
		known[k.ID()] = true
	}
	ids := strings.Split(needed, ",")
	for _, id := range ids {
		switch {
		case known[id]:
		case len(ids) > 1:
			return fmt.Errorf("encryption_key: keys are being changed, and values are sealed with keys %s; this node lacks %s (it has %s): give it all of them, the new one first, or finish with breakwater rekey", needed, id, vault.IDs(have))
		default:
			return fmt.Errorf("encryption_key: this database is sealed with key %s, which this node does not have (it has %s): give the first node's key as BREAKWATER_ENCRYPTION_KEY, or copy its %s", id, have[0].ID(), secretFile)
		}
	}
	return nil
}

// SecretKeyFile is where the keys are that were not given.
func (o *Options) SecretKeyFile() string { return filepath.Join(o.DataDir, secretFile) }

// LoadKeys returns the encryption keys: those that were given, else those of the key
// file as load reads it.
func (o *Options) LoadKeys(load func(path string) ([]vault.Key, error)) ([]vault.Key, error) {
	if len(o.EncryptionKeys) > 0 {
		keys, err := vault.ParseKeys(o.EncryptionKeys)
		if err != nil {
			return nil, fmt.Errorf("encryption_key: %w", err)
		}
		return keys, nil
	}
	keys, err := load(o.SecretKeyFile())
	if err != nil {
		return nil, fmt.Errorf("load encryption key: %w", err)
	}
	return keys, nil
}

// noteKeys tells whoever changes keys which ones this node has. Alone on its store
// it does not run then.
func (a *App) noteKeys(ctx context.Context) error {
	if !a.db.Shared() {
		return nil
	}
	return a.patiently(ctx, "note encryption keys", func(ctx context.Context) error {
		return a.db.NoteKeys(ctx, a.node.ID, a.keyIDs)
	})
}

// bootstrap makes the default tenant and the first admin key. It returns the
// key when it was made here and must be shown.
func (a *App) bootstrap(ctx context.Context) (string, error) {
	now := time.Now().Truncate(time.Microsecond)
	err := a.patiently(ctx, "make the default tenant", func(ctx context.Context) error { return a.defaultTenant(ctx, now) })
	if err != nil {
		return "", err
	}
	var n int
	err = a.patiently(ctx, "count admin keys", func(ctx context.Context) (err error) {
		n, err = a.db.CountAdminKeys(ctx, now)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("count admin keys: %w", err)
	}
	if n > 0 {
		a.warnOfUnusedKey(ctx, now)
		return "", nil
	}
	if a.opts.AdminKey != "" {
		prefix, hash, err := rest.HashKey(a.opts.AdminKey)
		if err != nil {
			return "", fmt.Errorf("admin_key: %w", err)
		}
		return "", a.storeAdminKey(ctx, prefix, hash, now)
	}
	text, prefix, hash := rest.NewKey(rand.Reader)
	if err := writePrivate(a.adminKeyFile(), text+"\n"); err != nil {
		return "", fmt.Errorf("keep admin key: %w", err)
	}
	return text, a.storeAdminKey(ctx, prefix, hash, now)
}

// warnOfUnusedKey tells whoever configured an admin key that it lets nobody in: it is
// stored at the first start only, when there is no other.
func (a *App) warnOfUnusedKey(ctx context.Context, now time.Time) {
	if a.opts.AdminKey == "" {
		return
	}
	prefix, hash, err := rest.HashKey(a.opts.AdminKey)
	if err == nil {
		var known hook.APIKey
		if known, err = a.db.KeyByHash(ctx, hash); err == nil && known.Valid(now) {
			return
		}
	}
	if err == nil || errors.Is(err, hook.ErrNotFound) {
		a.log.Warn("the configured admin key is ignored: there are others already, and only the first start takes one from the settings; breakwater keys create makes more",
			"key", prefix)
	}
}

func (a *App) adminKeyFile() string { return filepath.Join(a.opts.DataDir, adminFile) }

func (a *App) storeAdminKey(ctx context.Context, prefix string, hash [32]byte, now time.Time) error {
	key := hook.APIKey{ID: a.ids.Next(now), Name: "first admin key", Prefix: prefix, Hash: hash, Scope: hook.ScopeAdmin, CreatedAt: now}
	record := a.audit("key.create", hook.KeyPrefix.Format(key.ID), now)
	err := a.patiently(ctx, "store the admin key", func(ctx context.Context) error { return a.db.CreateKey(ctx, key, record) })
	if err != nil {
		if _, known := a.db.KeyByHash(ctx, hash); known == nil {
			return nil // another node starting now has stored the same key
		}
		return fmt.Errorf("store admin key: %w", err)
	}
	return nil
}

func (a *App) defaultTenant(ctx context.Context, now time.Time) error {
	_, err := a.db.TenantByUID(ctx, hook.DefaultTenantUID)
	if !errors.Is(err, hook.ErrNotFound) {
		return err
	}
	t := hook.Tenant{
		ID: a.ids.Next(now), UID: hook.DefaultTenantUID, Name: "Default", Policy: []byte("{}"),
		Rev: 1, ConfigRev: 1, CreatedAt: now, UpdatedAt: now,
	}
	err = a.db.CreateTenant(ctx, t, a.audit("tenant.create", hook.TenantPrefix.Format(t.ID), now))
	if err != nil && !errors.Is(err, hook.ErrUIDTaken) {
		return fmt.Errorf("create default tenant: %w", err)
	}
	return nil
}

func (a *App) audit(action, subject string, now time.Time) hook.Audit {
	return hook.Audit{ID: a.ids.Next(now), Actor: "server", Action: action, Subject: subject, At: now}
}

func writePrivate(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err := f.Chmod(0o600); err != nil { // the file may have been there
		return errors.Join(err, f.Close())
	}
	if _, err := f.WriteString(text); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

// diskFree measures the file system of the embedded store; nil when the store
// is elsewhere.
func (a *App) diskFree() func() (int64, error) {
	if a.opts.DatabaseURL != "" {
		return nil
	}
	return func() (int64, error) { return DiskFree(a.opts.DataDir) }
}

// servePprof serves profiles on its own loopback address when asked to.
func (a *App) servePprof(ctx context.Context) error {
	if a.opts.PprofListen == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return serveUntil(ctx, server, a.ports.pprof.Listener, "pprof")
}

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener, what string) error {
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", what, err)
	}
	return nil
}
