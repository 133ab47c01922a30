package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/breakwaterhq/breakwater/internal/api"
	"github.com/breakwaterhq/breakwater/internal/api/accept"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/vault"
)

// keyStore knows one key and nothing else.
type keyStore struct {
	api.Store
	key hook.APIKey
}

func (s keyStore) KeyByHash(_ context.Context, hash [32]byte) (hook.APIKey, error) {
	if hash != s.key.Hash {
		return hook.APIKey{}, hook.ErrNotFound
	}
	return s.key, nil
}

func (keyStore) EndpointByUID(context.Context, hook.ID, string) (hook.Endpoint, error) {
	return hook.Endpoint{}, hook.ErrNotFound
}

// sink takes every event and remembers the last.
type sink struct{ got []hook.Submission }

func (s *sink) Accept(_ context.Context, _ hook.ID, sub *hook.Submission) (hook.Receipt, error) {
	s.got = append(s.got, *sub)
	return hook.Receipt{EventID: 1}, nil
}

func (s *sink) AcceptBatch(_ context.Context, _ hook.ID, subs []hook.Submission) []hook.Result {
	s.got = append(s.got, subs...)
	return make([]hook.Result, len(subs))
}

// newAPI is an API over stubs.
func newAPI(t testing.TB, st api.Store, in accept.Ingest) *api.API {
	t.Helper()
	k, err := vault.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open([]vault.Key{k})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := hook.NewIDSource(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, err := api.New(api.Config{
		Store: st, Ingest: in, Notifier: &fakeNotifier{}, URLs: fakeURLs{}, Health: &fakeHealth{}, Vault: v, IDs: ids,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newFuzzAPI(t testing.TB) (h http.Handler, key string, s *sink) {
	t.Helper()
	text, prefix, hash := rest.NewKey(rand.Reader)
	s = &sink{}
	st := keyStore{key: hook.APIKey{ID: 1, TenantID: 2, Prefix: prefix, Hash: hash, Scope: hook.ScopeTenantSend}}
	return newAPI(t, st, s).Handler(), text, s
}

// FuzzEventBody posts any bytes as an event and as the payload of one: nothing
// may panic, what is no JSON must be called that, and what is accepted must be
// kept byte for byte.
func FuzzEventBody(f *testing.F) {
	for _, seed := range []string{
		`{"type":"a","payload":1}`, `{"type":"a","payload":{"x":[1,{"y":"]}"}]},"delay":"1s"}`, `{"events":[{"type":"a","payload":1}]}`,
		`{"type":"a","payload_base64":"AAAA","content_type":"text/plain"}`, `{"type":"a\u0062","payload":"\ud800"}`, `[`, `{"type"`, "\"\xff\"",
		`{"type":"a","payload":1,"endpoints":["x","y"]}`, `{}`, ` null `, `"\\"`, `{"a":{"b":"\\\""}}`, `-0.0e-1`,
	} {
		f.Add([]byte(seed))
	}
	h, key, s := newFuzzAPI(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, path := range []string{"/v1/tenants/-/events", "/v1/tenants/-/events/batch"} {
			r := send(t, h, http.MethodPost, path, key, string(data))
			if r.status >= 500 || !json.Valid(data) != bytes.Contains(r.body, []byte(`"code":"invalid_json"`)) {
				t.Fatalf("%s = %d %s", path, r.status, r.body)
			}
		}
		s.got = nil
		value := bytes.Trim(data, " \t\r\n")
		body := append(append([]byte("{\"payload\":\n "), data...), ` , "type":"a"}`...)
		if !json.Valid(data) {
			return
		}
		r := send(t, h, http.MethodPost, "/v1/tenants/-/events", key, string(body))
		if r.status == http.StatusRequestEntityTooLarge || r.status == http.StatusBadRequest {
			return // too large, or too deep with one level more
		}
		if r.status != http.StatusAccepted || len(s.got) != 1 || !bytes.Equal(s.got[0].Payload, value) {
			t.Fatalf("%q: %d %s, kept %v", data, r.status, r.body, s.got)
		}
	})
}
