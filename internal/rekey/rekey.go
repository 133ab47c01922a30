// Package rekey changes the key that seals secrets: it reads everything that is
// sealed, opens it with the keys there are and seals it with the new one.
//
// The store remembers which keys are needed, before the first value is touched and
// after the last one. So it can be stopped at any moment, by a kill or a power cut:
// no server starts without a key that it needs, and the next run goes on. It makes
// no keys, keeps none, and knows nothing of what is sealed.
package rekey

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Store is what is asked of a store.
type Store interface {
	store.Seals
	Nodes(ctx context.Context) ([]store.NodeRow, error)
	Shared() bool
}

// Config is what Run needs.
type Config struct {
	Store   Store
	Setting string      // where the store remembers the keys
	New     vault.Key   // to seal with
	Old     []vault.Key // those the server has; New may be among them
	Batch   int         // values that are stored at once; 0: 200
	Now     func() time.Time
	NextID  func(now time.Time) hook.ID // for audit records
	// Begin is called once, when all is checked and before anything is changed; nil:
	// nothing is to be done then.
	Begin func() error
	// Sealed is told how many values were looked at, now and then; nil: nobody is.
	Sealed func(values int)
}

// Result is what was done.
type Result struct {
	Key      string // the id of the new key
	Values   int    // all that are sealed
	Resealed int64  // of them, now
	Problems []string
	// Lagging are nodes that seal with another key than the new one.
	Lagging []string
}

// Complete reports whether the old keys can go.
func (r *Result) Complete() bool { return len(r.Problems)+len(r.Lagging) == 0 }

// defaultBatch is how many values are read and stored at once.
const defaultBatch = 200

// maxProblems bounds what is told: with a wrong key nothing opens.
const maxProblems = 20

// purposes are what values are sealed for.
var purposes = map[store.SealedKind]string{
	store.SealedSecret:  vault.PurposeSecret,
	store.SealedHeaders: vault.PurposeHeaders,
	store.SealedChannel: vault.PurposeChannel,
	store.SealedAnswer:  vault.PurposeAnswer,
}

type run struct {
	Config
	vault *vault.Vault
	out   Result
}

// Run changes the key. Its error means that nothing was changed, or that it stopped
// on the way: run again.
func Run(ctx context.Context, cfg Config) (Result, error) {
	keys := []vault.Key{cfg.New}
	for _, k := range cfg.Old {
		if k.ID() != cfg.New.ID() {
			keys = append(keys, k)
		}
	}
	v, err := vault.Open(keys)
	if err != nil {
		return Result{}, err
	}
	r := &run{Config: cfg, vault: v, out: Result{Key: cfg.New.ID()}}
	recorded, err := r.checkKeys(ctx, keys)
	if err != nil {
		return Result{}, err
	}
	if err := r.checkNodes(ctx, false); err != nil {
		return Result{}, err
	}
	if cfg.Begin != nil {
		if err := cfg.Begin(); err != nil {
			return Result{}, err
		}
	}
	needed := vault.IDs(keys)
	if err := r.record(ctx, recorded, needed, "encryption.rekey_start"); err != nil {
		return Result{}, err
	}
	if err := r.sealAll(ctx); err != nil {
		return r.out, err
	}
	if err := r.checkNodes(ctx, true); err != nil {
		return r.out, err
	}
	if !r.out.Complete() {
		return r.out, nil
	}
	return r.out, r.record(ctx, needed, r.out.Key, "encryption.rekey")
}

// checkKeys makes sure that every key is there that something is sealed with, before
// anything is changed.
func (r *run) checkKeys(ctx context.Context, keys []vault.Key) (recorded string, err error) {
	recorded, err = r.Store.Setting(ctx, r.Setting)
	if err != nil {
		return "", err
	}
	known := map[string]bool{"": true}
	for _, k := range keys {
		known[k.ID()] = true
	}
	for id := range strings.SplitSeq(recorded, ",") {
		if !known[id] {
			return "", fmt.Errorf("encryption_key: the store is sealed with key %s, which was not given (given are %s): give the key that the server runs with", id, vault.IDs(keys))
		}
	}
	unknown := map[string]int{}
	err = each(ctx, r.Store, r.Batch, func(values []store.SealedValue) error {
		for _, v := range values {
			if id, err := vault.KeyID(v.Sealed); err == nil && !known[id] {
				unknown[id]++
			}
		}
		return nil
	})
	if err != nil || len(unknown) == 0 {
		return recorded, err
	}
	var parts []string
	for id, n := range unknown {
		parts = append(parts, fmt.Sprintf("%d by key %s", n, id))
	}
	slices.Sort(parts)
	return "", fmt.Errorf("encryption_key: values are sealed by keys that were not given: %s (given are %s): add those keys to encryption_key", strings.Join(parts, ", "), vault.IDs(keys))
}

// checkNodes looks at the nodes that run meanwhile. One that has no new key could not
// open what is sealed with it; one that seals with an old one would go on doing so.
func (r *run) checkNodes(ctx context.Context, sealing bool) error {
	if !r.Store.Shared() {
		return nil
	}
	nodes, err := r.Store.Nodes(ctx)
	if err != nil {
		return err
	}
	var without []string
	r.out.Lagging = nil
	for _, n := range nodes {
		if n.Left <= 0 {
			continue
		}
		noted, err := r.Store.KeysOf(ctx, n.ID)
		if err != nil {
			return err
		}
		ids := strings.Split(noted, ",")
		if !slices.Contains(ids, r.out.Key) {
			without = append(without, n.Name)
		}
		if sealing && ids[0] != r.out.Key {
			r.out.Lagging = append(r.out.Lagging, n.Name)
		}
	}
	if len(without) > 0 {
		return fmt.Errorf("running nodes have no key %s: %s: restart them with encryption_key OLD,NEW first", r.out.Key, strings.Join(without, ", "))
	}
	return nil
}

// record stores which keys are needed from now on.
func (r *run) record(ctx context.Context, old, ids, action string) error {
	if old == ids {
		return nil
	}
	now := r.Now()
	err := r.Store.ReplaceSetting(ctx, r.Setting, old, ids, hook.Audit{
		ID: r.NextID(now), Actor: "command line", Action: action, Subject: ids, At: now,
	})
	if errors.Is(err, hook.ErrVersionMismatch) {
		return errors.New("the keys of this store were changed meanwhile by somebody else: run again")
	}
	return err
}

// sealAll goes over everything until a pass finds nothing to do: a change of an
// endpoint that was under way may have put a value back that was sealed anew.
func (r *run) sealAll(ctx context.Context) error {
	for {
		r.out.Values, r.out.Problems = 0, nil
		before := r.out.Resealed
		err := each(ctx, r.Store, r.Batch, func(values []store.SealedValue) error { return r.seal(ctx, values) })
		if err != nil || r.out.Resealed == before {
			return err
		}
	}
}

func (r *run) seal(ctx context.Context, values []store.SealedValue) error {
	var changes []store.Resealed
	for _, v := range values {
		r.out.Values++
		keyID, anew, err := r.vault.Reseal(v.Tenant, v.Owner, purposes[v.Kind], v.Sealed)
		switch {
		case err != nil:
			if len(r.out.Problems) < maxProblems {
				r.out.Problems = append(r.out.Problems, fmt.Sprintf("%s: %v", Name(v), err))
			}
		case !bytes.Equal(anew, v.Sealed):
			changes = append(changes, store.Resealed{SealedValue: v, KeyID: keyID, Anew: anew})
		}
	}
	if len(changes) > 0 {
		n, err := r.Store.Reseal(ctx, values[0].Kind, changes)
		if err != nil {
			return err
		}
		r.out.Resealed += n
	}
	if r.Sealed != nil {
		r.Sealed(r.out.Values)
	}
	return nil
}

// Each hands all sealed values of a store to fn, those of one kind at a time.
func Each(ctx context.Context, s store.Seals, fn func([]store.SealedValue) error) error {
	return each(ctx, s, 0, fn)
}

func each(ctx context.Context, s store.Seals, batch int, fn func([]store.SealedValue) error) error {
	for _, kind := range store.SealedKinds() {
		for after := hook.ID(0); ; {
			values, err := s.SealedAfter(ctx, kind, after, cmp.Or(batch, defaultBatch))
			if err != nil {
				return err
			}
			if len(values) == 0 {
				break
			}
			if err := fn(values); err != nil {
				return err
			}
			after = values[len(values)-1].ID
		}
	}
	return nil
}

// Opens says why a value does not open.
func Opens(v *vault.Vault, s store.SealedValue) error {
	if _, err := v.Open(s.Tenant, s.Owner, purposes[s.Kind], s.Sealed); err != nil {
		return fmt.Errorf("%s: %w", Name(s), err)
	}
	return nil
}

// Name names a value for a person.
func Name(v store.SealedValue) string {
	switch v.Kind {
	case store.SealedSecret:
		return "secret of " + hook.EndpointPrefix.Format(v.Owner)
	case store.SealedHeaders:
		return "headers of " + hook.EndpointPrefix.Format(v.Owner)
	case store.SealedChannel:
		return "channel " + hook.ChannelPrefix.Format(v.Owner)
	default:
		return "an answer kept for an idempotency key"
	}
}
