// Package seed invents history: a store with tenants, endpoints, deliveries and a day
// of figures that look like those of a busy afternoon, with an outage, a recovery, a
// throttled destination, dead letters and alerts in it. Tests of the dashboard and
// its pictures need a past, and nobody wants to wait a day for it.
//
// The store is written by the product's own store code, and the server goes on from
// there: lanes are open, held and draining because their checkpoints say so, and the
// destinations (see Town) behave accordingly.
package seed

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// Node is the name of the node in whose name all is written. The server must have it
// too, to go on with its shards.
const Node = "bw-1"

// Places names what was written, for tests that look at it. Values are shown ids.
type Places struct {
	Tenants    map[string]string // by uid
	Endpoints  map[string]string // by uid
	Deliveries map[string]string // by what became of them: delivered, retried, dead, held, retrying
	Events     map[string]string // of the same deliveries
	Replays    map[string]string // done, running
	Alerts     map[string]string // firing
	Keys       map[string]string // the texts of keys: ops, viewer, acme, globex, publish
}

// writer writes into a store that nobody else has.
type writer struct {
	db     store.DB
	vault  *vault.Vault
	now    time.Time // of the end of the story
	rng    *rand.Rand
	seq    int
	node   hook.Node
	epochs [hook.Shards]int64
	policy hook.PolicyHash
	places Places

	replayed hook.ReplayJob // yesterday
}

const leaseTTL = time.Minute

// slot is the first of those whose ids the story uses, above all that nodes get.
const slot = 1000

// newWriter joins as the one node and takes all shards.
func newWriter(ctx context.Context, db store.DB, encryptionKey string, now time.Time) (*writer, error) {
	key, err := vault.ParseKey(encryptionKey)
	if err != nil {
		return nil, err
	}
	v, err := vault.Open([]vault.Key{key})
	if err != nil {
		return nil, err
	}
	w := &writer{
		db: db, vault: v, now: now.UTC().Truncate(time.Microsecond), rng: rand.New(rand.NewPCG(1, 2)),
		places: Places{
			Tenants: map[string]string{}, Endpoints: map[string]string{}, Deliveries: map[string]string{},
			Events: map[string]string{}, Replays: map[string]string{}, Alerts: map[string]string{}, Keys: map[string]string{},
		},
	}
	for day := range 3 {
		if err := db.Prepare(ctx, now.AddDate(0, 0, -day)); err != nil {
			return nil, fmt.Errorf("prepare: %w", err)
		}
	}
	if w.node, err = db.Join(ctx, hook.Node{Name: Node, Addr: "127.0.0.1:8080", Version: "dev", StartedAt: w.ago(26 * time.Hour)}, w.id(w.ago(26*time.Hour)), leaseTTL); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	shards := make([]int, hook.Shards)
	for i := range shards {
		shards[i] = i
	}
	held, err := db.TakeShards(ctx, w.node.ID, shards, true, leaseTTL)
	if err != nil {
		return nil, fmt.Errorf("take shards: %w", err)
	}
	for _, h := range held {
		w.epochs[h.Shard] = h.Epoch
	}
	resolved, err := policy.Resolve(nil)
	if err != nil {
		return nil, err
	}
	w.policy = resolved.Hash
	return w, db.SavePolicy(ctx, resolved.Hash, resolved.JSON, w.now)
}

// leave gives everything back.
func (w *writer) leave(ctx context.Context) error {
	var held []store.Held
	for shard, epoch := range &w.epochs {
		held = append(held, store.Held{Shard: shard, Epoch: epoch})
	}
	if err := w.db.ReleaseShards(ctx, w.node.ID, held); err != nil {
		return err
	}
	return w.db.Leave(ctx, w.node)
}

func (w *writer) ago(d time.Duration) time.Time { return w.now.Add(-d) }

// id draws an id of a moment. Moments may come in any order.
func (w *writer) id(at time.Time) hook.ID {
	w.seq++
	return hook.IDFloor(at) | hook.ID((slot+w.seq>>12%20)<<12|w.seq&(1<<12-1))
}

func (w *writer) audit(tenant hook.ID, at time.Time, actor, action, subject string, diff map[string]any) hook.Audit {
	text, err := json.Marshal(diff)
	if err != nil || diff == nil {
		text = []byte("{}")
	}
	return hook.Audit{
		ID: w.id(at), TenantID: tenant, Actor: actor, Action: action, Subject: subject, Diff: text,
		RequestID: fmt.Sprintf("req_%08x", w.rng.Uint32()), RemoteIP: "192.0.2.17", At: at,
	}
}
