-- Filters of endpoints, with what could not be evaluated since they were written, and
-- what tenants say about the types of their events.
ALTER TABLE endpoints ADD COLUMN filter TEXT NOT NULL DEFAULT '';
ALTER TABLE endpoints ADD COLUMN filter_errors INTEGER NOT NULL DEFAULT 0;
ALTER TABLE endpoints ADD COLUMN filter_error TEXT NOT NULL DEFAULT '';
ALTER TABLE endpoints ADD COLUMN filter_error_at INTEGER;
CREATE TABLE event_types (
  id INTEGER PRIMARY KEY, tenant_id INTEGER NOT NULL, type TEXT NOT NULL, description TEXT NOT NULL, schema TEXT, example TEXT,
  version INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX event_types_type ON event_types (tenant_id, type);
