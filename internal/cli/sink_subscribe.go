package cli

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// subscribe has the server deliver events of some types to a sink, and returns the
// secrets that sign them. The endpoint is known by its port: a sink that is started
// again is the same destination, with what waits for it.
func (s *session) subscribe(ctx context.Context, listen string, types []string) ([]string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return nil, kit.Usagef("--subscribe: needs a --listen with a port of its own, such as 127.0.0.1:9000")
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	in := endpointInput{URL: "http://" + net.JoinHostPort(host, port) + "/", Types: types, UID: "sink-" + port}
	var e struct{ ID string }
	err = c.Call(ctx, kit.Request{Method: http.MethodPost, Path: "T/endpoints", Body: in}, &e)
	if p, is := errors.AsType[*kit.Problem](err); is && p.Code == "uid_taken" {
		change := map[string]any{"url": in.URL, "types": types}
		err = c.Call(ctx, kit.Request{Method: http.MethodPatch, Path: "T/endpoints/" + in.UID, Body: change}, &e)
	}
	if err != nil {
		return nil, err
	}
	var all struct{ Secrets []struct{ Secret string } }
	if err := c.Call(ctx, kit.Request{Method: http.MethodGet, Path: "T/endpoints/" + e.ID + "/secret"}, &all); err != nil {
		return nil, err
	}
	secrets := make([]string, 0, len(all.Secrets))
	for _, one := range all.Secrets {
		secrets = append(secrets, one.Secret)
	}
	s.Note("endpoint %s (%s) gets %v; its signatures are checked", e.ID, in.UID, types)
	return secrets, nil
}
