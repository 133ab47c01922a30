package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
)

// HTTP is the guarded way out.
type HTTP interface {
	// Do posts one request, once, and follows no redirect. It returns the status of
	// the answer and the head of its body, or an error when there is none. The
	// error's text is safe to show to the owner of the channel. It wraps ErrRefused
	// when the address guard does not let the request go where it leads.
	Do(ctx context.Context, req *Request) (status int, body []byte, err error)
}

// Request is a POST. It ends with its context.
type Request struct {
	Tenant  hook.ID // whose channel it is; 0: the operator's
	URL     string
	Header  http.Header
	Body    []byte
	MaxBody int // bytes of the answer's body to read, at most
}

// ErrRefused is for destinations that the address guard refuses. There is no
// second try.
var ErrRefused = errors.New("the destination is not allowed")

// maxAnswer is how much of an answer is read: enough to say what went wrong.
const maxAnswer = 1 << 10

// payload is the body of a webhook.
type payload struct {
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Data      any    `json:"data"`
}

// alertData is the alert as the API shows it, less the notices: they are about
// other channels.
type alertData struct {
	ID         string      `json:"id"`
	Rule       string      `json:"rule"`
	Level      string      `json:"level"`
	Severity   string      `json:"severity"`
	Status     string      `json:"status"`
	Notice     string      `json:"notice"`
	Subject    subjectData `json:"subject"`
	Summary    string      `json:"summary"`
	Value      *float64    `json:"value"` // null: not a number
	Threshold  *float64    `json:"threshold"`
	Since      *string     `json:"since"`
	LastAt     *string     `json:"last_at"`
	ResolvedAt *string     `json:"resolved_at"`
	Count      int         `json:"count"`
	Flapping   bool        `json:"flapping"`
	AckedBy    *string     `json:"acked_by"`
	AckedAt    *string     `json:"acked_at"`
	Links      linksData   `json:"links"`
}

type subjectData struct {
	Tenant   *string `json:"tenant"`
	Endpoint *string `json:"endpoint"`
	Replay   *string `json:"replay"`
	Node     *string `json:"node"`
}

type linksData struct {
	UI      *string `json:"ui"`
	API     *string `json:"api"`
	Runbook *string `json:"runbook,omitempty"`
}

type eventData struct {
	ID       string          `json:"id"`
	Tenant   *string         `json:"tenant"`
	Endpoint *string         `json:"endpoint"`
	Detail   json.RawMessage `json:"detail"`
	Links    linksData       `json:"links"`
}

// postWebhook sends a signed notice. The signature is made anew for each try,
// the id is that of the notice.
func (s *Sender) postWebhook(ctx context.Context, n *Notice, now time.Time) error {
	secret, err := sign.ParseSecret(n.Channel.Secret)
	if err != nil {
		return permanent(fmt.Errorf("the channel's secret is not valid: %w", err))
	}
	signer, err := sign.NewSigner([]hook.Signature{{Scheme: secret.Scheme()}}, []sign.Secret{secret})
	if err != nil {
		return permanent(fmt.Errorf("sign: %w", err))
	}
	body, err := json.Marshal(s.payload(n, now))
	if err != nil {
		return permanent(fmt.Errorf("encode: %w", err))
	}
	header := http.Header{}
	for name, value := range n.Channel.Headers {
		if err := hook.CheckHeader(name, value); err != nil {
			return permanent(fmt.Errorf("headers: %w", err))
		}
		header.Set(name, value)
	}
	header.Set("Content-Type", "application/json")
	signer.Sign(header.Set, n.id(), now, body)
	return s.post(ctx, n, header, body)
}

func (s *Sender) payload(n *Notice, now time.Time) payload {
	if n.Event != nil {
		return s.eventPayload(n.Event)
	}
	a := n.Alert
	c := s.links.describe(n, now)
	p := payload{Type: "alert.firing", Timestamp: wireTime(n.At), Data: alertData{
		ID: hook.AlertPrefix.Format(a.ID), Rule: a.Rule, Level: a.Level.String(), Severity: a.Severity.String(),
		Status: a.Status.String(), Notice: n.word(),
		Subject: subjectData{
			Tenant: shown(hook.TenantPrefix, a.Subject.Tenant), Endpoint: shown(hook.EndpointPrefix, a.Subject.Endpoint),
			Replay: shown(hook.ReplayPrefix, a.Subject.Replay), Node: shown(hook.NodePrefix, a.Subject.Node),
		},
		Summary: a.Summary, Value: finite(a.Value), Threshold: finite(a.Threshold),
		Since: wireTimeOrNull(a.Since), LastAt: wireTimeOrNull(a.LastAt), ResolvedAt: wireTimeOrNull(a.ResolvedAt),
		Count: a.Count, Flapping: a.Flapping, AckedBy: orNull(a.AckedBy), AckedAt: wireTimeOrNull(a.AckedAt),
		Links: linksData{UI: orNull(c.ui), API: orNull(c.api), Runbook: orNull(c.runbook)},
	}}
	switch {
	case n.test:
		p.Type = "alert.test"
	case over(n):
		p.Type = "alert.resolved"
	}
	return p
}

func (s *Sender) eventPayload(e *hook.OperationalEvent) payload {
	detail := e.Detail
	if len(detail) == 0 || !json.Valid(detail) {
		detail = json.RawMessage("{}")
	}
	return payload{Type: string(e.Type), Timestamp: wireTime(e.At), Data: eventData{
		ID: hook.OperationalPrefix.Format(e.ID), Tenant: shown(hook.TenantPrefix, e.TenantID),
		Endpoint: shown(hook.EndpointPrefix, e.EndpointID), Detail: detail,
		Links: linksData{
			UI:  orNull(s.links.page("/ui/endpoints/", hook.EndpointPrefix, e.EndpointID)),
			API: orNull(s.links.page("/v1/tenants/-/endpoints/", hook.EndpointPrefix, e.EndpointID)),
		},
	}}
}

// post sends a body and says what the answer means.
func (s *Sender) post(ctx context.Context, n *Notice, header http.Header, body []byte) error {
	status, answer, err := s.http.Do(ctx, &Request{
		Tenant: n.Channel.Tenant, URL: n.Channel.URL, Header: header, Body: body, MaxBody: maxAnswer,
	})
	if errors.Is(err, ErrRefused) {
		return permanent(err)
	}
	if err != nil {
		return err
	}
	return judgeStatus(status, answer)
}

// judgeStatus says what an answer means, by the table of deliveries: what a
// receiver refuses it would refuse again, unless it asks for another try.
func judgeStatus(status int, answer []byte) error {
	if status >= 200 && status <= 299 {
		return nil
	}
	text := fmt.Sprintf("answered %d", status)
	if said := clean(string(answer[:min(len(answer), maxAnswer)]), 200); said != "" {
		text += ": " + said
	}
	switch {
	case status >= 300 && status <= 399:
		return permanent(fmt.Errorf("%s (redirects are not followed: set the url to where it leads)", text))
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests,
		status >= 500 && status != http.StatusNotImplemented && status != http.StatusHTTPVersionNotSupported:
		return errors.New(text)
	default:
		return permanent(errors.New(text))
	}
}

func wireTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func wireTimeOrNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return orNull(wireTime(t))
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func shown(p hook.Prefix, id hook.ID) *string {
	if id == 0 {
		return nil
	}
	return orNull(p.Format(id))
}

// finite returns nil for what JSON has no number for.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
