-- Alerts (see package alert). What does not apply of a subject is 0, so that there is one
-- alert at most for a rule and a subject that is not resolved (status 2). The
-- evaluator never writes the columns of an acknowledgement, but to clear them.
CREATE TABLE alerts (
  id INTEGER PRIMARY KEY, rule TEXT NOT NULL, level INTEGER NOT NULL, severity INTEGER NOT NULL, status INTEGER NOT NULL,
  tenant_id INTEGER NOT NULL, endpoint_id INTEGER NOT NULL, replay_id INTEGER NOT NULL, node_id INTEGER NOT NULL,
  summary TEXT NOT NULL, value REAL NOT NULL, threshold REAL NOT NULL, since INTEGER NOT NULL, last_at INTEGER, resolved_at INTEGER,
  count INTEGER NOT NULL, flapping INTEGER NOT NULL, memory TEXT NOT NULL,
  acked_by TEXT NOT NULL DEFAULT '', acked_at INTEGER, ack_note TEXT NOT NULL DEFAULT '', snoozed_until INTEGER) STRICT;
CREATE UNIQUE INDEX alerts_open ON alerts (rule, tenant_id, endpoint_id, replay_id, node_id) WHERE status <> 2;
CREATE INDEX alerts_resolved ON alerts (resolved_at) WHERE status = 2;
CREATE INDEX alerts_status ON alerts (status, id);
CREATE INDEX alerts_tenant ON alerts (tenant_id, id) WHERE tenant_id <> 0;
CREATE INDEX alerts_endpoint ON alerts (endpoint_id, id) WHERE endpoint_id <> 0;

-- What is sent, or was, over a channel: about an alert or, with kind 0, about an
-- operational event. Result 1: it waits.
CREATE TABLE notices (
  about_id INTEGER NOT NULL, channel_id INTEGER NOT NULL, at INTEGER NOT NULL, kind INTEGER NOT NULL,
  result INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0, due_at INTEGER NOT NULL, error TEXT NOT NULL DEFAULT '',
  reached TEXT NOT NULL DEFAULT '[]', PRIMARY KEY (about_id, channel_id, at, kind)) STRICT, WITHOUT ROWID;
CREATE INDEX notices_due ON notices (due_at) WHERE result = 1;
CREATE INDEX notices_waiting ON notices (channel_id, kind, at) WHERE result = 1;

-- tenant_id 0: the operator's. URL, secret and headers are sealed together.
CREATE TABLE alert_channels (
  id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, name TEXT NOT NULL, kind INTEGER NOT NULL, levels TEXT NOT NULL,
  min_severity INTEGER NOT NULL, rules TEXT NOT NULL, operational_events TEXT NOT NULL, send_resolved INTEGER NOT NULL,
  recipients TEXT NOT NULL, sealed BLOB NOT NULL, version INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  failing_since INTEGER, last_error TEXT NOT NULL DEFAULT '', dropped INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX alert_channels_tenant ON alert_channels (tenant_id, id);
