package rekey_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/lab/pgtest"
	"github.com/breakwaterhq/breakwater/internal/rekey"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/postgres"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

const setting = "encryption_key_id"

// onBothStores runs a test on each kind of store.
func onBothStores(t *testing.T, test func(t *testing.T, db store.DB)) {
	t.Helper()
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), sqlite.FileName), sqlite.Options{})
		run(t, db, err, test)
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		db, err := postgres.Open(t.Context(), pgtest.DSN(t), postgres.Options{MaxConns: 8})
		run(t, db, err, test)
	})
}

func run[D store.DB](t *testing.T, db D, err error, test func(*testing.T, store.DB)) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	test(t, db)
}

func newKey(t *testing.T) vault.Key {
	t.Helper()
	k, err := vault.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func open(t *testing.T, keys ...vault.Key) *vault.Vault {
	t.Helper()
	v, err := vault.Open(keys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var ids, _ = hook.NewIDSource(3, 0)

func nextID(now time.Time) hook.ID { return ids.Next(now) }

func audit(action string) hook.Audit {
	now := time.Now()
	return hook.Audit{ID: nextID(now), Actor: "test", Action: action, Subject: "subject", At: now.Truncate(time.Microsecond)}
}

// fill seals values of every kind for n endpoints and returns how many that are.
func fill(t *testing.T, db store.DB, v *vault.Vault, n int) int {
	t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ten := hook.Tenant{ID: nextID(now), UID: fmt.Sprint("t", nextID(now)), Name: "T", Policy: json.RawMessage(`{}`), Rev: 1, ConfigRev: 1, CreatedAt: now, UpdatedAt: now}
	check(db.CreateTenant(t.Context(), ten, audit("tenant.create")))
	for i := range n {
		e := hook.Endpoint{
			ID: nextID(now), TenantID: ten.ID, URL: "https://example.test/", Types: []string{"*"}, Policy: json.RawMessage(`{}`),
			Signatures: []hook.Signature{{Scheme: hook.SchemeStandard}}, Rev: 1, CreatedAt: now, UpdatedAt: now,
		}
		var err error
		_, e.HeadersSealed, err = v.Seal(ten.ID, e.ID, vault.PurposeHeaders, []byte(`{"A":"b"}`))
		check(err)
		s := hook.Secret{ID: nextID(now), TenantID: ten.ID, EndpointID: e.ID, Scheme: hook.SchemeStandard, CreatedAt: now}
		s.KeyID, s.Sealed, err = v.Seal(ten.ID, e.ID, vault.PurposeSecret, fmt.Append(nil, "secret ", i))
		check(err)
		check(db.CreateEndpoint(t.Context(), e, []hook.Secret{s}, 0, audit("endpoint.create")))
	}
	ch := store.Channel{Channel: hook.Channel{ID: nextID(now), Tenant: ten.ID, Name: "c", Kind: hook.ChannelSlack, URL: "https://chat.example.com/x", Version: 1, CreatedAt: now, UpdatedAt: now}}
	var err error
	ch.Sealed, err = v.SealChannel(&ch.Channel)
	check(err)
	check(db.CreateChannel(t.Context(), ch, 10, audit("alert_channel.create")))
	a := audit("endpoint.create")
	a.Claim = &hook.Claim{TenantID: ten.ID, Route: "POST /x", Key: "k", Token: nextID(now), ExpiresAt: now.Add(time.Hour)}
	check(db.WriteAudit(t.Context(), a))
	_, sealed, err := v.Seal(ten.ID, a.Claim.Token, vault.PurposeAnswer, []byte("{}"))
	check(err)
	check(db.KeepAnswer(t.Context(), *a.Claim, sealed))
	return 2*n + 2
}

// closed counts the values that a vault does not open.
func closed(t *testing.T, db store.DB, v *vault.Vault) (n int) {
	t.Helper()
	err := rekey.Each(t.Context(), db, func(values []store.SealedValue) error {
		for _, s := range values {
			if rekey.Opens(v, s) != nil {
				n++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func recorded(t *testing.T, db store.DB) string {
	t.Helper()
	got, err := db.Setting(t.Context(), setting)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// claim notes the first key, as a server does at its first start.
func claim(t *testing.T, db store.DB, k vault.Key) {
	t.Helper()
	if _, err := db.ClaimSetting(t.Context(), setting, k.ID()); err != nil {
		t.Fatal(err)
	}
}

func config(db rekey.Store, fresh vault.Key, old ...vault.Key) rekey.Config {
	return rekey.Config{
		Store: db, Setting: setting, New: fresh, Old: old, Batch: 3, NextID: nextID,
		Now: func() time.Time { return time.Now().Truncate(time.Microsecond) },
	}
}

var errPlanned = errors.New("planned: the process ends here")

// mortal is a store that ends with one of its writes, before it or after it.
type mortal struct {
	store.DB
	left  int
	after bool
}

func (m *mortal) dying(write func() error) error {
	m.left--
	if m.left > 0 {
		return write()
	}
	if m.after {
		if err := write(); err != nil {
			return err
		}
	}
	return errPlanned
}

func (m *mortal) Reseal(ctx context.Context, kind store.SealedKind, values []store.Resealed) (n int64, err error) {
	err = m.dying(func() (err error) {
		n, err = m.DB.Reseal(ctx, kind, values)
		return err
	})
	return n, err
}

func (m *mortal) ReplaceSetting(ctx context.Context, name, old, value string, a hook.Audit) error {
	return m.dying(func() error { return m.DB.ReplaceSetting(ctx, name, old, value, a) })
}

// TestStoppedAtAnyMomentNothingIsLost cuts a change of keys short at each of its
// writes. Whatever is there then, the keys that the store asks for open all of it, and
// the next run finishes.
func TestStoppedAtAnyMomentNothingIsLost(t *testing.T) {
	onBothStores(t, func(t *testing.T, db store.DB) {
		old := newKey(t)
		values := fill(t, db, open(t, old), 7)
		claim(t, db, old)
		for write := 1; ; write++ {
			for _, after := range []bool{false, true} {
				fresh := newKey(t)
				_, err := rekey.Run(t.Context(), config(&mortal{DB: db, left: write, after: after}, fresh, old))
				finished := err == nil
				if err != nil && !errors.Is(err, errPlanned) {
					t.Fatalf("write %d: %v", write, err)
				}
				keys := map[string]vault.Key{old.ID(): old, fresh.ID(): fresh}
				var needed []vault.Key
				for id := range strings.SplitSeq(recorded(t, db), ",") {
					needed = append(needed, keys[id])
				}
				if n := closed(t, db, open(t, needed...)); n > 0 {
					t.Fatalf("stopped at write %d: %d values do not open with the keys that the store asks for, %s", write, n, recorded(t, db))
				}
				out, err := rekey.Run(t.Context(), config(db, fresh, old, fresh))
				if err != nil || !out.Complete() || out.Values != values {
					t.Fatalf("run again after write %d: %+v, %v, want all %d values", write, out, err, values)
				}
				if n := closed(t, db, open(t, fresh)); n > 0 || recorded(t, db) != fresh.ID() {
					t.Fatalf("after write %d: %d values do not open with the new key alone, and the store asks for %s", write, n, recorded(t, db))
				}
				old = fresh
				if finished {
					return
				}
			}
		}
	})
}

func TestNothingIsChangedWithoutTheOldKey(t *testing.T) {
	onBothStores(t, func(t *testing.T, db store.DB) {
		right, wrong, fresh := newKey(t), newKey(t), newKey(t)
		fill(t, db, open(t, right), 1)
		for _, note := range []func(){func() {}, func() { claim(t, db, right) }} {
			note()
			begun := false
			cfg := config(db, fresh, wrong)
			cfg.Begin = func() error { begun = true; return nil }
			_, err := rekey.Run(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), right.ID()) || !strings.Contains(err.Error(), wrong.ID()) {
				t.Errorf("Run = %v, want an error that names the key that is missing and the one given", err)
			}
			if n := closed(t, db, open(t, right)); n > 0 || begun {
				t.Errorf("%d values were changed, begun %v", n, begun)
			}
		}
	})
}

// A value that was tampered with stays as it is, and the old key stays needed.
func TestOneBadValueDoesNotStopTheOthers(t *testing.T) {
	onBothStores(t, func(t *testing.T, db store.DB) {
		old, fresh := newKey(t), newKey(t)
		values := fill(t, db, open(t, old), 2)
		claim(t, db, old)
		list, err := db.SealedAfter(t.Context(), store.SealedSecret, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte{}, list[0].Sealed...)
		bad[len(bad)-1] ^= 1
		if _, err := db.Reseal(t.Context(), store.SealedSecret, []store.Resealed{{SealedValue: list[0], KeyID: old.ID(), Anew: bad}}); err != nil {
			t.Fatal(err)
		}
		out, err := rekey.Run(t.Context(), config(db, fresh, old))
		if err != nil || out.Complete() || len(out.Problems) != 1 || !strings.Contains(out.Problems[0], hook.EndpointPrefix.Format(list[0].Owner)) {
			t.Fatalf("Run = %+v, %v, want one problem that names the endpoint", out, err)
		}
		if n := closed(t, db, open(t, fresh)); n != 1 || out.Resealed != int64(values-1) {
			t.Errorf("%d values do not open with the new key, %d were sealed, want 1 and %d", n, out.Resealed, values-1)
		}
		if got, want := recorded(t, db), fresh.ID()+","+old.ID(); got != want {
			t.Errorf("the store asks for %s, want %s", got, want)
		}
	})
}

// TestRunningNodesNeedTheNewKey: nodes that could not open what is sealed anew keep
// the change from beginning; those that seal with the old key, from ending.
func TestRunningNodesNeedTheNewKey(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), pgtest.DSN(t), postgres.Options{MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	old, fresh := newKey(t), newKey(t)
	fill(t, db, open(t, old), 1)
	claim(t, db, old)
	now := time.Now()
	node, err := db.Join(t.Context(), hook.Node{Name: "node-a", Addr: "127.0.0.1:1", Version: "v", StartedAt: now}, nextID(now), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	note := func(keys ...vault.Key) {
		t.Helper()
		if err := db.NoteKeys(t.Context(), node.ID, vault.IDs(keys)); err != nil {
			t.Fatal(err)
		}
	}
	note(old)
	if _, err := rekey.Run(t.Context(), config(db, fresh, old)); err == nil || !strings.Contains(err.Error(), "node-a") {
		t.Errorf("Run = %v, want an error that names the node", err)
	}
	if got := recorded(t, db); got != old.ID() {
		t.Errorf("the store asks for %s, want %s", got, old.ID())
	}
	note(old, fresh)
	out, err := rekey.Run(t.Context(), config(db, fresh, old))
	if err != nil || out.Complete() || len(out.Lagging) != 1 || out.Lagging[0] != "node-a" {
		t.Errorf("Run = %+v, %v, want that node-a lags", out, err)
	}
	note(fresh, old)
	if out, err = rekey.Run(t.Context(), config(db, fresh, old)); err != nil || !out.Complete() || out.Resealed != 0 {
		t.Errorf("Run = %+v, %v, want that it is complete", out, err)
	}
	if got := recorded(t, db); got != fresh.ID() {
		t.Errorf("the store asks for %s, want %s", got, fresh.ID())
	}
}
