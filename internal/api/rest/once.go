package rest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

const (
	idempotencyKey = "Idempotency-Key"
	// keptFor is how long an answer can be had again.
	keptFor = 24 * time.Hour
	// awaitAnswer bounds the wait for the answer to a request that has changed
	// something just now, and how often it is looked for.
	awaitAnswer, lookAgain = 3 * time.Second, 20 * time.Millisecond
	// keepTimeout bounds the write of an answer, which does not end with the client.
	keepTimeout = 10 * time.Second
)

// describeKey adds the header to a route that changes something by POST. Routes that
// read it themselves have it already.
func describeKey(op *huma.Operation, n Need, in reflect.Type) {
	if op.Method != http.MethodPost || n != NeedWrite && n != NeedAdmin {
		return
	}
	for _, f := range reflect.VisibleFields(in) {
		if f.Tag.Get("header") == idempotencyKey {
			return
		}
	}
	one, most := 1, 255
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: idempotencyKey, In: "header", Schema: &huma.Schema{Type: huma.TypeString, MinLength: &one, MaxLength: &most},
		Description: "Visible ASCII. For 24 h the same request under the same key gets the first answer again, with Idempotency-Replayed: true, " +
			"and changes nothing; another request under it gets 409.",
	})
	op.Metadata[metaOnce] = true
}

// keptAnswer is an answer as it is sealed.
type keptAnswer struct {
	Status   int    `json:"status"`
	Location string `json:"location,omitempty"`
	ETag     string `json:"etag,omitempty"`
	Body     []byte `json:"body,omitempty"`
}

// once serves a request under an idempotency key: it is carried out if none was under
// this key, else answered as the first one was. The answer is held back until it is
// known which of the two it is.
func (s *Server) once(c *Call, w http.ResponseWriter, r *http.Request, h http.HandlerFunc) {
	cl, err := s.claimOf(c, r)
	if err != nil {
		s.Fail(w, c, err)
		return
	}
	kept, err := s.cfg.Answers.AnswerOf(r.Context(), cl.TenantID, cl.Route, cl.Key, c.Now)
	switch {
	case err == nil:
		s.answerAgain(c, w, r, cl, &kept)
		return
	case !errors.Is(err, hook.ErrNotFound):
		s.Fail(w, c, fmt.Errorf("look up idempotency key: %w", err))
		return
	}
	out, ok := w.(*answer)
	if !ok {
		h(w, r) // cannot happen: serve makes one
		return
	}
	c.claim = cl
	before := out.Header().Clone()
	held := out.hold()
	defer out.drop() // after a panic nothing of it is sent
	h(out, r)
	if c.repeated { // another one was carried out while this one was on its way
		out.drop()
		clear(out.Header())
		maps.Copy(out.Header(), before)
		s.answerAgain(c, out, r, cl, nil)
		return
	}
	if out.status/100 == 2 {
		s.keep(r.Context(), c, out, held.Bytes())
	}
	out.release()
}

// claimOf makes the claim of a request. The hash tells requests apart that are made to
// different objects, or that ask for something else.
func (s *Server) claimOf(c *Call, r *http.Request) (*hook.Claim, error) {
	values := r.Header[idempotencyKey]
	key := first(values)
	if len(values) != 1 || len(key) < 1 || len(key) > 255 || !VisibleASCII(key) {
		return nil, BadParameter("header."+idempotencyKey, "must be given once, with 1 to 255 visible ASCII characters")
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, errInvalidJSON("the body ended early")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	sum := sha256.New()
	for _, part := range []string{c.path, r.URL.RawQuery, string(body)} {
		_, _ = fmt.Fprintf(sum, "%d:%s", len(part), part) // a hash takes everything
	}
	cl := &hook.Claim{
		TenantID: c.Tenant, Route: c.route.Method + " " + c.route.Path, Key: key, Hash: [32]byte(sum.Sum(nil)),
		Token: s.cfg.IDs.Next(c.Now), ExpiresAt: c.Now.Add(keptFor),
	}
	if cl.TenantID == 0 {
		cl.TenantID = c.Key.TenantID
	}
	return cl, nil
}

// keep stores the answer beside its claim. Without it the change stays, and whoever
// asks again is told that it was made.
func (s *Server) keep(ctx context.Context, c *Call, out *answer, body []byte) {
	plain, err := json.Marshal(keptAnswer{Status: out.status, Location: out.Header().Get("Location"), ETag: out.Header().Get("ETag"), Body: body})
	var sealed []byte
	if err == nil {
		_, sealed, err = s.cfg.Vault.Seal(c.claim.TenantID, c.claim.Token, vault.PurposeAnswer, plain)
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
		defer cancel()
		err = s.cfg.Answers.KeepAnswer(ctx, *c.claim, sealed)
	}
	if err != nil {
		s.log.Warn("an answer could not be kept for its idempotency key", "request_id", c.ID, "error", err)
	}
}

// answerAgain answers as the first request under the key was answered. kept is nil when
// it has to be looked for.
func (s *Server) answerAgain(c *Call, w http.ResponseWriter, r *http.Request, cl *hook.Claim, kept *store.KeptAnswer) {
	got, err := s.awaitKept(r.Context(), c, cl, kept)
	if err != nil {
		s.Fail(w, c, err)
		return
	}
	h := w.Header()
	h["Idempotency-Replayed"] = []string{"true"}
	for name, value := range map[string]string{"Location": got.Location, "ETag": got.ETag} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if len(got.Body) > 0 {
		h["Content-Type"] = jsonType
	}
	w.WriteHeader(got.Status)
	_, _ = w.Write(got.Body) // a client that has left is not our concern
}

func (s *Server) awaitKept(ctx context.Context, c *Call, cl *hook.Claim, kept *store.KeptAnswer) (*keptAnswer, error) {
	end := time.After(awaitAnswer)
	for {
		if kept == nil {
			k, err := s.cfg.Answers.AnswerOf(ctx, cl.TenantID, cl.Route, cl.Key, c.Now)
			if err != nil {
				return nil, fmt.Errorf("look up idempotency key: %w", err)
			}
			kept = &k
		}
		if kept.Hash != cl.Hash {
			return nil, hook.ErrKeyReused
		}
		if len(kept.Sealed) > 0 {
			return s.openKept(kept)
		}
		subject := kept.Subject
		kept = nil
		select {
		case <-time.After(lookAgain):
		case <-end:
			return nil, lostAnswer(subject)
		case <-ctx.Done():
			return nil, fmt.Errorf("await answer: %w", context.Cause(ctx))
		}
	}
}

func (s *Server) openKept(kept *store.KeptAnswer) (*keptAnswer, error) {
	plain, err := s.cfg.Vault.Open(kept.TenantID, kept.Token, vault.PurposeAnswer, kept.Sealed)
	if err != nil {
		return nil, lostAnswer(kept.Subject) // its key is not used any more
	}
	got := new(keptAnswer)
	if err := json.Unmarshal(plain, got); err != nil {
		return nil, fmt.Errorf("read kept answer: %w", err)
	}
	return got, nil
}

// lostAnswer tells of a change whose answer is not known: the server ended in between.
func lostAnswer(subject string) *Problem {
	return Conflict("carried_out", "a request under this key was carried out before ("+subject+"), but its answer is lost; look at the object, or use another key")
}
