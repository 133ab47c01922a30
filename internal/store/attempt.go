package store

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// PlainAttempt reports whether nothing followed the attempt: no wait was
// computed and there is no error to tell of.
func PlainAttempt(a *hook.Attempt) bool {
	return a.RetryN == 0 && a.Ceiling == 0 && a.U == 0 && a.Delay == 0 && a.DelaySource == 0 && a.NextDueAt.IsZero() && a.Error == ""
}

// AppendAttempt appends the document of a plain attempt, for a store that keeps
// it in its delivery's row. What that row tells is left out, and the excerpt.
func AppendAttempt(dst []byte, a *hook.Attempt) []byte {
	o := object{dst: append(dst, '{')}
	o.number("id", int64(a.ID))
	o.number("node", int64(a.NodeID))
	o.number("n", int64(a.Number))
	o.number("run", int64(a.Run))
	o.number("kind", int64(a.Kind))
	o.number("class", int64(a.Class))
	o.number("reason", int64(a.Reason))
	o.flag("charged", a.Charged)
	o.number("status", int64(a.Status))
	o.number("latency_us", a.Latency.Microseconds())
	o.number("started_us", a.StartedAt.UnixMicro())
	o.name("policy")
	o.dst = append(hex.AppendEncode(append(o.dst, '"'), a.PolicyHash[:]), '"')
	o.name("detail")
	o.dst = AppendDetail(o.dst, &a.Detail)
	return append(o.dst, '}')
}

// AppendAttemptOf is AppendAttempt for a store that keeps the document apart from
// its delivery's row: it names the delivery.
func AppendAttemptOf(dst []byte, a *hook.Attempt) []byte {
	dst = AppendAttempt(dst, a)
	dst = append(dst[:len(dst)-1], `,"delivery":`...)
	return append(strconv.AppendInt(dst, int64(a.DeliveryID), 10), '}')
}

// attemptDocument is what AppendAttempt writes.
type attemptDocument struct {
	ID      hook.ID            `json:"id"`
	Node    hook.ID            `json:"node"`
	Number  int                `json:"n"`
	Run     int                `json:"run"`
	Kind    hook.AttemptKind   `json:"kind"`
	Class   hook.Class         `json:"class"`
	Reason  hook.Reason        `json:"reason"`
	Charged bool               `json:"charged"`
	Status  int                `json:"status"`
	Latency int64              `json:"latency_us"`
	Started int64              `json:"started_us"`
	Policy  string             `json:"policy"`
	Detail  hook.AttemptDetail `json:"detail"`
}

// ParseAttempt reads what AppendAttempt wrote into a, whose other fields stay.
func ParseAttempt(document []byte, a *hook.Attempt) error {
	var d attemptDocument
	if err := json.Unmarshal(document, &d); err != nil {
		return fmt.Errorf("read attempt: %w", err)
	}
	hash, err := hex.DecodeString(d.Policy)
	if err != nil || len(hash) != len(a.PolicyHash) {
		return fmt.Errorf("read attempt: policy hash %q", d.Policy)
	}
	a.PolicyHash = hook.PolicyHash(hash)
	a.ID, a.NodeID, a.Number, a.Run, a.Kind = d.ID, d.Node, d.Number, d.Run, d.Kind
	a.Class, a.Reason, a.Charged, a.Status = d.Class, d.Reason, d.Charged, d.Status
	a.Latency, a.StartedAt = time.Duration(d.Latency)*time.Microsecond, time.UnixMicro(d.Started).UTC()
	a.Detail = d.Detail
	return nil
}
