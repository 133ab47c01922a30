-- Replays. The filter says what is in the set; deliveries up to cursor_id have
-- been fed and those from upto_id on are younger than the replay. endpoint_id
-- NULL: any endpoint of the tenant; total NULL: too many to count. Every batch
-- that settles a fed delivery updates its row, hence the room in its pages.

CREATE TABLE replays (
  id bigint PRIMARY KEY, tenant_id bigint NOT NULL, endpoint_id bigint, cursor_id bigint NOT NULL, upto_id bigint NOT NULL,
  total bigint, fed bigint NOT NULL DEFAULT 0, skipped bigint NOT NULL DEFAULT 0, delivered bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0, answers bigint NOT NULL DEFAULT 0, errors bigint NOT NULL DEFAULT 0, refused bigint NOT NULL DEFAULT 0,
  delivered_at_pause bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 1, paced_at timestamptz,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, started_at timestamptz, paused_at timestamptz, finished_at timestamptz,
  ramp double precision NOT NULL, max_multiple double precision NOT NULL, pause_error_percent double precision NOT NULL,
  per_minute integer NOT NULL, current_per_minute integer NOT NULL, self_pauses integer NOT NULL DEFAULT 0,
  state smallint NOT NULL CHECK (state IN (0,1,2,3,4)), state_reason text NOT NULL DEFAULT '', created_by text NOT NULL, filter json NOT NULL)
  WITH (fillfactor = 50);
CREATE INDEX replays_active ON replays (tenant_id, id) WHERE state < 3;
CREATE INDEX replays_tenant ON replays (tenant_id, id);
