package upkeep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/rekey"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/dirlock"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Report is what a look at a store found. Fields that could not be found out are zero.
type Report struct {
	Missing bool   // there is no store yet
	InUse   string // by whom, if a server uses the embedded store; then nothing else is known
	Err     error  // why it cannot be opened

	Version  int // of the schema
	Pending  int // migrations
	Opened   bool
	OpenedIn time.Duration

	Shared  bool
	Clock   *time.Duration // how far this machine's clock is ahead of the database's
	Nodes   []Node
	Unowned int // shards

	Keys Keys
}

// Node is a process that works on the store.
type Node struct {
	Name string
	Live bool
	Keys string // ids of its encryption keys
}

// Keys are what the store is sealed with.
type Keys struct {
	Err    error  // why there are none
	IDs    string // of those that the settings give
	Needed string // ids of those that the store asks for; empty: none yet
	Values int
	Closed []string // values that do not open, and why, up to ten
	Others int      // how many more there are
}

// Look looks at the store of a server. It changes nothing, and does not touch an
// embedded store that a server uses.
func Look(ctx context.Context, o app.Options) Report {
	r := Report{Shared: o.DatabaseURL != ""}
	if !r.Shared {
		if _, err := os.Stat(database(&o)); errors.Is(err, os.ErrNotExist) {
			r.Missing = true
			return r
		}
		lock, err := dirlock.Acquire(o.DataDir)
		if errors.Is(err, dirlock.ErrLocked) {
			r.InUse = err.Error()
			return r
		}
		if err != nil {
			r.Err = err
			return r
		}
		if r.Err = lock.Release(); r.Err != nil {
			return r
		}
	}
	began := time.Now()
	migrations, err := app.MigrationStatus(ctx, o)
	if err != nil {
		r.Err = err
		return r
	}
	for _, m := range migrations {
		if m.AppliedAt.IsZero() {
			r.Pending++
		} else {
			r.Version = m.Version
		}
	}
	if r.Pending > 0 {
		return r
	}
	db, err := open(ctx, &o)
	if err != nil {
		r.Err = err
		return r
	}
	r.Opened, r.OpenedIn = true, time.Since(began)
	r.Err = errors.Join(r.look(ctx, db, &o), db.Close())
	return r
}

func (r *Report) look(ctx context.Context, db store.DB, o *app.Options) error {
	if clock, ok := db.(store.Clock); ok {
		offset, err := clock.ClockOffset(ctx)
		if err != nil {
			return fmt.Errorf("compare clocks: %w", err)
		}
		r.Clock = &offset
	}
	if r.Shared {
		if err := r.lookAtNodes(ctx, db, o.LeaseTTL); err != nil {
			return err
		}
	}
	return r.lookAtKeys(ctx, db, o)
}

func (r *Report) lookAtNodes(ctx context.Context, db store.DB, ttl time.Duration) error {
	nodes, err := db.Nodes(ctx)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		keys, err := db.KeysOf(ctx, n.ID)
		if err != nil {
			return err
		}
		r.Nodes = append(r.Nodes, Node{Name: n.Name, Live: n.Left > 0, Keys: keys})
	}
	shards, err := db.Shards(ctx, ttl)
	if err != nil {
		return err
	}
	for _, s := range shards {
		if s.Free {
			r.Unowned++
		}
	}
	return nil
}

// maxClosed bounds how many values are named.
const maxClosed = 10

func (r *Report) lookAtKeys(ctx context.Context, db store.DB, o *app.Options) error {
	k := &r.Keys
	needed, err := db.Setting(ctx, app.KeySetting)
	if err != nil {
		return err
	}
	k.Needed = needed
	keys, err := o.LoadKeys(vault.Load)
	if err != nil {
		k.Err = err
		return nil //nolint:nilerr // it is what the report says
	}
	k.IDs = vault.IDs(keys)
	v, err := vault.Open(keys)
	if err != nil {
		k.Err = err
		return nil //nolint:nilerr // it is what the report says
	}
	if needed != "" {
		k.Err = app.MissingKeys(keys, needed)
	}
	return rekey.Each(ctx, db, func(values []store.SealedValue) error {
		for _, s := range values {
			k.Values++
			err := rekey.Opens(v, s)
			switch {
			case err == nil:
			case len(k.Closed) < maxClosed:
				k.Closed = append(k.Closed, err.Error())
			default:
				k.Others++
			}
		}
		return nil
	})
}
