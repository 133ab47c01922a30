package spec

// tags are the groups of operations, in the order in which a reader needs them.
var tags = []tag{
	{"events", "What you hand over: a type and a payload. An event is stored before it is answered, then delivered to every endpoint that matches."},
	{"event types", "What your events look like: a description, an example and a schema for each type, which payloads are held against."},
	{"endpoints", "Where events go: URLs with their types, policy, signatures and secrets, and the switches that pause, resume and test them."},
	{"secrets", "What signs the requests to an endpoint, and how it is replaced."},
	{"deliveries", "One event on its way to one endpoint: its status, what it waits for, and the commands to retry or cancel it."},
	{"attempts", "The requests that were made for deliveries, with what was sent and what came back; as lists and as a stream."},
	{"dead letters", "Deliveries that were given up. They can be counted, grouped, discarded and replayed."},
	{"replays", "Deliver again what is dead, delivered or cancelled, at a pace that the destination bears."},
	{"lanes", "The way to one endpoint: its breaker, its limit, its pace, and what it has learnt."},
	{"stats", "Figures of endpoints, tenants and the whole server over windows of time."},
	{"policies", "How endpoints are treated: retries, timeouts, limits and breakers; presets, policies with names, and previews."},
	{"tenants", "Customers of yours, kept apart from each other."},
	{"portal", "Links that open the dashboard for one tenant."},
	{"alerts", "Conditions that somebody should know of, and the rules that find them."},
	{"alert channels", "Where alerts and operational events are sent: webhooks, chats, mail and the log."},
	{"operational events", "What happened to endpoints and to the server itself: breakers that opened, endpoints that were disabled."},
	{"audit", "Who changed what, and when."},
	{"keys", "API keys and their scopes."},
	{"nodes", "The processes that work on the store."},
	{"server", "The server itself: health, metrics, configuration, backups and this document."},
}

// operations says of each operation, by its id, what its summary does not. What a
// route says of itself comes first.
var operations = map[string]string{
	"get-livez":   "For a supervisor: 503 means that the process is stuck and should be started anew. It looks at no database.",
	"get-readyz":  "For a load balancer: 503 means that requests should go elsewhere, and says why.",
	"get-openapi": "OpenAPI 3.1. Clients can be generated from it; /docs shows it to people.",
	"get-me":      "Answers with the scope and the tenant of the key that asks, and the version of the server.",
	"get-config":  "Every setting with its value and where that came from. Secrets are masked. Nodes may be configured differently.",
	"list-nodes":  "Processes that renewed their lease of late, with the shards they own, the age of their lease and how far their clock is off.",

	"list-keys":  "Shows the public part of each key, its scope and when it was last used. The secret part is not stored.",
	"create-key": "The key is in the answer and is shown once: only its hash is stored. Keys of a tenant need the tenant; admin keys must not name one.",
	"revoke-key": "It works no more on this node at once, on others within a second. The last admin key cannot be revoked.",

	"list-tenants":  "By creation, newest first. `q` finds a part of the name or the uid.",
	"create-tenant": "A tenant has events, endpoints and keys of its own. `uid` is your name for it and can stand for the id in paths.",
	"get-tenant":    "With its policy level and limits.",
	"change-tenant": "A merge patch: what is absent stays, null clears. A changed policy applies to attempts that are planned from now on.",
	"delete-tenant": "Refused with 409 while it has endpoints or pending deliveries, unless `force` is true: then they are deleted and cancelled, " +
		"and the answer is 202 with their numbers. The tenant default cannot be deleted.",

	"list-endpoints":  "By creation, newest first; the filters add up.",
	"create-endpoint": "The secret is in the answer. From then on it can be read by those who may write, and every such read is audited.",
	"get-endpoint":    "Header values and secrets are not in it.",
	"delete-endpoint": "Answers with the number of deliveries that were cancelled. Its past deliveries and attempts stay until retention removes them.",
	"pause-endpoint":  "Events that match still get a delivery, which is held. The clock of max_hold runs.",
	"disable-endpoint": "As a pause, but shown as off, and replays to it are refused. It is what happens by itself to an endpoint that answers 410, " +
		"or that did nothing but fail for long.",
	"resume-endpoint":         "What was held is delivered, at first one request at a time, then more while the endpoint copes.",
	"probe-endpoint":          "For an endpoint whose breaker is open. Answers 409 when it is closed, or when a probe is under way.",
	"test-endpoint":           "A real event for this endpoint alone, whatever its types. It obeys the breaker and the limits as any other.",
	"rotate-secret":           "All secrets that have not expired sign, at most five. The answer has the new one.",
	"get-secret":              "All secrets that sign now, newest first.",
	"get-endpoint-policy":     "What the levels of server, tenant and endpoint give together, and the plan of retries that follows from it.",
	"preview-endpoint-policy": "Nothing is stored. The answer lists every value that would be different.",
	"get-lane":                "From the last checkpoint of the node that owns the lane, about a second old.",
	"get-endpoint-stats":      "Counts, rates and latencies of a window, with a series of equal steps.",
	"get-endpoint-health":     "For small pictures beside a list of endpoints: 48 half hours each.",
	"get-all-endpoint-health": "For small pictures beside a list of endpoints: 48 half hours each. Endpoints are named by id.",

	"send-events":           "Events are judged one by one, in order: the answer has a result for each. Status 202 means that at least one was accepted.",
	"list-events":           "By creation, newest first. Payloads are left out unless `with=payload` asks for them.",
	"get-event":             "With its payload and the number of its deliveries by status.",
	"list-event-deliveries": "One for each endpoint that matched when the event was accepted.",
	"get-event-payload":     "Exactly as they were accepted, as a download, whatever they are.",

	"list-deliveries":  "By creation, newest first. Parameters with different names must all match; one that is repeated matches any of its values.",
	"count-deliveries": "Counts what the list would show, up to a limit; `exact` says whether that was all.",
	"get-delivery":     "With its latest attempt, and of a pending one what it waits for.",
	"list-attempts":    "With what was sent and what came back, as far as it was kept.",
	"cancel-delivery":  "Answers 409 unless it is pending.",
	"retry-delivery": "One attempt now, which is not counted. Success settles the delivery; failure leaves its status and schedule as they were. " +
		"With an open breaker it is the next probe; with a paused endpoint it is held.",
	"get-attempt": "With what was sent and what came back, as far as it was kept.",

	"list-dead-letters":  "Deliveries whose status is dead, with the same filters.",
	"count-dead-letters": "Counts what the list would show, up to a limit; `exact` says whether that was all.",
	"group-dead-letters": "The largest group first. Each group has a sample to look at.",

	"list-replays":  "By creation, newest first, with their progress.",
	"get-replay":    "With its progress.",
	"change-replay": "Only the pace can be changed. Answers 409 once the replay has ended.",
	"pause-replay":  "Answers 409 once the replay has ended.",
	"resume-replay": "Answers 409 once the replay has ended.",
	"cancel-replay": "Answers 409 once the replay has ended.",

	"list-lanes":       "With url and uid of their endpoints. The filters add up.",
	"list-all-lanes":   "With tenant, url and uid of their endpoints. The filters add up.",
	"count-lanes":      "Counts what the list would show, up to a limit; `exact` says whether that was all.",
	"get-stats":        "Counts, rates and latencies of a window, with a series of equal steps, and how lanes are now.",
	"get-tenant-stats": "Counts, rates and latencies of a window, with a series of equal steps, and how lanes are now.",

	"list-presets":      "Complete policies that are part of the program, with the plan of retries that each gives.",
	"get-preset":        "A complete policy that is part of the program, with the plan of retries that it gives.",
	"list-event-types":  "By creation, newest first. A type need not be known here to be sent.",
	"get-event-type":    "With its schema and its example.",
	"change-event-type": "A merge patch of its fields: what is absent stays, null clears. A schema is replaced as a whole, and applies to events that are accepted from now on.",

	"list-policies":  "Policies that the operator saved; tenants and endpoints refer to them by name.",
	"get-policy":     "With the number of tenants and endpoints that refer to it.",
	"delete-policy":  "Refused with 409 while a tenant or an endpoint refers to it.",
	"preview-policy": "Nothing is stored. With `simulate` an outage is played with the code of the real lanes, in virtual time.",

	"list-alerts":                   "Those about this tenant and its endpoints. Resolved ones stay until retention removes them.",
	"list-all-alerts":               "Those of all tenants and those about the server. Resolved ones stay until retention removes them.",
	"get-alert":                     "A key of a tenant sees the alerts about that tenant, and notices over its own channels.",
	"list-alert-rules":              "What each rule looks at, and the thresholds that are set as alerts.<rule>.<name>.",
	"list-alert-channels":           "Channels that this tenant made; they tell only of alerts about it.",
	"list-all-alert-channels":       "The operator's channels and those of tenants.",
	"create-alert-channel":          "It tells only of alerts about this tenant. A secret that is made for a webhook is in the answer, once.",
	"create-operator-alert-channel": "It tells of all alerts, or of those about one tenant. A secret that is made for a webhook is in the answer, once.",
	"get-alert-channel":             "Secrets and header values are not in it.",
	"get-any-alert-channel":         "Secrets and header values are not in it.",
	"change-alert-channel":          "A merge patch: what is absent stays, null clears. Its kind cannot be changed.",
	"change-any-alert-channel":      "A merge patch: what is absent stays, null clears. Its kind and its tenant cannot be changed.",
	"delete-alert-channel":          "Notices that wait for it are dropped.",
	"delete-any-alert-channel":      "Notices that wait for it are dropped.",
	"test-alert-channel":            "Answers when the other side did: 200 with the result failed says that it was reached in vain.",
	"test-any-alert-channel":        "Answers when the other side did: 200 with the result failed says that it was reached in vain.",

	"list-operational-events":     "Breakers that opened and closed, endpoints that were disabled, dead letters; newest first.",
	"list-all-operational-events": "Those of all tenants and those about the server; newest first.",
	"list-audit":                  "Append-only, newest first. Addresses are for operators.",
	"list-all-audit":              "Append-only, newest first.",
}

// conflicts are operations that something may stand in the way of, beside those that
// take an Idempotency-Key.
var conflicts = map[string]bool{
	"change-any-alert-channel": true, "change-endpoint": true, "change-replay": true, "change-tenant": true, "create-backup": true,
	"delete-any-alert-channel": true, "delete-policy": true, "delete-tenant": true, "get-delivery-curl": true, "revoke-key": true,
}
