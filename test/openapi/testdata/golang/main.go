// Command client is a program that somebody wrote against the generated client, which
// is in this package when the test compiles it: nothing here is generated, and nothing
// here knows the server but through the types of its document.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// report is what the test compares with what the server knows.
type report struct {
	Tenant   string   `json:"tenant"`
	Endpoint string   `json:"endpoint"`
	Delivery string   `json:"delivery"`
	Events   []string `json:"events"`
	Pages    int      `json:"pages"`
	NotFound string   `json:"not_found"`
	Invalid  string   `json:"invalid"`
	Field    string   `json:"field"`
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: client SERVER KEY DESTINATION")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	r, err := run(ctx, os.Args[1], os.Args[2], os.Args[3])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// few is a page that is full before the list has ended.
const few = int64(2)

func run(ctx context.Context, server, key, destination string) (*report, error) {
	withKey := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+key)
		return nil
	}
	c, err := NewClientWithResponses(server, WithRequestEditorFn(withKey))
	if err != nil {
		return nil, err
	}
	var r report
	for _, step := range []func() error{
		func() error { return begin(ctx, c, destination, &r) },
		func() error { return deliver(ctx, c, &r) },
		func() error { return beRefused(ctx, c, &r) },
		func() error { return leaf(ctx, c, &r) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

// begin makes a tenant and an endpoint. What is null comes out as nil.
func begin(ctx context.Context, c *ClientWithResponses, destination string, r *report) error {
	tenant, err := c.CreateTenantWithResponse(ctx, nil, TenantCreateBody{Name: "Generated in Go"})
	if err != nil {
		return err
	}
	if tenant.JSON201 == nil || tenant.JSON201.CreatedAt.IsZero() {
		return fmt.Errorf("create tenant: %s %s", tenant.Status(), tenant.Body)
	}
	if tenant.JSON201.Uid != nil {
		return fmt.Errorf("a tenant without a uid has %q", *tenant.JSON201.Uid)
	}
	r.Tenant = tenant.JSON201.Id
	types, uid := []string{"order.*"}, "orders"
	endpoint, err := c.CreateEndpointWithResponse(ctx, r.Tenant, nil, EndpointCreateBody{Url: destination, Types: &types, Uid: &uid})
	if err != nil {
		return err
	}
	made := endpoint.JSON201
	if made == nil {
		return fmt.Errorf("create endpoint: %s %s", endpoint.Status(), endpoint.Body)
	}
	if made.Uid == nil || *made.Uid != uid || made.StatusReason != nil || made.Filter != nil || made.Secret == "" {
		return fmt.Errorf("endpoint: %s", endpoint.Body)
	}
	r.Endpoint = made.Id
	return nil
}

// deliver sends an event and waits for its delivery.
func deliver(ctx context.Context, c *ClientWithResponses, r *report) error {
	if err := send(ctx, c, r, 1); err != nil {
		return err
	}
	for {
		list, err := c.ListDeliveriesWithResponse(ctx, r.Tenant, &ListDeliveriesParams{Endpoint: &[]string{r.Endpoint}})
		if err != nil {
			return err
		}
		if list.JSON200 == nil || len(list.JSON200.Data) != 1 {
			return fmt.Errorf("list deliveries: %s %s", list.Status(), list.Body)
		}
		d := list.JSON200.Data[0]
		if d.Status == "pending" {
			if d.SettledAt != nil {
				return fmt.Errorf("a pending delivery is settled: %s", list.Body)
			}
			select {
			case <-time.After(20 * time.Millisecond):
				continue
			case <-ctx.Done():
				return fmt.Errorf("not delivered: %s", list.Body)
			}
		}
		r.Delivery = d.Id
		return look(ctx, c, r)
	}
}

// look reads the delivery on its own.
func look(ctx context.Context, c *ClientWithResponses, r *report) error {
	got, err := c.GetDeliveryWithResponse(ctx, r.Tenant, r.Delivery)
	if err != nil {
		return err
	}
	d := got.JSON200
	if d == nil || d.Status != "delivered" || d.SettledAt == nil || d.Last == nil || d.Last.StatusCode == nil || *d.Last.StatusCode != 200 {
		return fmt.Errorf("get delivery: %s %s", got.Status(), got.Body)
	}
	if d.Replay != nil || d.Reason != nil || d.ExpiresAt != nil {
		return fmt.Errorf("what is null is not nil: %s", got.Body)
	}
	return nil
}

func send(ctx context.Context, c *ClientWithResponses, r *report, number int) error {
	sent, err := c.SendEventWithResponse(ctx, r.Tenant, nil, EventCreateBody{Type: "order.paid", Payload: map[string]any{"number": number}})
	if err != nil {
		return err
	}
	if sent.JSON202 == nil || sent.JSON202.Deliveries != 1 {
		return fmt.Errorf("send event: %s %s", sent.Status(), sent.Body)
	}
	return nil
}

// beRefused asks for what there is not, and for what may not be.
func beRefused(ctx context.Context, c *ClientWithResponses, r *report) error {
	missing, err := c.GetEndpointWithResponse(ctx, r.Tenant, "ep_0000000000000")
	if err != nil {
		return err
	}
	if missing.ApplicationproblemJSON404 == nil || missing.JSON200 != nil {
		return fmt.Errorf("get what there is not: %s %s", missing.Status(), missing.Body)
	}
	r.NotFound = missing.ApplicationproblemJSON404.Code
	wrong, err := c.CreateEndpointWithResponse(ctx, r.Tenant, nil, EndpointCreateBody{Url: "ftp://example.com"})
	if err != nil {
		return err
	}
	problem := wrong.ApplicationproblemJSON422
	if problem == nil || problem.Errors == nil || len(*problem.Errors) != 1 {
		return fmt.Errorf("create what may not be: %s %s", wrong.Status(), wrong.Body)
	}
	r.Invalid, r.Field = problem.Code, (*problem.Errors)[0].Path
	return nil
}

// leaf reads a list page by page.
func leaf(ctx context.Context, c *ClientWithResponses, r *report) error {
	for i := range 4 {
		if err := send(ctx, c, r, i+2); err != nil {
			return err
		}
	}
	limit := few
	params := &ListEventsParams{Limit: &limit}
	for {
		page, err := c.ListEventsWithResponse(ctx, r.Tenant, params)
		if err != nil {
			return err
		}
		if page.JSON200 == nil {
			return fmt.Errorf("list events: %s %s", page.Status(), page.Body)
		}
		r.Pages++
		for _, e := range page.JSON200.Data {
			r.Events = append(r.Events, e.Id)
		}
		if params.Cursor = page.JSON200.NextCursor; params.Cursor == nil {
			return nil
		}
		if r.Pages > 10 {
			return errors.New("the list has no end")
		}
	}
}
