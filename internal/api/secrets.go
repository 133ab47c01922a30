package api

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/quantity"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// freshSecrets are the keys of an endpoint being made.
type freshSecrets struct {
	stored []hook.Secret
	shown  sign.Secret // of the first signature
	public string
}

// newSecrets makes one key for each kind the endpoint's signatures need. given
// is used for its kind when it is not empty.
func (a *API) newSecrets(c *rest.Call, e hook.Endpoint, given string) (*freshSecrets, error) {
	var imported sign.Secret
	if given != "" {
		var err error
		if imported, err = sign.ParseSecret(given); err != nil {
			return nil, rest.FieldError("secret", "invalid", err.Error())
		}
		if !wantsKind(e.Signatures, imported.Scheme()) {
			return nil, rest.FieldError("secret", "not_allowed", "is of a kind that no signature of this endpoint uses")
		}
	}
	out := &freshSecrets{}
	for _, kind := range kindsOf(e.Signatures) {
		s := imported
		if s.IsZero() || s.Scheme() != kind {
			var err error
			if s, err = drawSecret(kind); err != nil {
				return nil, err
			}
		}
		stored, err := a.sealSecret(c, e, s)
		if err != nil {
			return nil, err
		}
		out.stored = append(out.stored, stored)
		if out.shown.IsZero() {
			out.shown = s
		}
		if s.Public() != "" {
			out.public = s.Public()
		}
	}
	return out, nil
}

// kindOf returns the kind of key that a signature needs: the Stripe-style
// header shares the HMAC key.
func kindOf(s hook.Signature) hook.Scheme {
	if s.Scheme == hook.SchemeStandardEd25519 {
		return hook.SchemeStandardEd25519
	}
	return hook.SchemeStandard
}

// kindsOf lists the kinds of keys, that of the first signature first.
func kindsOf(list []hook.Signature) []hook.Scheme {
	var out []hook.Scheme
	for _, s := range list {
		if k := kindOf(s); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

func wantsKind(list []hook.Signature, kind hook.Scheme) bool {
	return slices.Contains(kindsOf(list), kind)
}

func drawSecret(kind hook.Scheme) (sign.Secret, error) {
	if kind == hook.SchemeStandardEd25519 {
		return sign.NewEd25519(rand.Reader)
	}
	return sign.NewSecret(rand.Reader)
}

func (a *API) sealSecret(c *rest.Call, e hook.Endpoint, s sign.Secret) (hook.Secret, error) {
	keyID, sealed, err := a.cfg.Vault.Seal(e.TenantID, e.ID, vault.PurposeSecret, []byte(s.Reveal()))
	if err != nil {
		return hook.Secret{}, fmt.Errorf("seal secret: %w", err)
	}
	return hook.Secret{
		ID:         a.cfg.IDs.Next(c.Now),
		TenantID:   e.TenantID,
		EndpointID: e.ID,
		Scheme:     s.Scheme(),
		KeyID:      keyID,
		Sealed:     sealed,
		CreatedAt:  c.Now,
	}, nil
}

// addMissingSecrets gives an endpoint the keys that its changed signatures
// need. It runs before the change itself: a key without a signature does no
// harm, a signature without a key would.
func (a *API) addMissingSecrets(ctx context.Context, c *rest.Call, d *endpointDraft, have []hook.Secret) error {
	for _, kind := range kindsOf(d.endpoint.Signatures) {
		if hasActive(have, kind, c.Now) {
			continue
		}
		s, err := drawSecret(kind)
		if err != nil {
			return err
		}
		if err := a.rotate(ctx, c, d.endpoint, s, c.Now); err != nil {
			return err
		}
		now, err := a.cfg.Store.EndpointByID(ctx, d.endpoint.TenantID, d.endpoint.ID)
		if err != nil {
			return fmt.Errorf("read endpoint: %w", err)
		}
		d.endpoint.Rev = now.Rev // adding the key was a change too
	}
	return nil
}

func hasActive(list []hook.Secret, kind hook.Scheme, now time.Time) bool {
	return slices.ContainsFunc(list, func(s hook.Secret) bool { return s.Scheme == kind && isActive(s, now) })
}

func isActive(s hook.Secret, now time.Time) bool {
	return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt)
}

// rotate stores a new key; older ones of its kind end at previousExpire.
func (a *API) rotate(ctx context.Context, c *rest.Call, e hook.Endpoint, s sign.Secret, previousExpire time.Time) error {
	stored, err := a.sealSecret(c, e, s)
	if err != nil {
		return err
	}
	diff := map[string]any{"scheme": s.Scheme().String(), "previous_expires_at": view.Stamp(previousExpire)}
	rec := a.server.Audit(c, e.TenantID, "endpoint.rotate_secret", hook.EndpointPrefix.Format(e.ID), diff)
	if err := a.cfg.Store.RotateSecret(ctx, stored, previousExpire, c.Now, rec); err != nil {
		return fmt.Errorf("rotate secret: %w", err)
	}
	a.cfg.Notifier.EndpointChanged(e.TenantID, e.ID)
	return nil
}

func (a *API) addSecretRoutes() {
	g := a.server.Group("secrets")
	rest.Add(g, rest.NeedWrite, "POST "+endpointPath+"/rotate-secret", "rotate-secret",
		"Make a new secret; the old one signs on during the overlap", a.rotateSecret)
	rest.Add(g, rest.NeedWrite, "GET "+endpointPath+"/secret", "get-secret", "Read the secrets; every read is audited", a.getSecret)
}

type rotateInput struct {
	EndpointPath
	Body *struct {
		Secret  string `json:"secret,omitempty" writeOnly:"true" doc:"whsec_… or whsk_…; made when absent."`
		Scheme  string `json:"scheme,omitempty" enum:"standard,standard_ed25519" doc:"Kind of the secret to make; that of the first signature when absent."`
		Overlap string `json:"overlap,omitempty" doc:"How long the old secret signs on: 0s to 7d, 24h when absent."`
	}
}

type rotatedView struct {
	Secret            string     `json:"secret"`
	PublicKey         string     `json:"public_key,omitempty"`
	PreviousExpiresAt view.Stamp `json:"previous_expires_at"`
}

const (
	defaultOverlap = 24 * time.Hour
	maxOverlap     = 7 * 24 * time.Hour
)

func (a *API) rotateSecret(ctx context.Context, c *rest.Call, in *rotateInput) (*rest.Output[rotatedView], error) {
	e, err := a.endpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	s, overlap, err := in.read(e)
	if err != nil {
		return nil, err
	}
	ends := c.Now.Add(overlap)
	if err := a.rotate(ctx, c, e, s, ends); err != nil {
		return nil, err
	}
	return &rest.Output[rotatedView]{Body: rotatedView{
		Secret: s.Reveal(), PublicKey: s.Public(), PreviousExpiresAt: view.Stamp(ends),
	}}, nil
}

// read returns the secret to rotate to and the overlap.
func (in *rotateInput) read(e hook.Endpoint) (sign.Secret, time.Duration, error) {
	kind, overlap := kindsOf(e.Signatures)[0], defaultOverlap
	if in.Body == nil {
		s, err := drawSecret(kind)
		return s, overlap, err
	}
	bad := &rest.Invalid{}
	if in.Body.Overlap != "" {
		var err error
		overlap, err = quantity.ParseDuration(in.Body.Overlap)
		if err != nil || overlap < 0 || overlap > maxOverlap {
			bad.Add("overlap", "out_of_range", "must be a duration between 0s and 7d")
		}
	}
	if in.Body.Scheme != "" {
		var err error
		if kind, err = hook.ParseScheme(in.Body.Scheme); err != nil {
			bad.Add("scheme", "not_allowed", err.Error())
		}
	}
	s, err := readOrDraw(bad, in.Body.Secret, &kind, in.Body.Scheme != "")
	if err != nil {
		return sign.Secret{}, 0, err
	}
	if !wantsKind(e.Signatures, kind) {
		bad.Add("scheme", "not_allowed", "is not used by any signature of this endpoint")
	}
	return s, overlap, bad.Err()
}

// readOrDraw parses a given secret, whose kind then counts unless another one
// was asked for, or makes one.
func readOrDraw(bad *rest.Invalid, given string, kind *hook.Scheme, fixed bool) (sign.Secret, error) {
	if given == "" {
		return drawSecret(*kind)
	}
	s, err := sign.ParseSecret(given)
	switch {
	case err != nil:
		bad.Add("secret", "invalid", err.Error())
	case fixed && s.Scheme() != *kind:
		bad.Add("secret", "not_allowed", "is of another kind than scheme")
	default:
		*kind = s.Scheme()
	}
	return s, nil
}

type secretsView struct {
	Secret  string       `json:"secret" doc:"The newest."`
	Secrets []secretView `json:"secrets" nullable:"false" doc:"All that sign, newest first."`
}

type secretView struct {
	Secret    string     `json:"secret"`
	Scheme    string     `json:"scheme"`
	PublicKey string     `json:"public_key,omitempty"`
	CreatedAt view.Stamp `json:"created_at"`
	ExpiresAt view.Stamp `json:"expires_at"`
}

// getSecret writes its audit record before it shows anything: a read that is
// not on record must not happen.
func (a *API) getSecret(ctx context.Context, c *rest.Call, in *EndpointPath) (*rest.Output[secretsView], error) {
	e, err := a.endpoint(ctx, c, in.Endpoint)
	if err != nil {
		return nil, err
	}
	rec := a.server.Audit(c, e.TenantID, "endpoint.read_secret", hook.EndpointPrefix.Format(e.ID), nil)
	if err := a.cfg.Store.WriteAudit(ctx, rec); err != nil {
		return nil, fmt.Errorf("write audit record: %w", err)
	}
	stored, err := a.cfg.Store.SecretsOf(ctx, e.ID)
	if err != nil {
		return nil, fmt.Errorf("read secrets: %w", err)
	}
	out := &rest.Output[secretsView]{Body: secretsView{Secrets: []secretView{}}}
	for _, s := range stored {
		if !isActive(s, c.Now) {
			continue
		}
		opened, err := a.openSecret(s)
		if err != nil {
			return nil, fmt.Errorf("open secret: %w", err)
		}
		if out.Body.Secret == "" {
			out.Body.Secret = opened.Reveal()
		}
		out.Body.Secrets = append(out.Body.Secrets, secretView{
			Secret: opened.Reveal(), Scheme: s.Scheme.String(), PublicKey: opened.Public(),
			CreatedAt: view.Stamp(s.CreatedAt), ExpiresAt: view.Stamp(s.ExpiresAt),
		})
	}
	return out, nil
}
