package vault

import (
	"encoding/json"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// sealedChannel is what a channel keeps to itself. A URL is part of it: that of a
// chat is all that is needed to post there.
type sealedChannel struct {
	URL     string            `json:"url,omitempty"`
	Secret  string            `json:"secret,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// SealChannel encrypts URL, secret and headers of a channel together, for this
// channel of this tenant.
func (v *Vault) SealChannel(ch *hook.Channel) ([]byte, error) {
	plain, err := json.Marshal(sealedChannel{URL: ch.URL, Secret: ch.Secret, Headers: ch.Headers}) //nolint:gosec // to be sealed
	if err != nil {
		return nil, fmt.Errorf("seal channel %s: %w", hook.ChannelPrefix.Format(ch.ID), err)
	}
	_, sealed, err := v.Seal(ch.Tenant, ch.ID, PurposeChannel, plain)
	return sealed, err
}

// OpenChannel fills in what SealChannel has sealed.
func (v *Vault) OpenChannel(ch *hook.Channel, sealed []byte) error {
	plain, err := v.open(ch.Tenant, ch.ID, PurposeChannel, sealed)
	var doc sealedChannel
	if err == nil {
		err = json.Unmarshal(plain, &doc)
	}
	if err != nil {
		return fmt.Errorf("open channel %s: %w", hook.ChannelPrefix.Format(ch.ID), err)
	}
	ch.URL, ch.Secret, ch.Headers = doc.URL, doc.Secret, doc.Headers
	return nil
}
