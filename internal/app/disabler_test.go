package app_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/dispatch"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/store/sqlite"
)

// house is a store with one endpoint, its disabler, and what the disabler told.
type house struct {
	*recordingStore
	t        *testing.T
	ids      *hook.IDSource
	endpoint hook.Endpoint
	disabler dispatch.EndpointDisabler
	told     []string
}

// recordingStore keeps the audit records, and may lose the answer of a write.
type recordingStore struct {
	store.DB
	audits     []hook.Audit
	loseAnswer bool
}

var errLost = errors.New("connection lost")

func (s *recordingStore) UpdateEndpoint(ctx context.Context, e hook.Endpoint, a hook.Audit) (hook.Endpoint, error) {
	s.audits = append(s.audits, a)
	e, err := s.DB.UpdateEndpoint(ctx, e, a)
	if s.loseAnswer {
		s.loseAnswer = false
		return e, errLost
	}
	return e, err
}

func newHouse(t *testing.T) *house {
	t.Helper()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "breakwater.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	h := &house{t: t, recordingStore: &recordingStore{DB: db}}
	if h.ids, err = hook.NewIDSource(0, 0); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	tenant := hook.Tenant{ID: h.ids.Next(now), Name: "t", Policy: []byte("{}"), Rev: 1, ConfigRev: 1, CreatedAt: now, UpdatedAt: now}
	e := hook.Endpoint{
		ID: h.ids.Next(now), TenantID: tenant.ID, URL: "https://example.test", Types: []string{"*"}, Policy: []byte("{}"),
		Rev: 1, CreatedAt: now, UpdatedAt: now,
	}
	audit := hook.Audit{ID: h.ids.Next(now), Actor: "test", Action: "test", Subject: "test", At: now}
	if err := db.CreateTenant(t.Context(), tenant, audit); err != nil {
		t.Fatal(err)
	}
	audit.ID = h.ids.Next(now)
	if err := db.CreateEndpoint(t.Context(), e, nil, 0, audit); err != nil {
		t.Fatal(err)
	}
	h.endpoint = e
	h.disabler = app.NewDisabler(h, h.ids, h, func(_, endpoint hook.ID, event hook.OperationalType, detail any) {
		if endpoint == e.ID {
			h.told = append(h.told, string(event))
		}
		if event == hook.EndpointDisabled {
			h.told = append(h.told, detail.(map[string]any)["reason"].(string))
		}
	})
	return h
}

// EndpointChanged implements app.Notifier.
func (h *house) EndpointChanged(_, endpoint hook.ID) {
	if endpoint == h.endpoint.ID {
		h.told = append(h.told, "changed")
	}
}

func (h *house) disable(rev int64) (int64, error) {
	return h.disabler.Disable(h.t.Context(), dispatch.Disabling{
		Tenant: h.endpoint.TenantID, Endpoint: h.endpoint.ID, Rev: rev, Reason: dispatch.DisabledGone,
	})
}

func (h *house) stored() hook.Endpoint {
	h.t.Helper()
	e, err := h.EndpointByID(h.t.Context(), h.endpoint.TenantID, h.endpoint.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

func TestDisablerTurnsOffAndTells(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	rev, err := h.disable(1)
	if err != nil || rev != 2 {
		t.Fatalf("Disable = %d, %v; want the new Rev 2", rev, err)
	}
	e := h.stored()
	if e.State != hook.Disabled || e.StateReason != "gone" || e.Rev != 2 || !e.UpdatedAt.After(h.endpoint.UpdatedAt) {
		t.Errorf("endpoint is %v (%q), Rev %d, updated at %v", e.State, e.StateReason, e.Rev, e.UpdatedAt)
	}
	if diff := cmp.Diff([]string{"changed", "endpoint.disabled", "gone"}, h.told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	a := h.audits[0]
	want := hook.Audit{
		ID: a.ID, At: e.UpdatedAt, TenantID: e.TenantID, Actor: "dispatch", Action: "endpoint.disable",
		Subject: hook.EndpointPrefix.Format(e.ID),
		Diff:    []byte(`{"status":{"from":"active","to":"disabled"},"status_reason":"gone"}`),
	}
	if diff := cmp.Diff(want, a); diff != "" || len(h.audits) != 1 {
		t.Errorf("%d audit records (-want +got):\n%s", len(h.audits), diff)
	}
}

// TestDisablerLeavesWhatAPersonChanged: also when that was a resume after the
// disabler itself had disabled the endpoint.
func TestDisablerLeavesWhatAPersonChanged(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	if _, err := h.disable(1); err != nil {
		t.Fatal(err)
	}
	e := h.stored()
	e.State, e.StateReason = hook.Active, ""
	if _, err := h.DB.UpdateEndpoint(t.Context(), e, hook.Audit{ID: h.ids.Next(time.Now()), Actor: "key", Action: "endpoint.resume", Subject: "e", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	h.told = nil
	if _, err := h.disable(1); !errors.Is(err, hook.ErrVersionMismatch) {
		t.Errorf("Disable = %v, want %v", err, hook.ErrVersionMismatch)
	}
	if e := h.stored(); e.State != hook.Active || len(h.told) != 0 {
		t.Errorf("endpoint is %v, told %v; want active, nothing", e.State, h.told)
	}
}

// TestDisablerRepeatsALostAnswer: asked again after a write whose answer was
// lost, it tells of it once and writes nothing more.
func TestDisablerRepeatsALostAnswer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.loseAnswer = true
	if _, err := h.disable(1); !errors.Is(err, errLost) || len(h.told) != 0 {
		t.Fatalf("Disable = %v, told %v; want %v, nothing", err, h.told, errLost)
	}
	if rev, err := h.disable(1); err != nil || rev != 2 {
		t.Errorf("Disable = %d, %v; want 2, as after the first write", rev, err)
	}
	if diff := cmp.Diff([]string{"changed", "endpoint.disabled", "gone"}, h.told); diff != "" || len(h.audits) != 1 {
		t.Errorf("%d writes, told (-want +got):\n%s", len(h.audits), diff)
	}
}
