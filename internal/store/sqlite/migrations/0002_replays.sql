-- Replays. The filter says what is in the set; deliveries up to cursor_id have
-- been fed and those from upto_id on are younger than the replay. endpoint_id
-- NULL: any endpoint of the tenant; total NULL: too many to count.

CREATE TABLE replays (
  id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, endpoint_id INTEGER, filter TEXT NOT NULL,
  state INTEGER NOT NULL CHECK (state BETWEEN 0 AND 4), state_reason TEXT NOT NULL DEFAULT '',
  per_minute INTEGER NOT NULL, current_per_minute INTEGER NOT NULL, ramp REAL NOT NULL, max_multiple REAL NOT NULL,
  pause_error_percent REAL NOT NULL, cursor_id INTEGER NOT NULL, upto_id INTEGER NOT NULL, paced_at INTEGER,
  total INTEGER, fed INTEGER NOT NULL DEFAULT 0, skipped INTEGER NOT NULL DEFAULT 0, delivered INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0, answers INTEGER NOT NULL DEFAULT 0, errors INTEGER NOT NULL DEFAULT 0,
  refused INTEGER NOT NULL DEFAULT 0, self_pauses INTEGER NOT NULL DEFAULT 0, delivered_at_pause INTEGER NOT NULL DEFAULT 0,
  created_by TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, started_at INTEGER, paused_at INTEGER,
  finished_at INTEGER, version INTEGER NOT NULL DEFAULT 1) STRICT;
CREATE INDEX replays_active ON replays (tenant_id) WHERE state < 3;
CREATE INDEX replays_tenant ON replays (tenant_id);
