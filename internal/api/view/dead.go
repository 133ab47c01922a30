package view

import (
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// DeadGroups are dead letters, added up.
type DeadGroups struct {
	Data      []DeadGroup `json:"data" nullable:"false" doc:"The largest first, at most 250."`
	Count     int         `json:"count" doc:"Dead letters in all groups, also those that are left out."`
	Exact     bool        `json:"exact" doc:"false: there are at least that many, in these groups and perhaps in others. The newest 10,000 dead letters were added up, or 5,000 with a type."`
	Truncated bool        `json:"truncated" doc:"There are more than 250 groups."`
}

// DeadGroup are dead letters of one endpoint that died for the same reason after
// the same answer.
type DeadGroup struct {
	Tenant     string `json:"tenant"`
	Endpoint   string `json:"endpoint"`
	Reason     string `json:"reason" doc:"As in a delivery."`
	StatusCode *int   `json:"status_code" doc:"Of the last attempt; null: there was no answer."`
	Count      int    `json:"count"`
	Oldest     Stamp  `json:"oldest" doc:"When the first of them died."`
	Newest     Stamp  `json:"newest" doc:"When the last of them died."`
	KeptUntil  Stamp  `json:"kept_until" doc:"Retention removes the first of them then, or later."`
	Sample     string `json:"sample" doc:"The youngest delivery among them."`
}

// OfDeadGroups shows groups, where data is kept for some time; 0: for ever.
func OfDeadGroups(g store.DeadGroups, kept time.Duration) DeadGroups {
	v := DeadGroups{Data: make([]DeadGroup, len(g.Groups)), Count: g.Count, Exact: g.Exact, Truncated: g.Cut}
	for i, d := range g.Groups {
		v.Data[i] = DeadGroup{
			Tenant: hook.TenantPrefix.Format(d.Tenant), Endpoint: hook.EndpointPrefix.Format(d.Endpoint), Reason: d.Reason.String(),
			Count: d.Count, Oldest: Stamp(d.Oldest), Newest: Stamp(d.Newest), Sample: hook.DeliveryPrefix.Format(d.Sample),
		}
		if kept > 0 {
			first := hook.Delivery{EventID: d.First, State: hook.Dead, SettledAt: d.Oldest} // none is older, or died earlier
			v.Data[i].KeptUntil = Stamp(first.KeptUntil(kept))
		}
		if d.Status != 0 {
			v.Data[i].StatusCode = &d.Status
		}
	}
	return v
}

// Discarded is what became of a request to discard dead letters.
type Discarded struct {
	Discarded int  `json:"discarded" doc:"Cancelled by this request."`
	Complete  bool `json:"complete" doc:"false: time was up, and some are left; ask again."`
}
