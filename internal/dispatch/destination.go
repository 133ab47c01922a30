package dispatch

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
	"github.com/breakwaterhq/breakwater/internal/window"
)

// destination is an endpoint ready to be sent to: policy resolved, secrets
// open. It is never changed once made; a change makes a new one.
type destination struct {
	tenant     hook.ID
	url, uid   string
	mode       hook.BodyMode
	traced     bool           // it is told whose trace an event belongs to
	custom     []egress.Field // the endpoint's own headers, the same in every request
	private    []string       // header names that never follow a redirect to another host
	signatures []hook.Signature
	secrets    []activeSecret // newest first
	signer     *sign.Signer
	until      time.Time // when the next secret expires; zero: never
	broken     error     // why nothing can be signed

	policy *policy.Policy
	hash   hook.PolicyHash

	rev           int64 // of the endpoint
	updatedAt     time.Time
	state         hook.EndpointState
	probeWantedAt time.Time
	resetWantedAt time.Time
}

type activeSecret struct {
	secret  sign.Secret
	expires time.Time
}

// newDestination opens what was stored. Secrets that cannot be read make it
// broken, not absent: its deliveries wait with a local error and are not lost.
func newDestination(v *vault.Vault, d *store.Destination, p *policy.Resolved, now time.Time) *destination {
	e := &d.Endpoint
	t := &destination{
		tenant: e.TenantID, url: e.URL, uid: e.UID, mode: e.Body, traced: e.TraceContext == hook.TraceForward, signatures: e.Signatures,
		policy: &p.Policy, hash: p.Hash,
		rev: e.Rev, updatedAt: e.UpdatedAt,
		state: e.State, probeWantedAt: e.ProbeWantedAt, resetWantedAt: e.ResetWantedAt,
	}
	if err := t.open(v, e, d.Secrets); err != nil {
		t.broken = err
		return t
	}
	return t.withSigner(now)
}

func (t *destination) open(v *vault.Vault, e *hook.Endpoint, secrets []hook.Secret) error {
	for _, s := range secrets {
		plain, err := v.Open(e.TenantID, e.ID, vault.PurposeSecret, s.Sealed)
		if err != nil {
			return fmt.Errorf("open secret: %w", err)
		}
		secret, err := sign.ParseSecret(string(plain))
		if err != nil {
			return fmt.Errorf("parse secret: %w", err)
		}
		t.secrets = append(t.secrets, activeSecret{secret: secret, expires: s.ExpiresAt})
	}
	for _, s := range t.signatures {
		if s.Scheme == hook.SchemeStripe {
			t.private = append(t.private, http.CanonicalHeaderKey(s.Header))
		}
	}
	if e.HeadersSealed == nil {
		return nil
	}
	plain, err := v.Open(e.TenantID, e.ID, vault.PurposeHeaders, e.HeadersSealed)
	if err != nil {
		return fmt.Errorf("open headers: %w", err)
	}
	var headers map[string]string
	if err := json.Unmarshal(plain, &headers); err != nil {
		return fmt.Errorf("parse headers: %w", err)
	}
	for name, value := range headers {
		name = http.CanonicalHeaderKey(name)
		if !slices.Contains(t.private, name) { // else a signature goes by that name
			t.custom = append(t.custom, egress.Field{Name: name, Value: value})
			t.private = append(t.private, name)
		}
	}
	return nil
}

// withSigner returns the destination with a signer of the secrets active at
// now.
func (t *destination) withSigner(now time.Time) *destination {
	next := *t
	next.until = time.Time{}
	var active []sign.Secret
	for _, s := range t.secrets {
		if !s.expires.IsZero() && !s.expires.After(now) {
			continue
		}
		active = append(active, s.secret)
		next.until = window.Earliest(next.until, s.expires)
	}
	next.signer, next.broken = sign.NewSigner(t.signatures, active)
	return &next
}

// refreshSigner drops secrets whose overlap has ended.
func (l *loop) refreshSigner(now time.Time, r *runner) {
	if !r.dest.until.IsZero() && !r.dest.until.After(now) {
		r.dest = r.dest.withSigner(now)
	}
}
