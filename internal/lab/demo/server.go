package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/breakwaterhq/breakwater/internal/api/view"
)

// server is Breakwater as a client sees it.
type server struct {
	url, key string
	endpoint string // the fragile one
	accepted atomic.Int64
}

const tenantPath = "/v1/tenants/default"

// connect creates the endpoints.
func (s *server) connect(ctx context.Context, fragile, healthy string) error {
	var made struct {
		ID string `json:"id"`
	}
	for _, e := range []map[string]any{
		{"url": healthy + "/hooks", "uid": "healthy", "description": "an endpoint that is always well"},
		{"url": fragile + "/hooks", "uid": "fragile", "description": "an endpoint that goes down"},
	} {
		if err := post(ctx, s.url+tenantPath+"/endpoints", s.key, e, &made); err != nil {
			return fmt.Errorf("create an endpoint: %w", err)
		}
	}
	s.endpoint = made.ID
	return nil
}

const eventType = "order.paid"

// payload is event n.
func payload(n int) []byte { return fmt.Appendf(nil, `{"order":%d,"total":"%d.00"}`, 4000+n, 10+n%90) }

func (s *server) send(ctx context.Context, n int) error {
	err := post(ctx, s.url+tenantPath+"/events", s.key, map[string]any{"type": eventType, "payload": json.RawMessage(payload(n))}, nil)
	if err != nil {
		return fmt.Errorf("send an event: %w", err)
	}
	s.accepted.Add(1)
	return nil
}

// lane is what Breakwater says of the fragile endpoint.
func (s *server) lane(ctx context.Context) (view.Lane, error) {
	var l view.Lane
	err := call(ctx, http.MethodGet, s.url+tenantPath+"/endpoints/"+s.endpoint+"/lane", s.key, nil, &l)
	if err != nil {
		return l, fmt.Errorf("ask for the lane: %w", err)
	}
	return l, nil
}

func post(ctx context.Context, url, key string, body, into any) error {
	packed, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return call(ctx, http.MethodPost, url, key, packed, into)
}

func call(ctx context.Context, method, url, key string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s: %.300s", url, res.Status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
