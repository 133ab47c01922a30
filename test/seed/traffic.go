package seed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// Traffic goes on with the events of the story until ctx ends, a batch per tenant and
// second. What the server does not take is left out, as it would be by a publisher who
// gives up.
func Traffic(ctx context.Context, url, key string) {
	tenants, all := cast()
	w := &writer{rng: rand.New(rand.NewPCG(3, 4))}
	client := &http.Client{Timeout: 10 * time.Second}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, t := range tenants {
				var events []map[string]any
				for _, d := range all {
					for n := d.rate; d.of == t && w.rng.Float64() < n; n-- {
						kind := d.types[w.rng.IntN(len(d.types))]
						events = append(events, map[string]any{"type": kind, "payload": json.RawMessage(w.payload(kind, now))})
					}
				}
				if len(events) > 0 {
					_ = post(ctx, client, url+"/v1/tenants/"+t.uid+"/events/batch", key, map[string]any{"events": events}, nil)
				}
			}
		}
	}
}

// post makes a request of the API.
func post(ctx context.Context, client *http.Client, url, key string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	return call(client, r, key, out)
}

// get reads from the API.
func get(ctx context.Context, client *http.Client, url, key string, out any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	return call(client, r, key, out)
}

func call(client *http.Client, r *http.Request, key string, out any) error {
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s: status %d: %s", r.URL, res.StatusCode, text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}
