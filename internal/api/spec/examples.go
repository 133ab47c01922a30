package spec

import (
	"maps"
	"slices"
	"strings"
)

// requests are bodies that work, by operation.
var requests = map[string]any{
	"send-event":                    obj{"type": "order.paid", "payload": obj{"order": "A-1042", "total": 99.5}},
	"send-events":                   obj{"events": []any{obj{"type": "order.paid", "payload": obj{"order": "A-1042"}, "idempotency_key": "order-A-1042-paid"}}},
	"create-event-type":             obj{"type": "order.paid", "description": "An order was paid in full", "schema": orderSchema, "example": obj{"order": "A-1042", "total": 99.5}},
	"change-event-type":             obj{"description": "An order was paid"},
	"create-endpoint":               obj{"url": "https://example.com/webhooks", "types": []any{"order.*"}, "description": "Orders of the shop"},
	"change-endpoint":               obj{"types": []any{"order.*", "refund.made"}, "policy": obj{"preset": "quick"}},
	"test-endpoint":                 obj{"type": "breakwater.test", "payload": obj{"message": "Hello"}},
	"rotate-secret":                 obj{"overlap": "24h"},
	"preview-endpoint-policy":       obj{"policy": obj{"retry": obj{"max_attempts": 8}}},
	"create-tenant":                 obj{"name": "Acme Inc.", "uid": "acme-inc", "limits": obj{"events_per_second": 50}},
	"change-tenant":                 obj{"name": "Acme Incorporated", "metadata": obj{"plan": "pro"}},
	"create-key":                    obj{"name": "shop", "scope": "tenant:send", "tenant": "acme"},
	"create-portal-link":            obj{"ttl": "1h", "scope": "tenant:read"},
	"create-replay":                 obj{"endpoint": "ep_07yqht7ac040r", "statuses": []any{"dead"}, "since": "24h", "per_minute": 100, "dry_run": true},
	"change-replay":                 obj{"per_minute": 200},
	"discard-dead-letters":          obj{"reasons": []any{"exhausted"}, "since": "7d", "expect_count": 12, "note": "the receiver is gone"},
	"create-policy":                 obj{"name": "gentle", "description": "For small receivers", "policy": obj{"concurrency": obj{"mode": "fixed", "limit": 2}}},
	"change-policy":                 obj{"description": "For small receivers", "policy": obj{"retry": obj{"max_attempts": 10}}},
	"preview-policy":                obj{"policy": obj{"preset": "quick"}, "simulate": obj{"outage": "5m", "rate": 20, "capacity": 100}},
	"create-alert-channel":          obj{"name": "on call", "kind": "webhook", "url": "https://example.com/alerts", "levels": []any{"endpoint"}, "min_severity": "warning"},
	"create-operator-alert-channel": obj{"name": "operators", "kind": "email", "to": []any{"ops@example.com"}},
	"change-alert-channel":          obj{"min_severity": "page"},
	"change-any-alert-channel":      obj{"min_severity": "page"},
	"acknowledge-alert":             obj{"note": "we are on it", "snooze": "1h"},
	"":                              obj{"note": "the receiver is being repaired"},
}

type obj = map[string]any

var orderSchema = obj{"type": "object", "required": []any{"order", "total"}, "properties": obj{"order": obj{"type": "string"}, "total": obj{"type": "number"}}}

const (
	aTenant   = "ten_07yqht7ac0406"
	anEnd     = "ep_07yqht7ac040r"
	anEvent   = "evt_07yqht7ac0410"
	aDelivery = "dlv_07yqht7ac0412"
	anAttempt = "att_07yqht7ac0416"
	aReplay   = "rpl_07yqht7ac0420"
	aKey      = "key_07yqht7ac0402"
	aNode     = "node_07yqht7ac040c"
	aTime     = "2026-03-02T10:30:15.123Z"
	aHash     = "5f70bf18a08660b44f19a6d1bb4b0e9e"
)

// values are what members have in examples, by schema and name, or by name alone.
var values = map[string]any{
	"Alert.id": "alr_07yqht7ac0430", "AlertChannel.id": "ach_07yqht7ac0434", "ChannelCreated.id": "ach_07yqht7ac0434",
	"Attempt.id": anAttempt, "AttemptEntry.id": anAttempt, "Audit.id": "aud_07yqht7ac0440", "BatchResult.id": anEvent, "Delivery.id": aDelivery,
	"Endpoint.id": anEnd, "EndpointCreated.id": anEnd, "Event.id": anEvent, "EventAccepted.id": anEvent, "Key.id": aKey, "KeyCreated.id": aKey,
	"Node.id": aNode, "OperationalEvent.id": "ope_07yqht7ac0444", "Replay.id": aReplay, "Tenant.id": aTenant,
	"KeyCreated.key": "bw_7Fq2mZ1xAbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefgh", "Me.key": aKey, "Actor.key": aKey, "Setting.key": "data_dir",
	"Last.attempt": anAttempt, "Step.attempt": 2, "Notification.channel": "ach_07yqht7ac0434", "DeadGroup.sample": aDelivery,
	"Strip.endpoint": anEnd, "Figures.replay": 0, "StatsPoint.replay": 0, "Deleted.endpoints": 2, "Deleted.keys": 1, "PolicyUsers.endpoints": 3,
	"PolicyUsers.tenants": 1, "Gauges.limit": 20, "Gauges.held": 0, "Recovery.held": "2m30s", "Delivery.charged": 1, "Delivery.status": "delivered",
	"BatchResult.status": 202, "BatchResult.error": nil, "BatchError.code": "validation_failed", "BatchError.detail": "events[1].payload is required",
	"Problem.status": 422, "Problem.type": "urn:breakwater:problem:validation_failed", "Problem.title": "Unprocessable Entity",
	"Problem.code": "validation_failed", "Problem.detail": "url is required", "Problem.request_id": "req_07yqht7ac0412",
	"FieldProblem.path": "url", "FieldProblem.code": "required", "FieldProblem.message": "is required", "Problem.current": "",
	"AlertRule.name": "retry_storm", "AlertRule.levels": nil, "Preset.name": "quick", "NamedPolicy.name": "gentle", "Tenant.name": "Acme Inc.",
	"Node.name": "node-1", "Node.version": "1.4.0", "Me.version": "1.4.0", "HealthAnswer.version": "1.4.0", "AlertChannel.name": "on call",
	"Key.name": "shop", "KeyCreated.name": "shop", "Me.name": "shop", "Me.scope": "tenant:write", "Threshold.name": "ratio", "Threshold.value": "1", "Threshold.default": "1",
	"Setting.value": "breakwater-data", "Alert.value": 3.2, "Alert.threshold": 1, "OperationalEvent.type": "breaker.opened",
	"OperationalEvent.detail": obj{"failures": 5, "status_code": 503}, "PolicyChange.path": "retry.max_attempts", "PolicyChange.from": 5, "PolicyChange.to": 8,
	"Response.body": "upstream is down", "Secret.scheme": "standard", "Simulation.delivered": []any{20, 20, 0, 35}, "Ceiling.learnt": 120,
	"Strip.delivered": []any{12, 14}, "Strip.failed": []any{0, 1}, "Strip.held": []any{0, 0}, "Strip.retry_ratio": []any{0, 0.07}, "Strip.success_rate": []any{1, 0.93},
	"Strip.attempt_ms": []any{41, 44}, "Delivery.attempts": 1, "Delivery.view": nil, "Delivery.reason": nil, "Delivery.waiting_for": nil, "Delivery.settled_at": aTime,
	"Delivery.replay": nil, "AttemptLane.limit": 20, "AttemptLane.state": "closed", "Audit.subject": anEnd, "Attempt.replay": nil, "WorstEndpoint.url": "https://example.com/webhooks",
	"DeadGroup.reason": "exhausted", "Request.headers": obj{"Content-Type": []any{"application/json"}, "Webhook-Id": []any{anEvent}}, "Response.headers": obj{"Content-Type": []any{"text/plain"}},
	"PortalLink.url": "https://hooks.example.com/ui/portal?token=…", "AlertChannel.url": "https://example.com/alerts", "ChannelCreated.url": "https://example.com/alerts",
	"Shards.total": 64, "Shards.unowned": []any{}, "Node.shards": []any{0, 1, 2}, "Node.addr": "10.0.0.5:8080", "AlertChannel.headers": obj{}, "Stats.retry_ratio": 0.04,
	"Overview.retry_ratio": 0.04, "Simulation.destination": "steady", "Simulation.strategy": "breakwater", "HealthAnswer.status": "ok", "HealthAnswer.reasons": []any{},
	"HealthAnswer.warnings": []any{}, "Alert.status": "firing", "Lane.limit": 20, "Key.prefix": "bw_7Fq2mZ1x", "Wait.retry": 1,

	"ack_note": "we are on it", "acked_by": aKey, "action": "endpoint.pause", "backlog": 0, "base_latency_ms": 38.5, "bounds": "0 to 1000",
	"cell_seconds": 1800, "class": "success", "count": 12, "ceiling": "10s", "ceiling_ms": 10000, "connect": 4.1, "content_type": "application/json",
	"created_by": aKey, "cumulative_max": "15s", "cumulative_mean": "7.5s", "dead_by": obj{"exhausted": 1}, "delay_ms": 4210.5, "delivery": aDelivery,
	"description": "Orders of the shop", "detail": "it was taken", "diff": obj{"status": obj{"from": "active", "to": "paused"}}, "dns": 0.8, "doc": "Retries for each first attempt.",
	"drain_per_minute": 240.5, "endpoint": anEnd, "error": nil, "errors": nil, "event": anEvent, "events_per_second": 50, "failed_by": obj{"server_error": 1},
	"filter": obj{"statuses": []any{"dead"}}, "first_byte": 38.2, "hash": aHash, "header": "X-Signature", "headers": obj{"X-Token": "***"}, "healthy": "below 1",
	"host_rate": nil, "ip": "192.0.2.7", "last_error": nil, "latency": "200ms", "latency_ms": 41.3, "max": "15s", "max_multiple": 10, "mean": "5s", "meaning": "Retries outnumber first attempts.",
	"metadata": obj{"plan": "pro"}, "metric": "retries for each first attempt", "min": "0s", "min_severity": "warning", "next_cursor": nil, "node": aNode, "open_reason": nil,
	"origin": obj{"retry.max_attempts": "preset"}, "outage": "5m", "p5": "2h", "p50": 41, "p95": "9h", "p99": 220, "paced_by": nil, "pause_error_percent": 10, "pause_reason": nil,
	"payload": obj{"order": "A-1042", "total": 99.5}, "payload_base64": "aGVsbG8=", "body_base64": "aGVsbG8=", "per_minute": 100, "percent": 48.2, "policy": obj{"preset": "quick"}, "policy_hash": aHash,
	"public_key": "whpk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "rate": 50, "reason": "ok", "remote_addr": "203.0.113.10:443", "replay": nil, "request_id": "req_07yqht7ac0412",
	"resolved": obj{"retry": obj{"max_attempts": 5}}, "retry_after": "30s", "rule": "retry_storm", "runbook": "https://github.com/breakwaterhq/breakwater/blob/main/docs/alerts.md#retry_storm",
	"secret": "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "secret_last4": "Hh8=", "seed": 1, "snoozed_until": nil, "source": "backoff", "status_code": 200, "status_reason": nil,
	"step_seconds": 60, "subject": anEnd, "summary": "Retries outnumber first attempts 3 to 1", "tenant": aTenant, "tenants": 1, "tls": 9.7, "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	"type": "order.paid", "types": []any{"order.*"}, "u": 0.42, "uid": "shop-orders", "until": "10m", "url": "https://example.com/webhooks", "usual": 12.5, "proven": 80, "window": "15m",
	"warnings": []any{}, "success_rate": 0.998, "settled_at": nil, "closed_at": nil, "opened_at": nil, "hold_until": nil, "next_probe_at": nil, "revoked_at": nil, "resolved_at": nil,
	"failing_since": nil, "finished_at": nil, "rate_per_second": nil, "next_due_at": nil, "to": []any{"ops@example.com"}, "rules": []any{"retry_storm"}, "operational_events": []any{"breaker.*"},
	"data": nil, "note": "the receiver is being repaired",
}

// addExamples adds a body to every operation, and a value to every schema.
func (c *completion) addExamples() {
	asked := map[string]any{} // bodies by schema
	for _, op := range c.operations() {
		id := text(op["operationId"])
		content := object(object(op["requestBody"])["content"])
		body := requests[id]
		if body == nil {
			body = requests[""]
		}
		for _, m := range content {
			media := object(m)
			if media["example"] == nil {
				media["example"] = body
			}
			if name, ok := strings.CutPrefix(text(object(media["schema"])["$ref"]), schemaRef); ok {
				asked[name] = body
			}
		}
		c.answerExamples(op)
		pathExamples(op)
	}
	for _, name := range slices.Sorted(maps.Keys(c.schemas)) {
		schema := object(c.schemas[name])
		if v, ok := asked[name]; ok {
			schema["examples"] = []any{v}
		} else if v, ok := c.example(name, "", schema, 0); ok {
			schema["examples"] = []any{v}
		}
	}
}

// answerExamples adds a body to the answers of an operation.
func (c *completion) answerExamples(op map[string]any) {
	for _, r := range object(op["responses"]) {
		media := object(object(object(r)["content"])["application/json"])
		schema := object(media["schema"])
		name := strings.TrimPrefix(text(schema["$ref"]), schemaRef)
		if media == nil || media["example"] != nil {
			continue
		}
		if v, ok := c.example(name, "", schema, 0); ok {
			media["example"] = v
		}
	}
}

// ids are what paths name in examples.
var ids = map[string]string{
	"tenant": "default", "endpoint": anEnd, "event": anEvent, "delivery": aDelivery, "attempt": anAttempt, "replay": aReplay, "key": aKey,
	"channel": "ach_07yqht7ac0434", "alert": "alr_07yqht7ac0430", "name": "quick",
}

func pathExamples(op map[string]any) {
	list, _ := op["parameters"].([]any)
	for _, p := range list {
		param := object(p)
		if id, ok := ids[text(param["name"])]; ok && param["in"] == "path" {
			param["example"] = id
		}
	}
}

// maxExampleDepth ends what would go on for ever.
const maxExampleDepth = 16

// example makes a value that a schema allows. at is the name of the schema, member
// that of the member within it.
func (c *completion) example(at, member string, schema map[string]any, depth int) (any, bool) {
	if depth > maxExampleDepth {
		return nil, false
	}
	if member != "" {
		for _, key := range []string{at + "." + member, member} {
			if v, ok := values[key]; ok && fits(schema, v) {
				return v, true
			}
		}
	}
	if name, ok := strings.CutPrefix(text(schema["$ref"]), schemaRef); ok {
		return c.example(name, "", object(c.schemas[name]), depth+1)
	}
	if ways, ok := schema["anyOf"].([]any); ok {
		return c.example(at, "", object(ways[0]), depth+1)
	}
	if enum, ok := schema["enum"].([]any); ok {
		return enum[0], true
	}
	if v, ok := schema["default"]; ok {
		return v, true
	}
	return c.exampleOfType(at, schema, depth)
}

func (c *completion) exampleOfType(at string, schema map[string]any, depth int) (any, bool) {
	switch typeOf(schema) {
	case "string":
		if schema["format"] == "date-time" {
			return aTime, true
		}
		return "text", true
	case "integer", "number":
		return 1, true
	case "boolean":
		return false, true
	case "array":
		if item, ok := c.example(at, "", object(schema["items"]), depth+1); ok {
			return []any{item}, true
		}
		return []any{}, true
	case "object":
		return c.exampleObject(at, schema, depth), true
	default:
		return obj{}, true
	}
}

func (c *completion) exampleObject(at string, schema map[string]any, depth int) obj {
	out := obj{}
	required, _ := schema["required"].([]any)
	for name, p := range object(schema["properties"]) {
		// What may be absent is shown when there is something to show.
		if given, known := values[at+"."+name]; known && given == nil && !slices.Contains(required, any(name)) {
			continue
		}
		v, ok := c.example(at, name, object(p), depth+1)
		if ok && (v != nil || slices.Contains(required, any(name))) && !rare[name] {
			out[name] = v
		}
	}
	if more := object(schema["additionalProperties"]); more != nil && len(out) == 0 {
		if v, ok := c.example(at, "", more, depth+1); ok {
			out["name"] = v
		}
	}
	return out
}

// rare are members that stand for others, and would be misleading beside them.
var rare = map[string]bool{"payload_base64": true, "body_base64": true, "current": true, "public_key": true}

// typeOf returns the type of a schema that is not null.
func typeOf(schema map[string]any) string {
	if list, ok := schema["type"].([]any); ok {
		return text(list[0])
	}
	return text(schema["type"])
}

// fits reports whether a value is of the type that a schema wants.
func fits(schema map[string]any, v any) bool {
	want := typeOf(schema)
	if want == "" {
		_, reference := schema["$ref"]
		_, either := schema["anyOf"]
		return either && v == nil || !reference && !either && v != nil
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, v) {
		return false
	}
	switch v.(type) {
	case nil:
		list, _ := schema["type"].([]any)
		return slices.Contains(list, any("null"))
	case string:
		return want == "string"
	case int:
		return want == "integer" || want == "number"
	case float64:
		return want == "number"
	case []any:
		return want == "array" && object(schema["items"])["$ref"] == nil
	case obj:
		return want == "object" && schema["properties"] == nil
	default:
		return false
	}
}
