package sqlite

import (
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// signatures is the stored form of an endpoint's signatures: schemes by number,
// like every enum in the store.
type signatures []hook.Signature

type storedSignature struct {
	Scheme hook.Scheme `json:"scheme"`
	Header string      `json:"header,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (s signatures) MarshalJSON() ([]byte, error) {
	out := make([]storedSignature, len(s))
	for i, sig := range s {
		out[i] = storedSignature(sig)
	}
	return json.Marshal(out)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *signatures) UnmarshalJSON(text []byte) error {
	var in []storedSignature
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*s = make(signatures, len(in))
	for i, sig := range in {
		(*s)[i] = hook.Signature(sig)
	}
	return nil
}
