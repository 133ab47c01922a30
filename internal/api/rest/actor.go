package rest

import (
	"context"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Actor is for whom a part of this process makes a request: it has checked who that
// is by other means than the header Authorization. A key is named by its hash and
// is looked up as ever, so that one that was revoked is refused. What has no key,
// such as a visitor of a portal, brings one of its own, which is believed.
type Actor struct {
	Hash  [32]byte
	Guest *hook.APIKey // nil: the key with that hash
}

type actorKey struct{}

// WithActor returns the context of a request that this process makes for an actor.
// No request from outside can carry one.
func WithActor(ctx context.Context, a Actor) context.Context {
	return context.WithValue(ctx, actorKey{}, a)
}

// acting returns the key of the actor of a request.
func (a *authenticator) acting(ctx context.Context, c *Call) (*hook.APIKey, error) {
	actor, ok := ctx.Value(actorKey{}).(Actor)
	switch {
	case !ok:
		return nil, errUnauthorized // nobody guessed anything
	case actor.Guest != nil:
		if !actor.Guest.Valid(c.Now) {
			return nil, errUnauthorized
		}
		return actor.Guest, nil
	}
	return a.named(ctx, actor.Hash, c)
}
