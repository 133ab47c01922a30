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
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

func (s *session) keysCommand() *cobra.Command {
	return kit.Group("keys", "Create, list and revoke API keys",
		s.keysCreate(),
		kit.ListCommand(s.Session, "List keys; only the public part of each is known", "v1/keys", "ID PREFIX SCOPE TENANT NAME LAST-USED EXPIRES", func(k view.Key) []string {
			return []string{k.ID, kit.OrZero(k.Prefix), k.Scope, kit.Dash(kit.OrZero(k.Tenant)), kit.Dash(k.Name), kit.Clock(k.LastUsedAt), kit.Clock(k.ExpiresAt)}
		}),
		s.ActionCommand("revoke KEY...", "DELETE v1/keys/ID", "Revoke keys at once", "revoked"),
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
		Use: "create", Short: "Create a key; it is printed once, alone on stdout", Args: kit.WantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.HasPrefix(in.Scope, "tenant:") {
				in.Tenant = s.Tenant
			}
			var err error
			if in.ExpiresAt, err = readMoment(expires, time.Now()); err != nil {
				return kit.Usagef("--expires: %w", err)
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
	return kit.Fetch(ctx, s.Session, kit.Request{Method: http.MethodPost, Path: "v1/keys", Body: in}, func(k created) error {
		if !s.Quiet {
			s.Note("%s created; the key is shown once", k.ID)
		}
		return s.Printf("%s\n", k.Key)
	})
}

func (s *session) tenantsCommand() *cobra.Command {
	return kit.Group("tenants", "Create, list, change and delete tenants",
		s.tenantsCreate(),
		kit.ListCommand(s.Session, "List tenants", "v1/tenants", "ID UID NAME CREATED", func(t view.Tenant) []string {
			return []string{t.ID, kit.Dash(kit.OrZero(t.UID)), kit.Dash(t.Name), kit.Clock(t.CreatedAt)}
		}),
		s.ShowCommand("get TENANT", "Show a tenant", "v1/tenants/ID"),
		s.tenantsUpdate(), s.tenantsDelete(), s.portalLink(),
	)
}

func (s *session) tenantsCreate() *cobra.Command {
	var in struct {
		UID  string `json:"uid,omitempty"`
		Name string `json:"name"`
	}
	cmd := &cobra.Command{
		Use: "create", Short: "Create a tenant", Args: kit.WantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			in.Name = cmp.Or(in.Name, in.UID)
			return kit.Fetch(cmd.Context(), s.Session, kit.Request{Method: http.MethodPost, Path: "v1/tenants", Body: in}, func(t view.Tenant) error {
				return s.Printf("%s\n", t.ID)
			})
		},
	}
	cmd.Flags().StringVar(&in.UID, "uid", "", "your own id for it, unique")
	cmd.Flags().StringVar(&in.Name, "name", "", "name to show (default its uid)")
	return cmd
}
