package vault_test

import (
	"bytes"
	"errors"
	"maps"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

func TestChannelIsSealedForItself(t *testing.T) {
	t.Parallel()
	v := open(t, newKey(t))
	ch := hook.Channel{
		ID: 7, Tenant: 3, URL: "https://hooks.example.com/T0/B0/token", Secret: "whsec_c2VjcmV0", Headers: map[string]string{"X-Token": "t0ken"},
	}
	sealed, err := v.SealChannel(&ch)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{ch.URL, ch.Secret, "t0ken"} {
		if bytes.Contains(sealed, []byte(text)) {
			t.Errorf("%q can be read", text)
		}
	}
	got := hook.Channel{ID: 7, Tenant: 3}
	if err := v.OpenChannel(&got, sealed); err != nil {
		t.Fatal(err)
	}
	if got.URL != ch.URL || got.Secret != ch.Secret || !maps.Equal(got.Headers, ch.Headers) {
		t.Errorf("opened %+v", got)
	}
	for _, other := range []hook.Channel{{ID: 8, Tenant: 3}, {ID: 7, Tenant: 4}, {ID: 7}} {
		if err := v.OpenChannel(&other, sealed); !errors.Is(err, vault.ErrNotAuthentic) || other.URL != "" {
			t.Errorf("opened for channel %d of tenant %d: %v", other.ID, other.Tenant, err)
		}
	}
}
