-- The first schema. Times are microseconds since the epoch, NULL for "not yet";
-- zero integers take no space in a row, so counters are NOT NULL. An index ends
-- with the id of its row by itself; naming id would store it twice. Checks are
-- ranges: IN (…) builds a temporary table for every statement.

CREATE TABLE tenants (
  id INTEGER PRIMARY KEY, uid TEXT UNIQUE, name TEXT NOT NULL, policy TEXT NOT NULL DEFAULT '{}', limits TEXT NOT NULL DEFAULT '{}',
  metadata TEXT NOT NULL DEFAULT '{}', rev INTEGER NOT NULL DEFAULT 1, config_rev INTEGER NOT NULL DEFAULT 1,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;

CREATE TABLE endpoints (
  id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL REFERENCES tenants(id), uid TEXT, shard INTEGER NOT NULL, url TEXT NOT NULL,
  description TEXT NOT NULL DEFAULT '', event_types TEXT NOT NULL DEFAULT '[]', headers_sealed BLOB, policy TEXT NOT NULL DEFAULT '{}',
  signatures TEXT NOT NULL DEFAULT '[]', body_mode INTEGER NOT NULL DEFAULT 0, metadata TEXT NOT NULL DEFAULT '{}',
  state INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 2), state_reason TEXT NOT NULL DEFAULT '', rev INTEGER NOT NULL DEFAULT 1,
  probe_wanted_at INTEGER, reset_wanted_at INTEGER, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, deleted_at INTEGER) STRICT;
-- A deleted endpoint gives its uid back.
CREATE UNIQUE INDEX endpoints_uid ON endpoints (tenant_id, uid) WHERE deleted_at IS NULL;
CREATE INDEX endpoints_tenant ON endpoints (tenant_id);
CREATE INDEX endpoints_shard ON endpoints (shard);

CREATE TABLE secrets (
  id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, endpoint_id INTEGER NOT NULL REFERENCES endpoints(id), scheme INTEGER NOT NULL,
  kek_id TEXT NOT NULL, sealed BLOB NOT NULL, created_at INTEGER NOT NULL, expires_at INTEGER) STRICT;
CREATE INDEX secrets_endpoint ON secrets (endpoint_id);
CREATE INDEX secrets_expiry ON secrets (expires_at) WHERE expires_at IS NOT NULL;

-- No foreign keys on the tables that every event writes.
CREATE TABLE events (
  id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, type TEXT NOT NULL, created_at INTEGER NOT NULL, content_type TEXT NOT NULL,
  payload BLOB NOT NULL) STRICT;
CREATE INDEX events_tenant ON events (tenant_id);

CREATE TABLE idempotency_keys (
  tenant_id INTEGER NOT NULL, scope INTEGER NOT NULL, key TEXT NOT NULL, event_id INTEGER, body_hash BLOB NOT NULL, answer BLOB,
  expires_at INTEGER NOT NULL, PRIMARY KEY (tenant_id, scope, key)) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_expiry ON idempotency_keys (expires_at);

CREATE TABLE deliveries (
  id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, event_id INTEGER NOT NULL, endpoint_id INTEGER NOT NULL,
  state INTEGER NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 3), due_at INTEGER NOT NULL, size INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0, run INTEGER NOT NULL DEFAULT 1, run_due_at INTEGER NOT NULL, charged INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0, fails INTEGER NOT NULL DEFAULT 0, throttles INTEGER NOT NULL DEFAULT 0,
  prev_delay_ms INTEGER NOT NULL DEFAULT 0, limited TEXT, replay_id INTEGER, reason INTEGER, last_attempt_id INTEGER,
  last_class INTEGER, last_reason INTEGER, last_status INTEGER, last_latency_us INTEGER, last_at INTEGER,
  settled_at INTEGER, first_delivered_at INTEGER, restore_state INTEGER, restore_due_at INTEGER, restore_reason INTEGER) STRICT;
CREATE INDEX deliveries_due ON deliveries (endpoint_id, due_at) WHERE state = 0;
CREATE UNIQUE INDEX deliveries_event ON deliveries (event_id, endpoint_id);
CREATE INDEX deliveries_log ON deliveries (endpoint_id);
CREATE INDEX deliveries_dead ON deliveries (endpoint_id) WHERE state = 2;
CREATE INDEX deliveries_dead_tenant ON deliveries (tenant_id) WHERE state = 2;

CREATE TABLE attempts (
  id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, delivery_id INTEGER NOT NULL, endpoint_id INTEGER NOT NULL, event_id INTEGER NOT NULL,
  n INTEGER NOT NULL, run INTEGER NOT NULL, kind INTEGER NOT NULL, class INTEGER NOT NULL, reason INTEGER NOT NULL, charged INTEGER NOT NULL,
  status INTEGER NOT NULL, latency_us INTEGER NOT NULL, policy_hash BLOB NOT NULL, retry_n INTEGER NOT NULL, ceiling_ms INTEGER NOT NULL,
  u REAL NOT NULL, delay_ms INTEGER NOT NULL, delay_source INTEGER NOT NULL, next_due_at INTEGER, node_id INTEGER NOT NULL,
  started_at INTEGER NOT NULL, error TEXT, detail TEXT, excerpt BLOB) STRICT;
CREATE INDEX attempts_delivery ON attempts (delivery_id);

-- What each tenant has pending, by the node that wrote it; node 0 is whoever
-- cancels or retries by hand. Only the sum over all nodes means anything.
CREATE TABLE tenant_usage (
  tenant_id INTEGER NOT NULL, node_id INTEGER NOT NULL, pending INTEGER NOT NULL, bytes INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, node_id)) STRICT, WITHOUT ROWID;

-- No foreign key: the checkpoint of an endpoint that is gone must not fail the
-- batch it is part of.
CREATE TABLE lanes (
  endpoint_id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, epoch INTEGER NOT NULL, state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 1),
  open_reason INTEGER NOT NULL, opened_at INTEGER, closed_at INTEGER, blocked_at INTEGER, last_bad_at INTEGER, next_probe_at INTEGER,
  hold_until INTEGER, lim REAL NOT NULL, slow_start INTEGER NOT NULL, base_us INTEGER NOT NULL, base_weight REAL NOT NULL,
  srtt_us INTEGER NOT NULL, healthy_peak REAL NOT NULL, pace REAL NOT NULL, pace_slow_start INTEGER NOT NULL, throttled_at INTEGER,
  retry_after_us INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;

CREATE TABLE nodes (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL UNIQUE CHECK (slot BETWEEN 0 AND 1023), name TEXT NOT NULL UNIQUE, addr TEXT NOT NULL,
  version TEXT NOT NULL, draining INTEGER NOT NULL DEFAULT 0, started_at INTEGER NOT NULL) STRICT;

CREATE TABLE shards (
  shard INTEGER PRIMARY KEY CHECK (shard BETWEEN 0 AND 255), owner_id INTEGER, epoch INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO shards (shard) WITH RECURSIVE s(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < 255) SELECT i FROM s;

-- name '': the expanded policy of that hash, written once, never changed; else
-- a named policy as its author wrote it.
CREATE TABLE policies (
  hash BLOB NOT NULL, name TEXT NOT NULL DEFAULT '', body TEXT NOT NULL, rev INTEGER NOT NULL DEFAULT 1, updated_at INTEGER NOT NULL,
  PRIMARY KEY (hash, name)) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX policies_name ON policies (name) WHERE name <> '';

CREATE TABLE api_keys (
  id INTEGER PRIMARY KEY, tenant_id INTEGER REFERENCES tenants(id), name TEXT NOT NULL, prefix TEXT NOT NULL, hash BLOB NOT NULL UNIQUE,
  scope INTEGER NOT NULL, created_at INTEGER NOT NULL, last_used_at INTEGER, expires_at INTEGER, revoked_at INTEGER) STRICT;

CREATE TABLE audit (
  id INTEGER PRIMARY KEY, tenant_id INTEGER, actor TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL, diff TEXT,
  request_id TEXT, remote_ip TEXT, at INTEGER NOT NULL) STRICT;
CREATE INDEX audit_tenant ON audit (tenant_id);

-- What all processes on this database must agree on; the first value stays.
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
