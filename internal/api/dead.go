package api

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/api/rest"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

type deadDiscard struct {
	rest.TenantPath
	Body struct {
		EndedFilter
		ExpectCount int64  `json:"expect_count" minimum:"0" maximum:"1000000" doc:"How many the caller has seen. When the filter matches 5 % more or fewer, nothing is discarded."`
		Note        string `json:"note,omitempty" maxLength:"500" doc:"Kept in the audit log."`
	}
}

const (
	// maxGroups bounds the groups of one answer.
	maxGroups = 250
	// discardAtOnce bounds the deliveries of one transaction, which others wait for.
	discardAtOnce = 500
	// maxDiscard is how many a filter may match, and where counting stops.
	maxDiscard = 1_000_000
	// discardFor bounds how long one request works.
	discardFor = 20 * time.Second
)

func (a *API) addDeadRoutes() {
	g := a.server.Group("dead letters")
	rest.Add(g, rest.NeedRead, "GET "+deadPath+"/groups", "group-dead-letters", "Add dead letters up by endpoint, reason and status code", a.groupDead)
	rest.Add(g, rest.NeedWrite, "POST "+deadPath+"/discard", "discard-dead-letters", "Cancel dead letters for good", a.discardDead,
		rest.Describe("Cancels the dead letters that match, in small steps. Answers 409 state_conflict, with the number in current, and changes nothing "+
			"when the number of those that match differs from expect_count by more than 5 %. Those that die meanwhile stay."))
}

func (a *API) groupDead(ctx context.Context, c *rest.Call, in *deadCount) (*rest.Output[view.DeadGroups], error) {
	f, none, err := a.deliveryFilter(ctx, c, in.DeliveryParams, onlyDead)
	if err != nil {
		return nil, err
	}
	groups := store.DeadGroups{Exact: true}
	if !none {
		if groups, err = a.cfg.Store.GroupDead(ctx, f, store.Page{Limit: maxGroups}); err != nil {
			return nil, fmt.Errorf("group dead letters: %w", err)
		}
	}
	return &rest.Output[view.DeadGroups]{Body: view.OfDeadGroups(groups, a.cfg.Retention)}, nil
}

func (a *API) discardDead(ctx context.Context, c *rest.Call, in *deadDiscard) (*rest.Output[view.Discarded], error) {
	t, err := a.tenant(ctx, c)
	if err != nil {
		return nil, err
	}
	chosen, err := a.discardFilter(ctx, c, in)
	if err != nil {
		return nil, err
	}
	// The set of a replay with this filter is what is discarded: what was dead when
	// it was asked for.
	f := store.MatchOf(&hook.ReplayJob{TenantID: t.ID, EndpointID: chosen.Endpoint, Filter: chosen, CreatedAt: c.Now})
	f.Tenant, f.States = t.ID, []hook.DeliveryState{hook.Dead}
	count, err := a.countDead(ctx, f)
	if err != nil {
		return nil, err
	}
	if count > maxDiscard {
		return nil, rest.FieldError("expect_count", "out_of_range", "the filter matches more than 1,000,000 dead letters: narrow it, by time for example")
	}
	if off := max(count-in.Body.ExpectCount, in.Body.ExpectCount-count); off*20 > in.Body.ExpectCount {
		return nil, rest.Conflict(strconv.FormatInt(count, 10), "the filter matches another number of dead letters than expect_count, by more than 5 %")
	}
	diff := map[string]any{"filter": chosen, "count": count}
	if in.Body.Note != "" {
		diff["note"] = in.Body.Note
	}
	rec := a.server.Audit(c, t.ID, "dead_letters.discard", hook.TenantPrefix.Format(t.ID), diff)
	out, err := a.discardAll(ctx, store.Discard{Filter: f, Limit: discardAtOnce, Now: c.Now, Audit: &rec})
	return &rest.Output[view.Discarded]{Body: out}, err
}

// discardFilter reads the filter; everything that is wrong is told at once.
func (a *API) discardFilter(ctx context.Context, c *rest.Call, in *deadDiscard) (hook.ReplayFilter, error) {
	b, bad := &in.Body, &rest.Invalid{}
	bad.CheckText("note", b.Note, 500)
	if err := bad.Err(); err != nil {
		return hook.ReplayFilter{}, err
	}
	f, err := a.replayFilter(ctx, c, &b.EndedFilter, nil)
	f.States = []hook.DeliveryState{hook.Dead}
	return f, err
}

// countDead counts what would be discarded.
func (a *API) countDead(ctx context.Context, f store.DeliveryFilter) (n int64, err error) {
	counts, err := a.cfg.Store.CountByEndpoint(ctx, f, maxDiscard+1)
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	for _, of := range counts {
		n += of
	}
	return n, nil
}

// discardAll goes step by step until all is done or time is up.
func (a *API) discardAll(ctx context.Context, step store.Discard) (out view.Discarded, err error) {
	for until := time.Now().Add(discardFor); ; {
		done, err := a.cfg.Store.DiscardDead(ctx, step)
		if err != nil {
			return out, fmt.Errorf("discard dead letters: %w", err)
		}
		out.Discarded += done.N
		if done.N > 0 {
			step.Audit = nil
		}
		if step.After = done.Next; step.After == 0 {
			out.Complete = true
			return out, nil
		}
		if time.Now().After(until) {
			return out, nil
		}
	}
}
