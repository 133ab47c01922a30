package endpoints

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/ui/site"
)

// pause is how an endpoint came to be halted. What is not known is empty.
type pause struct {
	at       time.Time
	by, note string
}

// findPause finds out when the endpoint was halted, by whom and why, also before the
// window of the charts.
func (p *one) findPause(v *site.Visit) error {
	if !p.Lane.Paused {
		return nil
	}
	if site.Either(p.Endpoint.StatusReason, "") == "manual" {
		if err := p.whoPaused(v); err != nil || !p.paused.at.IsZero() {
			return err
		}
	}
	for i := range p.events {
		if e := &p.events[i]; e.Type == "endpoint.paused" || e.Type == "endpoint.disabled" {
			p.paused.at = time.Time(e.At)
			return nil
		}
	}
	var older site.List[view.OperationalEvent]
	q := url.Values{"endpoint": {p.Endpoint.ID}, "type": {"endpoint.paused", "endpoint.disabled"}, "limit": {"1"}}
	if err := v.Get(v.API("operational-events"), q, &older); err != nil {
		return err
	}
	if len(older.Data) > 0 {
		p.paused.at = time.Time(older.Data[0].At)
	}
	return nil
}

// whoPaused asks the audit log. Records of changes go before endpoints do: there may be
// none.
func (p *one) whoPaused(v *site.Visit) error {
	var list site.List[view.Audit]
	q := url.Values{"subject": {p.Endpoint.ID}, "action": {"endpoint.pause", "endpoint.disable", "endpoint.create"}, "limit": {"1"}}
	if err := v.Get(v.API("audit"), q, &list); err != nil || len(list.Data) == 0 {
		return err
	}
	a := &list.Data[0]
	p.paused.at = time.Time(a.At)
	if v.Me.Portal { // keys and notes are the vendor's business
		return nil
	}
	var diff struct{ Note string }
	if json.Unmarshal(a.Diff, &diff) == nil {
		p.paused.note = diff.Note
	}
	names, err := v.KeyNames()
	if err != nil {
		return err
	}
	if p.paused.by = a.Actor.Key; names[a.Actor.Key] != "" {
		p.paused.by = "key “" + names[a.Actor.Key] + "”"
	}
	return nil
}
