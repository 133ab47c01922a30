-- Policies that an operator saved by name. Tenants and endpoints whose level starts
-- from one carry its name beside the level; a name that nothing carries may go.
CREATE TABLE named_policies (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL, body TEXT NOT NULL, version INTEGER NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL) STRICT;
ALTER TABLE tenants ADD COLUMN policy_name TEXT;
ALTER TABLE endpoints ADD COLUMN policy_name TEXT;
CREATE INDEX tenants_policy ON tenants (policy_name) WHERE policy_name IS NOT NULL;
CREATE INDEX endpoints_policy ON endpoints (policy_name) WHERE policy_name IS NOT NULL;
