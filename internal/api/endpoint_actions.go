package api

import (
	"context"
	"fmt"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
)

// reasonManual is the status reason of what a person did.
const reasonManual = "manual"

type endpointAction struct {
	EndpointPath
	Noted
}

func (a *API) addEndpointActionRoutes() {
	g := a.server.Group("endpoints")
	for _, act := range []struct {
		name, summary string
		to            hook.EndpointState
	}{
		{"pause", "Hold all deliveries", hook.Paused},
		{"disable", "Turn the endpoint off; deliveries are held", hook.Disabled},
		{"resume", "End a pause or a disabling and deliver through slow start", hook.Active},
	} {
		rest.Add(g, rest.NeedWrite, "POST "+endpointPath+"/"+act.name, act.name+"-endpoint", act.summary,
			func(ctx context.Context, c *rest.Call, in *endpointAction) (*rest.Output[view.Lane], error) {
				return a.setState(ctx, c, in, "endpoint."+act.name, act.to)
			})
	}
	rest.Add(g, rest.NeedWrite, "POST "+endpointPath+"/probe", "probe-endpoint", "Send one probe now", a.probe)
	rest.Add(g, rest.NeedWrite, "POST "+endpointPath+"/reset", "reset-endpoint",
		"Close the breaker by hand, forget what was learnt and start slowly", a.reset,
		rest.Describe("The lane closes, a Retry-After that is being waited for ends, and everything under `learnt` is forgotten: what the endpoint refused, "+
			"what broke it, and how far its recovery was. For an endpoint that was repaired or replaced. The owner of the lane does it within a second or two: "+
			"the answer shows the lane as it was last saved."))
}

// setState moves an endpoint to another state. Asked for the state it has, it
// changes nothing.
func (a *API) setState(ctx context.Context, c *rest.Call, in *endpointAction, action string, to hook.EndpointState) (*rest.Output[view.Lane], error) {
	e, err := a.command(ctx, c, in, action, func(e *hook.Endpoint) (bool, error) {
		if to == hook.Paused && e.State == hook.Disabled {
			return false, rest.Conflict(e.State.String(), "the endpoint is disabled, which is more than paused")
		}
		if e.State == to {
			return false, nil
		}
		e.State, e.StateReason = to, reasonManual
		if to == hook.Active {
			e.StateReason = ""
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return a.laneOf(ctx, e)
}

type requestedView struct {
	RequestedAt view.Stamp `json:"requested_at"`
}

// probe asks the owner of the lane for one probe. Only an open lane sends any.
func (a *API) probe(ctx context.Context, c *rest.Call, in *endpointAction) (*rest.Accepted[requestedView], error) {
	_, err := a.command(ctx, c, in, "endpoint.probe", func(e *hook.Endpoint) (bool, error) {
		s, err := a.surroundOne(ctx, *e)
		if err != nil {
			return false, err
		}
		switch state := view.LaneState(s.Destination); {
		case e.State != hook.Active:
			return false, rest.Conflict(e.State.String(), "an endpoint that is "+e.State.String()+" is not probed")
		case state == view.LaneClosed:
			return false, rest.Conflict(state, "the breaker is closed: deliveries go out as usual")
		}
		e.ProbeWantedAt = c.Now
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return &rest.Accepted[requestedView]{Body: requestedView{view.Stamp(c.Now)}}, nil
}

// reset asks the owner of the lane to close it and to forget what it learnt.
func (a *API) reset(ctx context.Context, c *rest.Call, in *endpointAction) (*rest.Output[view.Lane], error) {
	e, err := a.command(ctx, c, in, "endpoint.reset", func(e *hook.Endpoint) (bool, error) {
		e.ResetWantedAt = c.Now
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return a.laneOf(ctx, e)
}

// command changes an endpoint on a person's word, with an audit record, and
// tells its lane. change reports whether there is anything to store.
func (a *API) command(ctx context.Context, c *rest.Call, in *endpointAction, action string, change func(*hook.Endpoint) (bool, error)) (hook.Endpoint, error) {
	note, err := in.note()
	if err != nil {
		return hook.Endpoint{}, err
	}
	return rest.Update(rest.IfMatch{}, func() (hook.Endpoint, error) {
		e, err := a.endpoint(ctx, c, in.Endpoint)
		if err != nil {
			return e, err
		}
		before := e
		changed, err := change(&e)
		if err != nil || !changed {
			return e, err
		}
		e.UpdatedAt = c.Now
		rec := a.server.Audit(c, e.TenantID, action, hook.EndpointPrefix.Format(e.ID), commandDiff(before, e, note))
		stored, err := a.cfg.Store.UpdateEndpoint(ctx, e, rec)
		if err != nil {
			return e, fmt.Errorf("store %s: %w", action, err)
		}
		a.cfg.Notifier.EndpointChanged(e.TenantID, e.ID)
		return stored, nil
	})
}

func commandDiff(before, after hook.Endpoint, note string) map[string]any {
	diff := map[string]any{}
	if before.State != after.State {
		diff["status"] = map[string]string{"from": before.State.String(), "to": after.State.String()}
	}
	if note != "" {
		diff["note"] = note
	}
	return diff
}
