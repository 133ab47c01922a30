package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// DeliveryParams are the filters of deliveries.
type DeliveryParams struct {
	rest.WindowParams
	Reason   []string `query:"reason,explode" doc:"Why they are dead or cancelled; repeat for alternatives."`
	Endpoint []string `query:"endpoint,explode" doc:"ep_… or uid."`
	Type     []string `query:"type,explode" doc:"order.paid or order.*"`
	Event    string   `query:"event" maxLength:"64"`
}

// StatusParams filter deliveries by status, and by what keeps them.
type StatusParams struct {
	Status     []string `query:"status,explode" doc:"pending, delivered, dead or cancelled; or one of the views held and retrying."`
	WaitingFor []string `query:"waiting_for,explode" doc:"Due, but not sent because the endpoint is paused or disabled (paused), its breaker is open (open), it asked for silence (hold), or its lane is paced (pace); repeat for alternatives. What is in flight at this moment is among those."`
}

type deliveryList struct {
	rest.TenantPath
	rest.PageParams
	DeliveryParams
	StatusParams
}

type deliveryCount struct {
	rest.TenantPath
	DeliveryParams
	StatusParams
}

type deadList struct {
	rest.TenantPath
	rest.PageParams
	DeliveryParams
}

type deadCount struct {
	rest.TenantPath
	DeliveryParams
}

type eventDeliveryList struct {
	EventPath
	rest.PageParams
}

// DeliveryPath is a delivery of a path.
type DeliveryPath struct {
	rest.TenantPath
	Delivery string `path:"delivery" maxLength:"64"`
}

type deliveryAction struct {
	DeliveryPath
	Noted
}

type countView struct {
	Count int  `json:"count"`
	Exact bool `json:"exact" doc:"false: there are at least that many. Counting stops at 100,000, and when 10,000 had to be looked at (5,000 with a type)."`
}

// maxCount is where counting stops: whoever counts wants to know how bad it is,
// and that within the time of a glance.
const maxCount = 100_000

// largeAttempts is what the attempts of one delivery count for while they are
// read.
const largeAttempts = 1 << 20

const (
	deliveriesPath = tenantPath + "/deliveries"
	deliveryPath   = deliveriesPath + "/{delivery}"
	deadPath       = tenantPath + "/dead-letters"
)

func (a *API) addDeliveryRoutes() {
	g := a.server.Group("deliveries")
	rest.Add(g, rest.NeedRead, "GET "+deliveriesPath, "list-deliveries", "List deliveries",
		func(ctx context.Context, c *rest.Call, in *deliveryList) (*rest.ListOutput[view.Delivery], error) {
			return a.listDeliveries(ctx, c, in.PageParams, in.DeliveryParams, in.StatusParams)
		})
	rest.Add(g, rest.NeedRead, "GET "+deliveriesPath+"/count", "count-deliveries", "Count deliveries",
		func(ctx context.Context, c *rest.Call, in *deliveryCount) (*rest.Output[countView], error) {
			return a.countDeliveries(ctx, c, in.DeliveryParams, in.StatusParams)
		})
	rest.Add(g, rest.NeedRead, "GET "+deadPath, "list-dead-letters", "List dead letters",
		func(ctx context.Context, c *rest.Call, in *deadList) (*rest.ListOutput[view.Delivery], error) {
			return a.listDeliveries(ctx, c, in.PageParams, in.DeliveryParams, onlyDead)
		})
	rest.Add(g, rest.NeedRead, "GET "+deadPath+"/count", "count-dead-letters", "Count dead letters",
		func(ctx context.Context, c *rest.Call, in *deadCount) (*rest.Output[countView], error) {
			return a.countDeliveries(ctx, c, in.DeliveryParams, onlyDead)
		})
	rest.Add(g, rest.NeedRead, "GET "+deliveryPath, "get-delivery", "Get a delivery", a.getDelivery)
	rest.Add(g, rest.NeedRead, "GET "+deliveryPath+"/attempts", "list-attempts", "List the attempts of a delivery, oldest first", a.listAttempts)
	rest.Add(g, rest.NeedWrite, "POST "+deliveryPath+"/retry", "retry-delivery", "Send once more now, whatever its status", a.retryDelivery)
	rest.Add(g, rest.NeedWrite, "POST "+deliveryPath+"/cancel", "cancel-delivery", "Cancel a pending delivery", a.cancelDelivery)
}

var onlyDead = StatusParams{Status: []string{"dead"}}

func (a *API) listDeliveries(ctx context.Context, c *rest.Call, p rest.PageParams, in DeliveryParams, status StatusParams) (*rest.ListOutput[view.Delivery], error) {
	f, none, err := a.deliveryFilter(ctx, c, in, status)
	if err != nil {
		return nil, err
	}
	return a.readDeliveries(ctx, c, p, f, none)
}

// readDeliveries shows a page of what a filter matches; none: nothing does.
func (a *API) readDeliveries(ctx context.Context, c *rest.Call, p rest.PageParams, f store.DeliveryFilter, none bool) (*rest.ListOutput[view.Delivery], error) {
	page, err := a.server.Page(c, p)
	if err != nil {
		return nil, err
	}
	var rows []store.DeliveryRow
	var next hook.ID
	if !none {
		if rows, next, err = a.cfg.Store.ListDeliveries(ctx, f, page); err != nil {
			return nil, err
		}
	}
	h, err := a.holdingOf(ctx, rows)
	if err != nil {
		return nil, err
	}
	return rest.PagedUpTo(a.server, c, p, rows, next, func(r store.DeliveryRow) hook.ID { return r.ID }, h.show)
}

func (a *API) countDeliveries(ctx context.Context, c *rest.Call, in DeliveryParams, status StatusParams) (*rest.Output[countView], error) {
	f, none, err := a.deliveryFilter(ctx, c, in, status)
	if err != nil {
		return nil, err
	}
	n := store.Counted{Exact: true}
	if !none {
		if n, err = a.cfg.Store.CountMatching(ctx, f, store.Page{Limit: maxCount}); err != nil {
			return nil, fmt.Errorf("count deliveries: %w", err)
		}
	}
	return &rest.Output[countView]{Body: countView{Count: n.N, Exact: n.Exact}}, nil
}

// deliveryFilter reads the filters. none means that nothing can match.
func (a *API) deliveryFilter(ctx context.Context, c *rest.Call, in DeliveryParams, status StatusParams) (f store.DeliveryFilter, none bool, err error) {
	f.Tenant, f.Types = c.Tenant, in.Type
	if err = checkPatterns(in.Type); err != nil {
		return f, false, err
	}
	if err = checkWaits(status.WaitingFor); err != nil {
		return f, false, err
	}
	if f.Since, f.Until, err = in.Times(c.Now); err != nil {
		return f, false, err
	}
	for _, s := range in.Reason {
		r, err := hook.ParseEndReason(s)
		if err != nil {
			return f, false, rest.BadParameter("query.reason", err.Error())
		}
		f.Reasons = append(f.Reasons, r)
	}
	if in.Event != "" {
		if f.Event, err = hook.EventPrefix.Parse(in.Event); err != nil {
			return f, false, rest.BadParameter("query.event", "must be an event id")
		}
	}
	if f.Endpoints, err = a.filterEndpoints(ctx, c, in.Endpoint); err != nil {
		return f, false, err
	}
	if f, none, err = a.filterStatus(ctx, f, status.Status); none || err != nil {
		return f, none, err
	}
	return a.filterWaiting(ctx, c, f, status.WaitingFor)
}

// filterEndpoints reads the endpoint filter. Ids are not looked up: the tenant
// in the filter keeps foreign ones out.
func (a *API) filterEndpoints(ctx context.Context, c *rest.Call, list []string) ([]hook.ID, error) {
	var out []hook.ID
	for _, text := range list {
		if strings.HasPrefix(text, string(hook.EndpointPrefix)) {
			id, err := hook.EndpointPrefix.Parse(text)
			if err != nil {
				return nil, rest.BadParameter("query.endpoint", "must be an endpoint id or uid")
			}
			out = append(out, id)
			continue
		}
		e, err := a.endpoint(ctx, c, text)
		if errors.Is(err, hook.ErrNotFound) {
			return nil, rest.BadParameter("query.endpoint", "names an endpoint that does not exist")
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e.ID)
	}
	return out, nil
}

// filterStatus reads statuses and views. A view stands alone: it is a condition
// on top of pending, and filters cannot say "this or that view".
func (a *API) filterStatus(ctx context.Context, f store.DeliveryFilter, status []string) (store.DeliveryFilter, bool, error) {
	for _, s := range status {
		isView := s == view.Held || s == view.Retrying
		if isView && len(status) > 1 {
			return f, false, rest.BadParameter("query.status", s+" cannot be combined with other values")
		}
		if isView {
			return a.filterView(ctx, f, s)
		}
		state, err := hook.ParseDeliveryState(s)
		if err != nil {
			return f, false, rest.BadParameter("query.status", err.Error()+", held, retrying")
		}
		f.States = append(f.States, state)
	}
	return f, false, nil
}

func (a *API) filterView(ctx context.Context, f store.DeliveryFilter, name string) (store.DeliveryFilter, bool, error) {
	f.States = []hook.DeliveryState{hook.Pending}
	if name == view.Retrying {
		f.Retrying = true
		return f, false, nil
	}
	var err error
	f.Endpoints, err = a.endpointsThat(ctx, f.Tenant, f.Endpoints, view.IsHolding)
	return f, len(f.Endpoints) == 0, err
}

func (a *API) listEventDeliveries(ctx context.Context, c *rest.Call, in *eventDeliveryList) (*rest.ListOutput[view.Delivery], error) {
	e, err := a.event(ctx, c, in.Event)
	if err != nil {
		return nil, err
	}
	return a.readDeliveries(ctx, c, in.PageParams, store.DeliveryFilter{Tenant: e.TenantID, Event: e.ID}, false)
}

func (a *API) getDelivery(ctx context.Context, c *rest.Call, in *DeliveryPath) (*rest.Output[view.Delivery], error) {
	row, err := a.delivery(ctx, c, in.Delivery)
	if err != nil {
		return nil, err
	}
	v, err := a.showDelivery(ctx, row)
	return &rest.Output[view.Delivery]{Body: v}, err
}

func (a *API) delivery(ctx context.Context, c *rest.Call, text string) (store.DeliveryRow, error) {
	return byID(ctx, c, hook.DeliveryPrefix, text, a.cfg.Store.DeliveryByID)
}

func (a *API) showDelivery(ctx context.Context, row store.DeliveryRow) (view.Delivery, error) {
	h, err := a.holdingOf(ctx, []store.DeliveryRow{row})
	return h.show(row), err
}

func (a *API) listAttempts(ctx context.Context, c *rest.Call, in *DeliveryPath) (*rest.ListOutput[view.Attempt], error) {
	row, err := a.delivery(ctx, c, in.Delivery)
	if err != nil {
		return nil, err
	}
	if err := a.server.Large(ctx, c, largeAttempts); err != nil {
		return nil, err
	}
	attempts, err := a.cfg.Store.AttemptsOf(ctx, row.TenantID, row.ID)
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	out := &rest.ListOutput[view.Attempt]{Body: rest.List[view.Attempt]{Data: make([]view.Attempt, len(attempts))}}
	for i, t := range attempts {
		out.Body.Data[i] = view.OfAttempt(t)
	}
	return out, nil
}

func (a *API) retryDelivery(ctx context.Context, c *rest.Call, in *deliveryAction) (*rest.Accepted[view.Delivery], error) {
	v, err := a.commandDelivery(ctx, c, in, "delivery.retry", a.cfg.Store.RetryDelivery, func(store.DeliveryRow) *rest.Problem {
		return rest.Conflict("deleted", "its endpoint is deleted")
	})
	return &rest.Accepted[view.Delivery]{Body: v}, err
}

func (a *API) cancelDelivery(ctx context.Context, c *rest.Call, in *deliveryAction) (*rest.Output[view.Delivery], error) {
	v, err := a.commandDelivery(ctx, c, in, "delivery.cancel", a.cfg.Store.CancelDelivery, func(before store.DeliveryRow) *rest.Problem {
		return rest.Conflict(before.State.String(), "only a pending delivery can be cancelled")
	})
	return &rest.Output[view.Delivery]{Body: v}, err
}

// commandDelivery changes a delivery on a person's word, with an audit record,
// and tells its lane, which may have it in memory. refused says what stands in
// the way when its state does.
func (a *API) commandDelivery(ctx context.Context, c *rest.Call, in *deliveryAction, action string,
	change func(_ context.Context, tenant, id hook.ID, now time.Time, rec hook.Audit) (store.DeliveryRow, error),
	refused func(before store.DeliveryRow) *rest.Problem,
) (view.Delivery, error) {
	row, err := a.delivery(ctx, c, in.Delivery)
	if err != nil {
		return view.Delivery{}, err
	}
	note, err := in.note()
	if err != nil {
		return view.Delivery{}, err
	}
	diff := map[string]any{"status": row.State.String()}
	if note != "" {
		diff["note"] = note
	}
	rec := a.server.Audit(c, row.TenantID, action, hook.DeliveryPrefix.Format(row.ID), diff)
	after, err := change(ctx, row.TenantID, row.ID, c.Now, rec)
	switch {
	case errors.Is(err, hook.ErrStateConflict):
		return view.Delivery{}, refused(row)
	case err != nil:
		return view.Delivery{}, err
	}
	a.cfg.Notifier.DeliveryChanged(after.TenantID, after.EndpointID)
	return a.showDelivery(ctx, after)
}
