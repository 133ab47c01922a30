package cli

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

func (s *session) keysCommand() *cobra.Command {
	return group("keys", "Create, list and revoke API keys",
		s.keysCreate(),
		listCommand(s, "List keys; only the public part of each is known", "v1/keys", "ID PREFIX SCOPE TENANT NAME LAST-USED EXPIRES", func(k view.Key) []string {
			return []string{k.ID, orZero(k.Prefix), k.Scope, dash(orZero(k.Tenant)), dash(k.Name), clock(k.LastUsedAt), clock(k.ExpiresAt)}
		}),
		s.actionCommand("revoke KEY...", "DELETE v1/keys/ID", "Revoke keys at once", "revoked"),
	)
}

// keyInput is the body that creates a key.
type keyInput struct {
	Name      string    `json:"name"`
	Scope     string    `json:"scope"`
	Tenant    string    `json:"tenant,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func (s *session) keysCreate() *cobra.Command {
	var in keyInput
	var expires string
	cmd := &cobra.Command{
		Use: "create", Short: "Create a key; it is printed once, alone on stdout", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.HasPrefix(in.Scope, "tenant:") {
				in.Tenant = s.tenant
			}
			var err error
			if in.ExpiresAt, err = readMoment(expires, time.Now()); err != nil {
				return usagef("--expires: %w", err)
			}
			return s.createKey(cmd.Context(), in)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&in.Name, "name", "command line", "what the key is for")
	flags.StringVar(&in.Scope, "scope", "tenant:write", "admin, admin:read, or for --tenant only: tenant:write, tenant:read, tenant:send")
	flags.StringVar(&expires, "expires", "", "end of its life: a time, or how long from now (90d)")
	return cmd
}

// readMoment reads a time, or a duration from now on; nothing is no moment.
func readMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	d, err := quantity.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("%q must be a time such as 2030-01-02T15:04:05Z or a duration such as 90d", text)
	}
	return now.Add(d).UTC().Truncate(time.Second), nil
}

func (s *session) createKey(ctx context.Context, in keyInput) error {
	type created struct{ ID, Key string }
	return fetch(ctx, s, request{method: http.MethodPost, path: "v1/keys", body: in}, func(k created) error {
		if !s.quiet {
			s.note("%s created; the key is shown once", k.ID)
		}
		return s.printf("%s\n", k.Key)
	})
}

func (s *session) tenantsCommand() *cobra.Command {
	return group("tenants", "Create and list tenants",
		s.tenantsCreate(),
		listCommand(s, "List tenants", "v1/tenants", "ID UID NAME CREATED", func(t view.Tenant) []string {
			return []string{t.ID, dash(orZero(t.UID)), dash(t.Name), clock(t.CreatedAt)}
		}),
	)
}

func (s *session) tenantsCreate() *cobra.Command {
	var in struct {
		UID  string `json:"uid,omitempty"`
		Name string `json:"name"`
	}
	cmd := &cobra.Command{
		Use: "create", Short: "Create a tenant", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			in.Name = cmp.Or(in.Name, in.UID)
			return fetch(cmd.Context(), s, request{method: http.MethodPost, path: "v1/tenants", body: in}, func(t view.Tenant) error {
				return s.printf("%s\n", t.ID)
			})
		},
	}
	cmd.Flags().StringVar(&in.UID, "uid", "", "your own id for it, unique")
	cmd.Flags().StringVar(&in.Name, "name", "", "name to show (default its uid)")
	return cmd
}
