-- Storm detection. What the owner of a lane has seen of its retries: since NULL
-- means that there is no storm, no warning. Rows are few and short-lived: they
-- go when there is nothing left to show. They change every few seconds, hence
-- the room in their pages.

CREATE TABLE lane_watch (
  endpoint_id bigint PRIMARY KEY, tenant_id bigint NOT NULL, storm_since timestamptz, growing_since timestamptz,
  firsts bigint NOT NULL, retries bigint NOT NULL, depth bigint NOT NULL, drain_per_minute double precision NOT NULL,
  updated_at timestamptz NOT NULL, at_least boolean NOT NULL) WITH (fillfactor = 50);
CREATE INDEX lane_watch_active ON lane_watch (endpoint_id) WHERE storm_since IS NOT NULL OR growing_since IS NOT NULL;

-- The few lanes that are open, among all.
CREATE INDEX lanes_open ON lanes (endpoint_id) WHERE state = 1;

CREATE TABLE node_watch (
  node_id bigint PRIMARY KEY, lanes bigint NOT NULL, opened bigint NOT NULL, depth bigint NOT NULL, updated_at timestamptz NOT NULL)
  WITH (fillfactor = 50);

-- Signals that are raised.
CREATE TABLE system_watch (signal smallint PRIMARY KEY, since timestamptz NOT NULL);

-- tenant_id NULL: the whole server.
CREATE TABLE operational_events (
  id bigint PRIMARY KEY, tenant_id bigint, endpoint_id bigint, at timestamptz NOT NULL, type text NOT NULL, detail json NOT NULL);
CREATE INDEX operational_events_tenant ON operational_events (tenant_id, id);
CREATE INDEX operational_events_endpoint ON operational_events (endpoint_id, id) WHERE endpoint_id IS NOT NULL;
