-- Alerts (see package alert). What does not apply of a subject is 0, so that there is one
-- alert at most for a rule and a subject that is not resolved (status 2). The
-- evaluator never writes the columns of an acknowledgement, but to clear them.
-- Rows of open alerts change every minute, hence the room in their pages.
CREATE TABLE alerts (
  id bigint PRIMARY KEY, tenant_id bigint NOT NULL, endpoint_id bigint NOT NULL, replay_id bigint NOT NULL, node_id bigint NOT NULL,
  count bigint NOT NULL, value double precision NOT NULL, threshold double precision NOT NULL,
  since timestamptz NOT NULL, last_at timestamptz, resolved_at timestamptz, acked_at timestamptz, snoozed_until timestamptz,
  level smallint NOT NULL, severity smallint NOT NULL, status smallint NOT NULL, flapping boolean NOT NULL,
  rule text NOT NULL, summary text NOT NULL, acked_by text NOT NULL DEFAULT '', ack_note text NOT NULL DEFAULT '', memory json NOT NULL)
  WITH (fillfactor = 70);
CREATE UNIQUE INDEX alerts_open ON alerts (rule, tenant_id, endpoint_id, replay_id, node_id) WHERE status <> 2;
CREATE INDEX alerts_resolved ON alerts (resolved_at) WHERE status = 2;
CREATE INDEX alerts_status ON alerts (status, id);
CREATE INDEX alerts_tenant ON alerts (tenant_id, id) WHERE tenant_id <> 0;
CREATE INDEX alerts_endpoint ON alerts (endpoint_id, id) WHERE endpoint_id <> 0;

-- What is sent, or was, over a channel: about an alert or, with kind 0, about an
-- operational event. Result 1: it waits.
CREATE TABLE notices (
  about_id bigint NOT NULL, channel_id bigint NOT NULL, at timestamptz NOT NULL, due_at timestamptz NOT NULL, tries integer NOT NULL DEFAULT 0,
  kind smallint NOT NULL, result smallint NOT NULL, error text NOT NULL DEFAULT '', reached json NOT NULL DEFAULT '[]',
  PRIMARY KEY (about_id, channel_id, at, kind)) WITH (fillfactor = 70);
CREATE INDEX notices_due ON notices (due_at) WHERE result = 1;
CREATE INDEX notices_waiting ON notices (channel_id, kind, at) WHERE result = 1;

-- tenant_id 0: the operator's. URL, secret and headers are sealed together.
CREATE TABLE alert_channels (
  id bigint PRIMARY KEY, tenant_id bigint NOT NULL, version bigint NOT NULL, dropped bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, failing_since timestamptz,
  kind smallint NOT NULL, min_severity smallint NOT NULL, send_resolved boolean NOT NULL, name text NOT NULL, last_error text NOT NULL DEFAULT '',
  levels json NOT NULL, rules json NOT NULL, operational_events json NOT NULL, recipients json NOT NULL, sealed bytea NOT NULL);
CREATE INDEX alert_channels_tenant ON alert_channels (tenant_id, id);
