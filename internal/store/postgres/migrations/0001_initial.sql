-- The first schema. Documents that are never filtered by are json, not jsonb:
-- they come back as they were written, and json takes every string that Go can
-- encode (jsonb refuses \u0000, which a hostile answer may contain).

CREATE TABLE tenants (
  id bigint PRIMARY KEY, uid text UNIQUE, name text NOT NULL, policy json NOT NULL DEFAULT '{}', limits json NOT NULL DEFAULT '{}',
  metadata json NOT NULL DEFAULT '{}', rev bigint NOT NULL DEFAULT 1, config_rev bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL) WITH (fillfactor = 70);

CREATE TABLE endpoints (
  id bigint PRIMARY KEY, tenant_id bigint NOT NULL REFERENCES tenants(id), uid text, shard smallint NOT NULL CHECK (shard BETWEEN 0 AND 255),
  url text NOT NULL, description text NOT NULL DEFAULT '', event_types json NOT NULL DEFAULT '[]', headers_sealed bytea,
  policy json NOT NULL DEFAULT '{}', signatures json NOT NULL DEFAULT '[]', body_mode smallint NOT NULL DEFAULT 0,
  metadata json NOT NULL DEFAULT '{}', state smallint NOT NULL DEFAULT 0 CHECK (state IN (0,1,2)), state_reason text NOT NULL DEFAULT '',
  rev bigint NOT NULL DEFAULT 1, probe_wanted_at timestamptz, reset_wanted_at timestamptz,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, deleted_at timestamptz);
-- A deleted endpoint gives its uid back.
CREATE UNIQUE INDEX endpoints_uid ON endpoints (tenant_id, uid) WHERE deleted_at IS NULL;
CREATE INDEX endpoints_tenant ON endpoints (tenant_id, id);
CREATE INDEX endpoints_shard ON endpoints (shard);

CREATE TABLE secrets (
  id bigint PRIMARY KEY, tenant_id bigint NOT NULL, endpoint_id bigint NOT NULL REFERENCES endpoints(id), scheme smallint NOT NULL,
  kek_id text NOT NULL, sealed bytea NOT NULL, created_at timestamptz NOT NULL, expires_at timestamptz);
CREATE INDEX secrets_endpoint ON secrets (endpoint_id);
CREATE INDEX secrets_expiry ON secrets (expires_at) WHERE expires_at IS NOT NULL;

-- No foreign keys on events, deliveries and attempts: they are hot, and they
-- leave by whole days.
CREATE TABLE events (
  id bigint PRIMARY KEY, tenant_id bigint NOT NULL, created_at timestamptz NOT NULL, type text NOT NULL, content_type text NOT NULL,
  payload bytea NOT NULL) PARTITION BY RANGE (id);
CREATE INDEX events_tenant ON events (tenant_id, id);

CREATE TABLE idempotency_keys (
  tenant_id bigint NOT NULL, scope smallint NOT NULL, key text NOT NULL, event_id bigint, body_hash bytea NOT NULL, answer bytea,
  expires_at timestamptz NOT NULL, PRIMARY KEY (tenant_id, scope, key));
CREATE INDEX idempotency_expiry ON idempotency_keys (expires_at);

CREATE TABLE deliveries (
  id bigint PRIMARY KEY, tenant_id bigint NOT NULL, event_id bigint NOT NULL, endpoint_id bigint NOT NULL,
  due_at timestamptz NOT NULL, run_due_at timestamptz NOT NULL, replay_id bigint, last_attempt_id bigint, last_at timestamptz,
  settled_at timestamptz, first_delivered_at timestamptz, restore_due_at timestamptz,
  attempts integer NOT NULL DEFAULT 0, size integer NOT NULL DEFAULT 0, charged integer NOT NULL DEFAULT 0, failures integer NOT NULL DEFAULT 0,
  fails integer NOT NULL DEFAULT 0, throttles integer NOT NULL DEFAULT 0, run integer NOT NULL DEFAULT 1, prev_delay_ms integer,
  last_latency_us integer, last_status smallint, state smallint NOT NULL DEFAULT 0 CHECK (state IN (0,1,2,3)), restore_state smallint,
  restore_reason smallint, reason smallint, last_class smallint, last_reason smallint, limited jsonb)
  WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02);
CREATE INDEX deliveries_due ON deliveries (endpoint_id, due_at, id) WHERE state = 0;
CREATE UNIQUE INDEX deliveries_event ON deliveries (event_id, endpoint_id);
CREATE INDEX deliveries_log ON deliveries (endpoint_id, id);
CREATE INDEX deliveries_dead ON deliveries (endpoint_id, id) WHERE state = 2;
CREATE INDEX deliveries_dead_tenant ON deliveries (tenant_id, id) WHERE state = 2;

CREATE TABLE attempts (
  id bigint PRIMARY KEY, tenant_id bigint NOT NULL, delivery_id bigint NOT NULL, endpoint_id bigint NOT NULL, event_id bigint NOT NULL,
  node_id bigint NOT NULL, started_at timestamptz NOT NULL, next_due_at timestamptz, u double precision, n integer NOT NULL, run integer NOT NULL,
  latency_us integer NOT NULL, retry_n integer, ceiling_ms integer, delay_ms integer, status smallint, kind smallint NOT NULL,
  class smallint NOT NULL, reason smallint NOT NULL, delay_source smallint, charged boolean NOT NULL,
  policy_hash bytea NOT NULL, error text, detail json, excerpt bytea) PARTITION BY RANGE (id);
CREATE INDEX attempts_delivery ON attempts (delivery_id);

-- What each tenant has pending, one row per writing node so that nodes never
-- wait for each other; node 0 is whoever cancels or retries by hand.
CREATE TABLE tenant_usage (
  tenant_id bigint NOT NULL, node_id bigint NOT NULL, pending bigint NOT NULL, bytes bigint NOT NULL,
  PRIMARY KEY (tenant_id, node_id)) WITH (fillfactor = 50);

-- No foreign key: the row of an endpoint that is gone must not fail a batch.
CREATE TABLE lanes (
  endpoint_id bigint PRIMARY KEY, tenant_id bigint NOT NULL, epoch bigint NOT NULL, state smallint NOT NULL CHECK (state IN (0,1)),
  open_reason smallint, opened_at timestamptz, closed_at timestamptz, blocked_at timestamptz, last_bad_at timestamptz,
  next_probe_at timestamptz, hold_until timestamptz, throttled_at timestamptz, base_us bigint, srtt_us bigint, retry_after_us bigint,
  lim double precision NOT NULL, base_weight double precision NOT NULL, healthy_peak double precision NOT NULL, pace double precision NOT NULL,
  slow_start boolean NOT NULL, pace_slow_start boolean NOT NULL, updated_at timestamptz NOT NULL) WITH (fillfactor = 50);

CREATE TABLE nodes (
  id bigint PRIMARY KEY, slot smallint NOT NULL UNIQUE CHECK (slot BETWEEN 0 AND 1023), name text NOT NULL UNIQUE, addr text NOT NULL,
  version text NOT NULL, draining boolean NOT NULL DEFAULT false, started_at timestamptz NOT NULL, expires_at timestamptz NOT NULL) WITH (fillfactor = 50);

CREATE TABLE shards (
  shard smallint PRIMARY KEY CHECK (shard BETWEEN 0 AND 255), owner_id bigint, epoch bigint NOT NULL DEFAULT 0,
  expires_at timestamptz NOT NULL DEFAULT '-infinity') WITH (fillfactor = 25);
INSERT INTO shards (shard) SELECT generate_series(0, 255);

-- name '': the expanded policy of that hash, written once, never changed; else
-- a named policy as its author wrote it.
CREATE TABLE policies (
  hash bytea NOT NULL, name text NOT NULL DEFAULT '', body json NOT NULL, rev integer NOT NULL DEFAULT 1, updated_at timestamptz NOT NULL,
  PRIMARY KEY (hash, name));
CREATE UNIQUE INDEX policies_name ON policies (name) WHERE name <> '';

CREATE TABLE api_keys (
  id bigint PRIMARY KEY, tenant_id bigint REFERENCES tenants(id), name text NOT NULL, prefix text NOT NULL, hash bytea NOT NULL UNIQUE,
  scope smallint NOT NULL, created_at timestamptz NOT NULL, last_used_at timestamptz, expires_at timestamptz, revoked_at timestamptz);

CREATE TABLE audit (
  id bigint PRIMARY KEY, tenant_id bigint, actor text NOT NULL, action text NOT NULL, subject text NOT NULL, diff json,
  request_id text, remote_ip text, at timestamptz NOT NULL);
CREATE INDEX audit_tenant ON audit (tenant_id, id);

-- What the nodes of this database have agreed on, each value claimed once.
CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL);
