package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/quantity"
)

func (s *session) keysCommand() *cobra.Command {
	return group("keys", "Create, list and revoke API keys",
		s.keysCreate(), s.keysList(),
		s.actionCommand("revoke KEY...", "Revoke keys at once", "revoked", func(id string) request {
			return request{method: http.MethodDelete, path: "v1/keys/" + url.PathEscape(id)}
		}),
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
			return s.createKey(cmd, in)
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

func (s *session) createKey(cmd *cobra.Command, in keyInput) error {
	c, err := s.client()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	if err := c.call(cmd.Context(), request{method: http.MethodPost, path: "v1/keys", body: in}, &raw); err != nil {
		return err
	}
	if s.json {
		return s.printJSON(raw)
	}
	var created struct{ ID, Key string }
	if err := json.Unmarshal(raw, &created); err != nil {
		return fmt.Errorf("understand answer: %w", err)
	}
	if !s.quiet {
		s.note("%s created; the key is shown once", created.ID)
	}
	return s.printf("%s\n", created.Key)
}

func (s *session) keysList() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "list", Short: "List keys; only the public part of each is known", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			type key struct {
				ID         string    `json:"id"`
				Name       string    `json:"name"`
				Prefix     string    `json:"prefix"`
				Scope      string    `json:"scope"`
				Tenant     string    `json:"tenant"`
				LastUsedAt time.Time `json:"last_used_at"`
				ExpiresAt  time.Time `json:"expires_at"`
			}
			return listCommand(s, cmd, "v1/keys", url.Values{}, limit, "ID PREFIX SCOPE TENANT NAME LAST-USED EXPIRES", func(k key) []string {
				return []string{k.ID, k.Prefix, k.Scope, dash(k.Tenant), dash(k.Name), clock(k.LastUsedAt), clock(k.ExpiresAt)}
			})
		},
	}
	limitFlag(cmd, &limit)
	return cmd
}

func (s *session) tenantsCommand() *cobra.Command {
	return group("tenants", "Create and list tenants", s.tenantsCreate(), s.tenantsList())
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
			c, err := s.client()
			if err != nil {
				return err
			}
			var raw json.RawMessage
			if err := c.call(cmd.Context(), request{method: http.MethodPost, path: "v1/tenants", body: in}, &raw); err != nil {
				return err
			}
			if s.json {
				return s.printJSON(raw)
			}
			var created struct{ ID string }
			if err := json.Unmarshal(raw, &created); err != nil {
				return fmt.Errorf("understand answer: %w", err)
			}
			return s.printf("%s\n", created.ID)
		},
	}
	cmd.Flags().StringVar(&in.UID, "uid", "", "your own id for it, unique")
	cmd.Flags().StringVar(&in.Name, "name", "", "name to show (default its uid)")
	return cmd
}

func (s *session) tenantsList() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "list", Short: "List tenants", Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			type tenant struct {
				ID        string    `json:"id"`
				UID       string    `json:"uid"`
				Name      string    `json:"name"`
				CreatedAt time.Time `json:"created_at"`
			}
			return listCommand(s, cmd, "v1/tenants", url.Values{}, limit, "ID UID NAME CREATED", func(t tenant) []string {
				return []string{t.ID, dash(t.UID), dash(t.Name), clock(t.CreatedAt)}
			})
		},
	}
	limitFlag(cmd, &limit)
	return cmd
}
