package alerts

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/api/destination"
	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/notify"
	"github.com/breakwaterhq/breakwater/internal/sign"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// ChannelBody is a new channel.
type ChannelBody struct {
	Name              string            `json:"name" maxLength:"100"`
	Kind              string            `json:"kind" enum:"log,webhook,slack,email"`
	Levels            []string          `json:"levels,omitempty" maxItems:"3" doc:"endpoint, tenant, system; all when absent."`
	MinSeverity       string            `json:"min_severity,omitempty" enum:"info,warning,page" doc:"All when absent."`
	Rules             []string          `json:"rules,omitempty" maxItems:"100" doc:"All when absent."`
	OperationalEvents []string          `json:"operational_events,omitempty" maxItems:"50" doc:"webhook: breaker.opened, storm.*, or *; none when absent."`
	SendResolved      *bool             `json:"send_resolved,omitempty" doc:"Also tell the end of an alert; true when absent."`
	URL               string            `json:"url,omitempty" maxLength:"2048" doc:"webhook, slack"`
	Secret            string            `json:"secret,omitempty" writeOnly:"true" doc:"webhook: whsec_… or whsk_…; made when absent."`
	Headers           map[string]string `json:"headers,omitempty" doc:"webhook: sent with every request; values cannot be read back."`
	To                []string          `json:"to,omitempty" maxItems:"20" doc:"email"`
}

type operatorChannelCreate struct {
	Body struct {
		ChannelBody
		Tenant string `json:"tenant,omitempty" maxLength:"64" doc:"ten_… or uid: only what is about this tenant, whose keys see the channel too."`
	}
}

// ChannelPatch changes a channel. Kind and tenant stay as they are.
type ChannelPatch struct {
	Name              rest.Change[string]             `json:"name,omitzero" maxLength:"100"`
	Levels            rest.Change[[]string]           `json:"levels,omitzero" maxItems:"3"`
	MinSeverity       rest.Change[string]             `json:"min_severity,omitzero" enum:"info,warning,page"`
	Rules             rest.Change[[]string]           `json:"rules,omitzero" maxItems:"100"`
	OperationalEvents rest.Change[[]string]           `json:"operational_events,omitzero" maxItems:"50"`
	SendResolved      rest.Change[bool]               `json:"send_resolved,omitzero"`
	URL               rest.Change[string]             `json:"url,omitzero" maxLength:"2048"`
	Secret            rest.Change[string]             `json:"secret,omitzero" writeOnly:"true"`
	Headers           rest.Change[map[string]*string] `json:"headers,omitzero" doc:"null removes a header; *** keeps its value."`
	To                rest.Change[[]string]           `json:"to,omitzero" maxItems:"20"`
}

type channelPatch struct {
	ChannelPath
	rest.IfMatch
	Body ChannelPatch
}

// newChannel turns the body of a create into a channel, or names every field that
// is wrong.
func (r *routes) newChannel(c *rest.Call, tenant hook.ID, in *ChannelBody) (store.Channel, error) {
	bad := &rest.Invalid{}
	ch := store.Channel{Channel: hook.Channel{
		ID: r.cfg.IDs.Next(c.Now), Tenant: tenant, Name: in.Name, Levels: readLevels(bad, in.Levels), MinSeverity: readSeverity(bad, in.MinSeverity),
		Rules: in.Rules, OperationalEvents: in.OperationalEvents, SendResolved: in.SendResolved == nil || *in.SendResolved,
		URL: in.URL, Secret: in.Secret, Headers: in.Headers, To: in.To, Version: 1, CreatedAt: c.Now, UpdatedAt: c.Now,
	}}
	var err error
	if ch.Kind, err = hook.ParseChannelKind(in.Kind); err != nil {
		bad.Add("kind", "not_allowed", err.Error())
	}
	if ch.Kind == hook.ChannelLog && tenant != 0 {
		bad.Add("kind", "not_allowed", "must be webhook, slack or email for the channel of a tenant")
	}
	for _, name := range slices.Sorted(maps.Keys(in.Headers)) {
		if in.Headers[name] == view.Masked {
			bad.Add("headers."+name, "not_allowed", "has the value that stands for a hidden one")
		}
	}
	if ch.Kind == hook.ChannelWebhook && ch.Secret == "" {
		secret, err := sign.NewSecret(rand.Reader)
		if err != nil {
			return ch, fmt.Errorf("draw secret: %w", err)
		}
		ch.Secret = secret.Reveal()
	}
	return ch, r.check(bad, &ch.Channel, true)
}

// patched applies the body of a PATCH to a stored channel.
func (r *routes) patched(c *rest.Call, before store.Channel, in *ChannelPatch) (store.Channel, error) {
	bad := &rest.Invalid{}
	ch := before
	in.Name.Apply(&ch.Name)
	if in.Levels.Set {
		ch.Levels = readLevels(bad, in.Levels.To)
	}
	if in.MinSeverity.Set {
		ch.MinSeverity = readSeverity(bad, in.MinSeverity.To)
	}
	in.Rules.Apply(&ch.Rules)
	in.OperationalEvents.Apply(&ch.OperationalEvents)
	if in.SendResolved.Set {
		ch.SendResolved = in.SendResolved.Null || in.SendResolved.To
	}
	// The masked form comes back from a read: it means no change.
	newURL := in.URL.Set && in.URL.To != view.ChannelURL(&before.Channel)
	if newURL {
		ch.URL = in.URL.To
	}
	in.Secret.Apply(&ch.Secret)
	ch.Headers = destination.PatchHeaders(bad, before.Headers, in.Headers)
	in.To.Apply(&ch.To)
	ch.UpdatedAt = c.Now
	return ch, r.check(bad, &ch.Channel, newURL)
}

// check checks what create and change have in common.
func (r *routes) check(bad *rest.Invalid, ch *hook.Channel, newURL bool) error {
	var refused *hook.Invalid
	if err := notify.Check(*ch); errors.As(err, &refused) {
		for _, f := range refused.Fields {
			if !bad.Names(f.Path) {
				bad.Add(f.Path, "invalid", f.Message)
			}
		}
	} else if err != nil {
		return err
	}
	for i, name := range ch.Rules {
		if path := rest.At("rules", i); alert.Lookup(name) == nil && !bad.Names(path) {
			bad.Add(path, "unknown", "is no rule; see /v1/alert-rules")
		}
	}
	if newURL && ch.URL != "" && !bad.Names("url") {
		clean, err := r.cfg.CheckURL(ch.URL)
		if err != nil {
			// The error names the thing it is about; the path does so already.
			bad.AddAs("url_blocked", "url", strings.TrimPrefix(err.Error(), "url "))
		} else {
			ch.URL = clean
		}
	}
	return bad.Err()
}

func readLevels(bad *rest.Invalid, names []string) (out []hook.AlertLevel) {
	for i, name := range names {
		level, err := hook.ParseAlertLevel(name)
		if err != nil {
			bad.Add(rest.At("levels", i), "not_allowed", err.Error())
			continue
		}
		out = append(out, level)
	}
	return out
}

func readSeverity(bad *rest.Invalid, name string) hook.Severity {
	if name == "" {
		return 0
	}
	s, err := hook.ParseSeverity(name)
	if err != nil {
		bad.Add("min_severity", "not_allowed", err.Error())
	}
	return s
}

// channelDiff compares what is shown, and tells of what is hidden that it
// changed.
func channelDiff(before, after store.Channel) map[string]any {
	diff := rest.Diff(showChannel(before), showChannel(after), unaudited)
	for name, changed := range map[string]bool{
		"url": before.URL != after.URL, "secret": before.Secret != after.Secret, "headers": !maps.Equal(before.Headers, after.Headers),
	} {
		if _, told := diff[name]; changed && !told {
			diff[name] = "changed"
		}
	}
	return diff
}
