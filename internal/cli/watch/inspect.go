package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
)

// maxStories bounds the deliveries of an event whose story is told.
const maxStories = 100

// inspector tells the story of one object.
type inspector struct {
	*kit.Session

	client        *kit.Client
	ctx           context.Context //nolint:containedctx // lives as long as the command
	body, headers bool
}

// plain are the objects that are shown as they are.
var plain = map[string]string{
	"rpl": "T/replays/ID", "alr": "v1/alerts/ID", "ten": "v1/tenants/ID", "ach": "v1/alert-channels/ID",
}

func inspectCommand(s *kit.Session) *cobra.Command {
	i := &inspector{Session: s}
	cmd := &cobra.Command{
		Use: "inspect ID", Short: "Tell the story of an event, delivery, attempt, endpoint or any other object", Args: kit.WantArgs(1, 1),
		Long: "Tell the story of one object by its id: of an event and of a delivery every attempt, why each wait was as long as it was, and what happens next;\n" +
			"of an endpoint how its lane is. Without --tenant it is looked for in every tenant that the key may see.",
		Example: "  breakwater inspect evt_...\n  breakwater inspect att_... --headers --body",
		RunE: func(cmd *cobra.Command, args []string) error {
			anyTenant(cmd, s)
			var err error
			if i.client, err = s.Client(); err != nil {
				return err
			}
			i.ctx = cmd.Context()
			return i.tell(args[0])
		},
	}
	cmd.Flags().BoolVar(&i.headers, "headers", false, "of an attempt: show the headers of request and answer")
	cmd.Flags().BoolVar(&i.body, "body", false, "of an attempt: show the answer's body; of an event: the payload")
	return cmd
}

// anyTenant looks for ids in every tenant, unless one is named.
func anyTenant(cmd *cobra.Command, s *kit.Session) {
	if !cmd.Flags().Changed("tenant") {
		s.Tenant = "-"
	}
}

func (i *inspector) tell(id string) error {
	prefix, _, ok := strings.Cut(id, "_")
	switch {
	case ok && prefix == "evt":
		return i.event(id)
	case ok && prefix == "dlv":
		return i.delivery(id)
	case ok && prefix == "att":
		return i.attempt(id)
	case ok && prefix == "ep":
		return i.endpoint(id)
	case ok && plain[prefix] != "":
		return kit.Fetch(i.ctx, i.Session, kit.Request{Method: http.MethodGet, Path: kit.At(plain[prefix], id)}, i.PrintIndented)
	}
	return kit.Usagef("%q is not an id that can be inspected: want evt_, dlv_, att_, ep_, rpl_, alr_, ten_ or ach_ followed by 13 characters", id)
}

// read reads an object, as it came and as it is understood.
func read[T any](i *inspector, path, id string) (raw json.RawMessage, v T, err error) {
	if err = i.client.Call(i.ctx, kit.Request{Method: http.MethodGet, Path: kit.At(path, id)}, &raw); err != nil {
		return raw, v, err
	}
	v, err = kit.Understand[T](raw)
	return raw, v, err
}

// story is a delivery with its attempts.
type story struct {
	Delivery json.RawMessage   `json:"delivery"`
	Attempts []json.RawMessage `json:"attempts"`
}

func (i *inspector) event(id string) error {
	raw, e, err := read[view.Event](i, "T/events/ID", id)
	if err != nil {
		return err
	}
	deliveries, err := i.client.List(i.ctx, kit.At("T/events/ID/deliveries", id), url.Values{}, maxStories)
	if err != nil {
		return err
	}
	if i.JSON {
		return i.eventDocument(raw, deliveries)
	}
	count := kit.OrZero(e.Deliveries)
	if err := i.Printf("%s  %s, %d bytes, accepted %s\n%s: %d pending, %d delivered, %d dead, %d cancelled\n", e.ID, e.Type, e.Size, kit.Clock(e.AcceptedAt),
		kit.Plural(count.Total, "delivery", "deliveries"), count.Pending, count.Delivered, count.Dead, count.Cancelled); err != nil {
		return err
	}
	if count.Total == 0 {
		return i.Printf("no endpoint matched when it was accepted; see: breakwater --tenant %s endpoints list\n", e.Tenant)
	}
	if i.body {
		if err := i.Printf("payload %s\n", e.Payload); err != nil {
			return err
		}
	}
	for _, each := range deliveries.Data {
		d, err := kit.Understand[view.Delivery](each)
		if err != nil {
			return err
		}
		if err := i.Printf("\n"); err != nil {
			return err
		}
		if err := i.tellDelivery(&d); err != nil {
			return err
		}
	}
	if deliveries.Next != nil {
		i.Note("only the first %d deliveries are shown; see: breakwater deliveries list --event %s", maxStories, id)
	}
	return nil
}

func (i *inspector) eventDocument(raw json.RawMessage, deliveries kit.Page) error {
	stories := []story{}
	for _, each := range deliveries.Data {
		d, err := kit.Understand[view.Delivery](each)
		if err != nil {
			return err
		}
		attempts, err := i.attemptsOf(d.ID)
		if err != nil {
			return err
		}
		stories = append(stories, story{each, kit.OrEmpty(attempts)})
	}
	return i.PrintJSON(map[string]any{"event": raw, "deliveries": stories})
}

func (i *inspector) attemptsOf(delivery string) ([]json.RawMessage, error) {
	p, err := i.client.List(i.ctx, kit.At("T/deliveries/ID/attempts", delivery), url.Values{}, kit.Unpaged)
	return p.Data, err
}

func (i *inspector) delivery(id string) error {
	raw, d, err := read[view.Delivery](i, "T/deliveries/ID", id)
	if err != nil {
		return err
	}
	if i.JSON {
		attempts, err := i.attemptsOf(id)
		if err != nil {
			return err
		}
		return i.PrintJSON(story{raw, kit.OrEmpty(attempts)})
	}
	return i.tellDelivery(&d)
}

// tellDelivery prints a delivery, its attempts and what comes next.
func (i *inspector) tellDelivery(d *view.Delivery) error {
	list, err := i.attemptsOf(d.ID)
	if err != nil {
		return err
	}
	if err := i.Printf("%s  %s of %s to %s, accepted %s\n", d.ID, d.Type, d.Event, d.Endpoint, kit.Clock(d.CreatedAt)); err != nil {
		return err
	}
	for _, raw := range list {
		a, err := kit.Understand[view.Attempt](raw)
		if err != nil {
			return err
		}
		if err := i.Printf("  %s\n", attemptStory(&a)); err != nil {
			return err
		}
	}
	next, err := i.next(d)
	if err != nil {
		return err
	}
	return i.Printf("  %s\n", next)
}

// attemptStory tells of one attempt of a delivery on a line.
func attemptStory(a *view.Attempt) string {
	line := fmt.Sprintf("#%d %s %s: ", a.Number, a.Kind, moment(a.StartedAt))
	if status := kit.StatusText(a.StatusCode); status != "" {
		line += status + " "
	}
	line += fmt.Sprintf("%s after %s", a.Reason, latency(a.LatencyMS))
	if text := kit.OrZero(a.Error); text != "" {
		line += " (" + text + ")"
	}
	if state := kit.OrZero(a.Lane.State); state != "" {
		line += fmt.Sprintf(", lane %s with %d of %s in flight", state, a.Lane.InFlight, kit.Decimal(a.Lane.Limit))
	}
	return line + waitStory(a)
}

// waitStory says why the next attempt waits as long as it does.
func waitStory(a *view.Attempt) string {
	if a.Wait == nil {
		return ""
	}
	text := "; waits " + span(a.Wait.DelayMS)
	switch a.Wait.Source {
	case "backoff":
		text += fmt.Sprintf(", drawn from up to %s for retry %d", span(a.Wait.CeilingMS), a.Wait.Retry)
	case "retry_after":
		text += ", which the endpoint asked for"
		if after := kit.OrZero(a.RetryAfter); after != "" {
			text += " (Retry-After: " + after + ")"
		}
	case "throttle":
		text += ", since the endpoint takes no more for now"
	}
	return text
}

func span(ms float64) string {
	d := time.Duration(ms * float64(time.Millisecond))
	if d > time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

// next says what happens to a delivery now.
func (i *inspector) next(d *view.Delivery) (string, error) {
	switch d.Status {
	case "delivered":
		return "delivered " + kit.Clock(d.SettledAt), nil
	case "dead":
		return fmt.Sprintf("dead since %s: %s. Nothing more is sent; to send it again: breakwater --tenant %s deliveries retry %s",
			kit.Clock(d.SettledAt), kit.OrZero(d.Reason), d.Tenant, d.ID), nil
	case "cancelled":
		return fmt.Sprintf("cancelled %s: %s", kit.Clock(d.SettledAt), kit.OrZero(d.Reason)), nil
	}
	if kit.OrZero(d.View) == view.Held || d.WaitingFor != nil {
		return i.held(d)
	}
	due := time.Time(d.DueAt)
	text := "next attempt now, as soon as requests before it have ended"
	if wait := time.Until(due); wait > 0 {
		text = fmt.Sprintf("next attempt at %s, in %s", due.Local().Format(time.TimeOnly), wait.Round(time.Second))
	}
	if expires := time.Time(d.ExpiresAt); !expires.IsZero() {
		text += "; given up after " + kit.Clock(d.ExpiresAt)
	}
	return text, nil
}

// held says what a delivery waits for.
func (i *inspector) held(d *view.Delivery) (string, error) {
	_, l, err := read[lane](i, "T/endpoints/ID/lane", d.Endpoint)
	if err != nil {
		return "", err
	}
	switch {
	case l.Status != "active":
		return fmt.Sprintf("held: its endpoint is %s. To go on: breakwater --tenant %s endpoints resume %s", l.Status, d.Tenant, d.Endpoint), nil
	case l.State != "closed":
		return "held: the breaker is " + l.breaker() + ". It is sent when a probe has worked", nil
	case time.Time(l.HoldUntil).After(time.Now()):
		return "held: the endpoint asked for silence until " + kit.Clock(l.HoldUntil), nil
	default:
		return "waits for its turn: " + l.pace(), nil
	}
}

func (i *inspector) attempt(id string) error {
	raw, a, err := read[view.Attempt](i, "T/attempts/ID", id)
	if err != nil {
		return err
	}
	if i.JSON {
		return i.PrintJSON(raw)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  of %s, %s\n  %s\n", a.ID, a.Delivery, kit.Clock(a.StartedAt), attemptStory(&a))
	fmt.Fprintf(&b, "  to %s at %s: dns %.1f ms, connect %.1f ms, tls %.1f ms, first byte %.1f ms\n",
		a.Request.URL, kit.Dash(kit.OrZero(a.RemoteAddr)), a.Phases.DNS, a.Phases.Connect, a.Phases.TLS, a.Phases.FirstByte)
	if i.headers {
		writeHeaders(&b, "request", a.Request.Headers)
		writeHeaders(&b, "answer", a.Response.Headers)
	}
	if i.body {
		cut := ""
		if a.Response.Truncated {
			cut = ", its beginning"
		}
		fmt.Fprintf(&b, "  body%s: %q\n", cut, a.Response.Body+string(a.Response.BodyBase64))
	}
	return i.Printf("%s", b.String())
}

func (i *inspector) endpoint(id string) error {
	raw, e, err := read[view.Endpoint](i, "T/endpoints/ID", id)
	if err != nil {
		return err
	}
	rawLane, l, err := read[lane](i, "T/endpoints/ID/lane", id)
	if err != nil {
		return err
	}
	if i.JSON {
		return i.PrintJSON(map[string]json.RawMessage{"endpoint": raw, "lane": rawLane})
	}
	rows := [][]string{{"url", e.URL}, {"types", strings.Join(e.Types, ", ")}, {"tenant", e.Tenant}}
	return i.PrintRows(append(rows, l.facts(time.Now())...))
}

func writeHeaders(b *strings.Builder, of string, headers map[string][]string) {
	for _, name := range sortedKeys(headers) {
		fmt.Fprintf(b, "  %s  %s: %s\n", of, name, strings.Join(headers[name], ", "))
	}
}
