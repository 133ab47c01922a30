package alerts

import (
	"context"
	"errors"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// How many channels there may be: every notice is decided for each of them.
const (
	maxTenantChannels   = 20
	maxOperatorChannels = 100
)

// ChannelPath is a channel of a path.
type ChannelPath struct {
	Channel string `path:"channel" maxLength:"64" doc:"ach_…; log is the one that is always there."`
}

// tenantOf is the input of a route below a tenant.
type (
	tenantChannels struct {
		rest.TenantPath
		rest.PageParams
	}
	tenantChannel struct {
		rest.TenantPath
		ChannelPath
	}
	tenantChannelCreate struct {
		rest.TenantPath
		Body ChannelBody
	}
	tenantChannelPatch struct {
		rest.TenantPath
		ChannelPath
		rest.IfMatch
		Body ChannelPatch
	}
)

// addChannelRoutes adds the same routes twice: for the operator, who sees the
// channels of all, and below each tenant.
func (r *routes) addChannelRoutes() {
	const operator, operatorOne = "/v1/alert-channels", "/v1/alert-channels/{channel}"
	g := r.server.Group("alert channels")
	rest.Add(g, rest.NeedAdminRead, "GET "+operator, "list-all-alert-channels", "List alert channels", r.listChannels)
	rest.Add(g, rest.NeedAdmin, "POST "+operator, "create-operator-alert-channel", "Create an alert channel", r.createForAny)
	rest.Add(g, rest.NeedAdminRead, "GET "+operatorOne, "get-any-alert-channel", "Get an alert channel", r.getChannel)
	rest.Add(g, rest.NeedAdmin, "PATCH "+operatorOne, "change-any-alert-channel", "Change an alert channel",
		func(ctx context.Context, c *rest.Call, in *channelPatch) (*rest.Versioned[view.AlertChannel], error) {
			return r.patchChannel(ctx, c, in.Channel, in.IfMatch, &in.Body)
		})
	rest.Add(g, rest.NeedAdmin, "DELETE "+operatorOne, "delete-any-alert-channel", "Delete an alert channel", r.deleteChannel)
	rest.Add(g, rest.NeedAdmin, "POST "+operatorOne+"/test", "test-any-alert-channel", "Send a test over an alert channel", r.testChannel)

	const tenant, tenantOne = tenantPath + "/alert-channels", tenantPath + "/alert-channels/{channel}"
	rest.Add(g, rest.NeedRead, "GET "+tenant, "list-alert-channels", "List the alert channels of a tenant",
		func(ctx context.Context, c *rest.Call, in *tenantChannels) (*rest.ListOutput[view.AlertChannel], error) {
			return r.listChannels(ctx, c, &in.PageParams)
		})
	rest.Add(g, rest.NeedWrite, "POST "+tenant, "create-alert-channel", "Create an alert channel of a tenant", r.createForTenant)
	rest.Add(g, rest.NeedRead, "GET "+tenantOne, "get-alert-channel", "Get an alert channel of a tenant",
		func(ctx context.Context, c *rest.Call, in *tenantChannel) (*rest.Versioned[view.AlertChannel], error) {
			return r.getChannel(ctx, c, &in.ChannelPath)
		})
	rest.Add(g, rest.NeedWrite, "PATCH "+tenantOne, "change-alert-channel", "Change an alert channel of a tenant",
		func(ctx context.Context, c *rest.Call, in *tenantChannelPatch) (*rest.Versioned[view.AlertChannel], error) {
			return r.patchChannel(ctx, c, in.Channel, in.IfMatch, &in.Body)
		})
	rest.Add(g, rest.NeedWrite, "DELETE "+tenantOne, "delete-alert-channel", "Delete an alert channel of a tenant",
		func(ctx context.Context, c *rest.Call, in *tenantChannel) (*rest.Nothing, error) {
			return r.deleteChannel(ctx, c, &in.ChannelPath)
		})
	rest.Add(g, rest.NeedWrite, "POST "+tenantOne+"/test", "test-alert-channel", "Send a test over an alert channel of a tenant",
		func(ctx context.Context, c *rest.Call, in *tenantChannel) (*rest.Output[view.ChannelTest], error) {
			return r.testChannel(ctx, c, &in.ChannelPath)
		})
}

func (r *routes) listChannels(ctx context.Context, c *rest.Call, in *rest.PageParams) (*rest.ListOutput[view.AlertChannel], error) {
	read := func(p store.Page) ([]store.Channel, error) {
		list, err := r.cfg.Store.ListChannels(ctx, c.Tenant, p)
		for i := range list {
			// One that the keys of this server do not open is shown without what
			// is sealed: it can still be deleted.
			_ = r.cfg.Vault.OpenChannel(&list[i].Channel, list[i].Sealed)
		}
		return list, err
	}
	return rest.ListOf(r.server, c, *in, read, func(ch store.Channel) hook.ID { return ch.ID }, showChannel)
}

func showChannel(ch store.Channel) view.AlertChannel {
	last4 := ""
	if s, err := sign.ParseSecret(ch.Secret); err == nil {
		last4 = s.Last4()
	}
	return view.OfChannel(ch, last4)
}

// channel reads the channel of the path and opens it.
func (r *routes) channel(ctx context.Context, c *rest.Call, text string) (store.Channel, error) {
	if text == view.LogChannel && c.Tenant == 0 {
		return store.Channel{Channel: alert.LogChannel()}, nil
	}
	id, err := hook.ChannelPrefix.Parse(text)
	if err != nil {
		return store.Channel{}, hook.ErrNotFound
	}
	ch, err := r.cfg.Store.ChannelByID(ctx, c.Tenant, id)
	if err != nil {
		return ch, err
	}
	return ch, r.cfg.Vault.OpenChannel(&ch.Channel, ch.Sealed)
}

func (r *routes) getChannel(ctx context.Context, c *rest.Call, in *ChannelPath) (*rest.Versioned[view.AlertChannel], error) {
	ch, err := r.channel(ctx, c, in.Channel)
	if err != nil {
		return nil, err
	}
	return shown(ch), nil
}

func shown(ch store.Channel) *rest.Versioned[view.AlertChannel] {
	return &rest.Versioned[view.AlertChannel]{ETag: rest.ETag(ch.Version), Body: showChannel(ch)}
}

// ChannelFields embeds a channel in another answer.
type ChannelFields view.AlertChannel

type channelCreated struct {
	ChannelFields
	Secret string `json:"secret,omitempty" doc:"Of a webhook. Shown once."`
}

func (r *routes) createForTenant(ctx context.Context, c *rest.Call, in *tenantChannelCreate) (*rest.Created[channelCreated], error) {
	tenant, err := c.OneTenant()
	if err != nil {
		return nil, err
	}
	return r.createChannel(ctx, c, tenant, &in.Body, "/v1/tenants/"+hook.TenantPrefix.Format(tenant)+"/alert-channels/")
}

func (r *routes) createForAny(ctx context.Context, c *rest.Call, in *operatorChannelCreate) (*rest.Created[channelCreated], error) {
	var tenant hook.ID
	if in.Body.Tenant != "" {
		var err error
		tenant, err = r.cfg.TenantID(ctx, in.Body.Tenant)
		switch {
		case errors.Is(err, hook.ErrNotFound):
			return nil, rest.FieldError("tenant", "unknown", "does not exist")
		case err != nil:
			return nil, fmt.Errorf("read tenant: %w", err)
		}
	}
	return r.createChannel(ctx, c, tenant, &in.Body.ChannelBody, "/v1/alert-channels/")
}

func (r *routes) createChannel(ctx context.Context, c *rest.Call, tenant hook.ID, in *ChannelBody, path string) (*rest.Created[channelCreated], error) {
	ch, err := r.newChannel(c, tenant, in)
	if err != nil {
		return nil, err
	}
	if ch.Sealed, err = r.cfg.Vault.SealChannel(&ch.Channel); err != nil {
		return nil, err
	}
	v := showChannel(ch)
	most := int64(maxOperatorChannels)
	if tenant != 0 {
		most = maxTenantChannels
	}
	record := r.server.Audit(c, tenant, "alert_channel.create", v.ID, rest.Diff(nil, v, unaudited))
	err = r.cfg.Store.CreateChannel(ctx, ch, most, record)
	switch {
	case errors.Is(err, hook.ErrTooManyChannels):
		return nil, rest.FieldError("alert_channels", "out_of_range", fmt.Sprintf("must be at most %d; delete one first", most))
	case err != nil:
		return nil, fmt.Errorf("create channel: %w", err)
	}
	return &rest.Created[channelCreated]{Location: path + v.ID, Body: channelCreated{ChannelFields: ChannelFields(v), Secret: ch.Secret}}, nil
}

// unaudited fields change with every write, or without one.
var unaudited = map[string]bool{"version": true, "updated_at": true, "failing_since": true, "error": true, "events_dropped": true}

func (r *routes) patchChannel(ctx context.Context, c *rest.Call, text string, match rest.IfMatch, in *ChannelPatch) (*rest.Versioned[view.AlertChannel], error) {
	return rest.Update(match, func() (*rest.Versioned[view.AlertChannel], error) {
		before, err := r.stored(ctx, c, text)
		if err != nil {
			return nil, err
		}
		if err := match.Check(before.Version); err != nil {
			return nil, err
		}
		after, err := r.patched(c, before, in)
		if err != nil {
			return nil, err
		}
		if after.Sealed, err = r.cfg.Vault.SealChannel(&after.Channel); err != nil {
			return nil, err
		}
		record := r.server.Audit(c, after.Tenant, "alert_channel.change", view.ChannelID(after.ID), channelDiff(before, after))
		stored, err := r.cfg.Store.UpdateChannel(ctx, after, record)
		if err != nil {
			return nil, fmt.Errorf("change channel: %w", err)
		}
		stored.URL, stored.Secret, stored.Headers = after.URL, after.Secret, after.Headers
		return shown(stored), nil
	})
}

// stored reads the channel of the path unless it is the one without a row.
func (r *routes) stored(ctx context.Context, c *rest.Call, text string) (store.Channel, error) {
	ch, err := r.channel(ctx, c, text)
	if err == nil && ch.ID == hook.LogChannelID {
		return ch, rest.Conflict(view.LogChannel, "the log channel is always there, as it is; create one of kind log to filter")
	}
	return ch, err
}

func (r *routes) deleteChannel(ctx context.Context, c *rest.Call, in *ChannelPath) (*rest.Nothing, error) {
	id, err := hook.ChannelPrefix.Parse(in.Channel)
	if err != nil || id == hook.LogChannelID {
		if _, err := r.stored(ctx, c, in.Channel); err != nil {
			return nil, err
		}
		return nil, hook.ErrNotFound
	}
	// Its tenant is known once it is read; what is sealed need not be opened.
	ch, err := r.cfg.Store.ChannelByID(ctx, c.Tenant, id)
	if err != nil {
		return nil, err
	}
	record := r.server.Audit(c, ch.Tenant, "alert_channel.delete", view.ChannelID(id), nil)
	if err := r.cfg.Store.DeleteChannel(ctx, ch.Tenant, id, record); err != nil {
		return nil, fmt.Errorf("delete channel: %w", err)
	}
	return &rest.Nothing{}, nil
}

// testChannel sends a test over a channel. It is recorded: somebody hears of it.
func (r *routes) testChannel(ctx context.Context, c *rest.Call, in *ChannelPath) (*rest.Output[view.ChannelTest], error) {
	ch, err := r.channel(ctx, c, in.Channel)
	if err != nil {
		return nil, err
	}
	if r.cfg.Test == nil {
		return &rest.Output[view.ChannelTest]{Body: view.ChannelTest{Result: "failed", Detail: "this server sends no notices"}}, nil
	}
	if err := r.tests.take(c.Key.TenantID, c.Now); err != nil {
		return nil, err
	}
	if err := r.cfg.Store.WriteAudit(ctx, r.server.Audit(c, ch.Tenant, "alert_channel.test", view.ChannelID(ch.ID), nil)); err != nil {
		return nil, fmt.Errorf("write audit record: %w", err)
	}
	out := view.ChannelTest{Result: "failed"}
	ok, detail := r.cfg.Test(ctx, ch.Channel)
	if out.Detail = detail; ok {
		out.Result = "ok"
		if err := r.cfg.Store.ChannelWorked(ctx, ch.ID); err != nil {
			return nil, fmt.Errorf("note that the channel works: %w", err)
		}
	}
	return &rest.Output[view.ChannelTest]{Body: out}, nil
}
