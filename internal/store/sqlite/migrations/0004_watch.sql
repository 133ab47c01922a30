-- Storm detection. What the owner of a lane has seen of its retries: since NULL
-- means that there is no storm, no warning. Rows are few and short-lived: they
-- go when there is nothing left to show.

CREATE TABLE lane_watch (
  endpoint_id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, storm_since INTEGER, firsts INTEGER NOT NULL, retries INTEGER NOT NULL,
  growing_since INTEGER, depth INTEGER NOT NULL, at_least INTEGER NOT NULL, drain_per_minute REAL NOT NULL, updated_at INTEGER NOT NULL) STRICT;
CREATE INDEX lane_watch_active ON lane_watch (updated_at) WHERE storm_since IS NOT NULL OR growing_since IS NOT NULL;

-- The few lanes that are open, among all.
CREATE INDEX lanes_open ON lanes (tenant_id) WHERE state = 1;

CREATE TABLE node_watch (
  node_id INTEGER PRIMARY KEY, lanes INTEGER NOT NULL, opened INTEGER NOT NULL, depth INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;

-- Signals that are raised.
CREATE TABLE system_watch (signal INTEGER PRIMARY KEY, since INTEGER NOT NULL) STRICT;

-- tenant_id NULL: the whole server.
CREATE TABLE operational_events (
  id INTEGER PRIMARY KEY, tenant_id INTEGER, endpoint_id INTEGER, type TEXT NOT NULL, at INTEGER NOT NULL, detail TEXT NOT NULL) STRICT;
CREATE INDEX operational_events_tenant ON operational_events (tenant_id);
CREATE INDEX operational_events_endpoint ON operational_events (endpoint_id) WHERE endpoint_id IS NOT NULL;
