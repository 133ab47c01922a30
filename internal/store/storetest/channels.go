package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

var channelTests = []test{
	{"a channel comes back as it went in", channelRoundTrip},
	{"a channel is changed by one at a time", channelUpdate},
	{"channels are listed in pages, each tenant's to itself", channelList},
	{"a tenant has a bounded number of channels", channelBound},
	{"a channel needs its tenant, and leaves with it", channelTenant},
}

func (w *world) newChannel(tenant hook.ID) store.Channel {
	id := w.id()
	return store.Channel{Channel: hook.Channel{
		ID: id, Tenant: tenant, Name: fmt.Sprintf("channel %d", id), Kind: hook.ChannelWebhook, Version: 1, CreatedAt: w.now, UpdatedAt: w.now,
	}, Sealed: []byte{1, 2, 3}}
}

func (w *world) channel(tenant hook.ID) store.Channel {
	w.t.Helper()
	c := w.newChannel(tenant)
	w.check(w.db.CreateChannel(w.ctx(), c, 100, w.audit(tenant, "alert_channel.create")), "CreateChannel")
	return c
}

func (w *world) wantChannels(want ...store.Channel) {
	w.t.Helper()
	got, err := w.db.Channels(w.ctx())
	w.check(err, "Channels")
	w.same(got, want, "channels")
}

func channelRoundTrip(w *world) {
	ten := w.tenant()
	c := w.newChannel(ten.ID)
	c.Kind, c.Levels, c.MinSeverity, c.Rules = hook.ChannelEmail, []hook.AlertLevel{hook.LevelEndpoint, hook.LevelTenant}, hook.SeverityPage, []string{"retry_storm"}
	c.OperationalEvents, c.SendResolved, c.To = []string{"breaker.*"}, true, []string{"a@example.com", "b@example.com"}
	w.check(w.db.CreateChannel(w.ctx(), c, 1, w.audit(ten.ID, "alert_channel.create")), "CreateChannel")
	w.wantChannels(c)
	for _, tenant := range []hook.ID{0, ten.ID} {
		got, err := w.db.ChannelByID(w.ctx(), tenant, c.ID)
		w.check(err, "ChannelByID")
		w.same(got, c, "channel")
	}
	_, err := w.db.ChannelByID(w.ctx(), ten.ID+1, c.ID)
	w.wantErr(err, hook.ErrNotFound, "ChannelByID of another tenant")
}

func channelUpdate(w *world) {
	ten := w.tenant()
	c := w.channel(ten.ID)
	w.pass(time.Minute)
	c.Name, c.Levels, c.MinSeverity, c.Rules = "new", []hook.AlertLevel{hook.LevelTenant}, hook.SeverityWarning, []string{"dead_rate"}
	c.OperationalEvents, c.SendResolved, c.To, c.Sealed, c.UpdatedAt = []string{"*"}, true, []string{"c@example.com"}, []byte{9}, w.now
	got, err := w.db.UpdateChannel(w.ctx(), c, w.audit(ten.ID, "alert_channel.update"))
	w.check(err, "UpdateChannel")
	stale := c
	c.Version = 2
	w.same(got, c, "changed channel")
	_, err = w.db.UpdateChannel(w.ctx(), stale, w.audit(ten.ID, "alert_channel.update"))
	w.wantErr(err, hook.ErrVersionMismatch, "UpdateChannel of an old version")
	other := c
	other.Tenant = 0
	_, err = w.db.UpdateChannel(w.ctx(), other, w.audit(ten.ID, "alert_channel.update"))
	w.wantErr(err, hook.ErrNotFound, "UpdateChannel of another tenant")
	w.wantChannels(c)
	w.wantErr(w.db.DeleteChannel(w.ctx(), ten.ID+1, c.ID, w.audit(0, "alert_channel.delete")), hook.ErrNotFound, "DeleteChannel of another tenant")
	w.check(w.db.DeleteChannel(w.ctx(), 0, c.ID, w.audit(0, "alert_channel.delete")), "DeleteChannel")
	w.wantErr(w.db.DeleteChannel(w.ctx(), 0, c.ID, w.audit(0, "alert_channel.delete")), hook.ErrNotFound, "DeleteChannel again")
	w.wantChannels()
}

func channelList(w *world) {
	ten, other := w.tenant(), w.tenant()
	a, b, c, d := w.channel(ten.ID), w.channel(other.ID), w.channel(0), w.channel(ten.ID)
	for _, tc := range []struct {
		tenant hook.ID
		p      store.Page
		want   []store.Channel
	}{
		{0, store.Page{Limit: 3}, []store.Channel{d, c, b}},
		{0, store.Page{Limit: 3, After: b.ID}, []store.Channel{a}},
		{ten.ID, store.Page{Limit: 9, Asc: true}, []store.Channel{a, d}},
		{other.ID, store.Page{Limit: 9}, []store.Channel{b}},
	} {
		got, err := w.db.ListChannels(w.ctx(), tc.tenant, tc.p)
		w.check(err, "ListChannels")
		w.same(got, tc.want, "channels of a page")
	}
}

func channelBound(w *world) {
	ten := w.tenant()
	w.channel(0)
	var wait sync.WaitGroup
	errs := make(chan error, 6)
	for range cap(errs) {
		c := w.newChannel(ten.ID)
		a := w.audit(ten.ID, "alert_channel.create")
		wait.Go(func() { errs <- w.db.CreateChannel(w.ctx(), c, 2, a) })
	}
	wait.Wait()
	close(errs)
	created := 0
	for err := range errs {
		if err == nil {
			created++
			continue
		}
		w.wantErr(err, hook.ErrTooManyChannels, "CreateChannel above the bound")
	}
	w.same(created, 2, "channels that were created at the same moment")
}

func channelTenant(w *world) {
	w.wantErr(w.db.CreateChannel(w.ctx(), w.newChannel(w.id()), 9, w.audit(0, "alert_channel.create")), hook.ErrNotFound, "CreateChannel without its tenant")
	ten := w.tenant()
	mine, other := w.channel(ten.ID), w.channel(0)
	w.save(w.alert("retry_storm", hook.AlertSubject{Tenant: ten.ID}, mine.ID, other.ID))
	w.check(w.db.DeleteTenant(w.ctx(), ten.ID, w.audit(ten.ID, "tenant.delete")), "DeleteTenant")
	w.tenants = w.tenants[:0]
	w.wantChannels(other)
	w.same(len(w.dueNotices()), 1, "notices of the channel that is left")
}
