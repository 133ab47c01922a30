package seed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/breakwaterhq/breakwater/test/program"
)

// Stage is a server in the middle of the story, with its town and, if wanted, its
// traffic.
type Stage struct {
	*Places

	URL    string
	Key    string // of the operator
	Town   *Town
	Server *program.Process

	stop context.CancelFunc
}

// Raise writes the story into a data folder and starts a server on it.
func Raise(ctx context.Context, binary, dir, listen string, log io.Writer) (*Stage, error) {
	s := &Stage{}
	var err error
	if s.Town, err = OpenTown(ctx, dir); err != nil {
		return nil, err
	}
	if s.Places, err = Story(ctx, dir, program.EncryptionKey, time.Now()); err != nil {
		s.Town.Close()
		return nil, err
	}
	s.Server, err = program.Serve(&program.Options{
		Binary: binary, Dir: dir, Listen: listen, Log: log,
		Args: []string{"--node-name", Node, "--egress-ca-file", s.Town.CAFile}, Env: []string{"BREAKWATER_EGRESS_PROXY=" + s.Town.Proxy},
	})
	if err != nil {
		s.Town.Close()
		return nil, err
	}
	s.URL = s.Server.URL
	ctx, s.stop = context.WithCancel(ctx)
	if err := s.welcome(ctx); err != nil {
		s.Strike()
		return nil, err
	}
	go Traffic(ctx, s.URL, s.Key)
	return s, nil
}

// welcome begins what only a running server can do, and waits until it has looked at
// everything once.
func (s *Stage) welcome(ctx context.Context) error {
	client := &http.Client{Timeout: time.Minute}
	s.Key = s.Keys["ops"]
	channel := map[string]any{"name": "on call", "kind": "webhook", "url": "https://hooks.acme.example/alerts"}
	if err := post(ctx, client, s.URL+"/v1/alert-channels", s.Key, channel, nil); err != nil {
		return fmt.Errorf("channel: %w", err)
	}
	var replay struct{ ID string }
	pace := map[string]any{"endpoint": s.Endpoints["crm"], "per_minute": 60, "max_multiple": 2, "pause_error_percent": 50}
	if err := post(ctx, client, s.URL+"/v1/tenants/acme/replays", s.Key, pace, &replay); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	s.Replays["running"] = replay.ID
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(500 * time.Millisecond) {
		var firing struct{ Data []struct{ ID string } }
		if err := get(ctx, client, s.URL+"/v1/alerts?status=firing", s.Key, &firing); err != nil {
			return fmt.Errorf("alerts: %w", err)
		}
		if len(firing.Data) > 0 {
			s.Alerts["firing"] = firing.Data[0].ID
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("no alert fires, although an endpoint is down")
		}
	}
}

// Strike ends the server and its town.
func (s *Stage) Strike() {
	s.stop()
	_ = s.Server.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.Server.Done:
	case <-time.After(time.Minute):
		_ = s.Server.Cmd.Process.Kill()
		<-s.Server.Done
	}
	s.Town.Close()
}
