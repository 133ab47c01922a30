package view

import (
	"encoding/json"

	"github.com/breakwaterhq/breakwater/internal/hook"
)

// Audit is the record of a change.
type Audit struct {
	ID        string          `json:"id"`
	At        Stamp           `json:"at"`
	Tenant    *string         `json:"tenant" doc:"null: the server itself."`
	Actor     Actor           `json:"actor"`
	Action    string          `json:"action" doc:"Such as endpoint.pause."`
	Subject   string          `json:"subject" doc:"Id of what changed."`
	RequestID *string         `json:"request_id"`
	Diff      json.RawMessage `json:"diff" doc:"What changed, without secrets; which members it has depends on the action."`
}

// Actor is who made a change.
type Actor struct {
	Key string  `json:"key" doc:"key_…, or the name of a part of the server."`
	IP  *string `json:"ip" doc:"null for a tenant's key: some addresses are the operator's."`
}

// OfAudit shows a record; addresses are for operators.
func OfAudit(a hook.Audit, addresses bool) Audit {
	v := Audit{
		ID: hook.AuditPrefix.Format(a.ID), At: Stamp(a.At), Tenant: IDOrNull(hook.TenantPrefix, a.TenantID),
		Actor: Actor{Key: a.Actor}, Action: a.Action, Subject: a.Subject, RequestID: Nullable(a.RequestID), Diff: OrEmpty(a.Diff),
	}
	if addresses {
		v.Actor.IP = Nullable(a.RemoteIP)
	}
	return v
}
