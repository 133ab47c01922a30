-- Filters of endpoints, with what could not be evaluated since they were written, and
-- what tenants say about the types of their events.
ALTER TABLE endpoints ADD COLUMN filter text NOT NULL DEFAULT '', ADD COLUMN filter_errors bigint NOT NULL DEFAULT 0,
  ADD COLUMN filter_error text NOT NULL DEFAULT '', ADD COLUMN filter_error_at timestamptz;
CREATE TABLE event_types (
  id bigint PRIMARY KEY, tenant_id bigint NOT NULL, type text NOT NULL, description text NOT NULL, schema json, example json,
  version bigint NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL);
CREATE UNIQUE INDEX event_types_type ON event_types (tenant_id, type);
