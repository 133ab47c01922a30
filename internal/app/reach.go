package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/egress"
)

// Reach opens a connection to a URL as a delivery would, with the same names, guard,
// proxy and certificates. It sends nothing over it.
func Reach(ctx context.Context, o Options, url string) error {
	a, err := New(o)
	if err != nil {
		return err
	}
	clean, err := a.client.CheckURL(url)
	if err != nil {
		return err
	}
	connected := false
	res := a.client.Send(ctx, &egress.Request{URL: clean, MayStart: func() bool {
		connected = true
		return false
	}})
	switch {
	case connected:
		return nil
	case res.Err != nil:
		return fmt.Errorf("%s: %w", res.Reason, res.Err)
	default:
		return errors.New("no connection")
	}
}
