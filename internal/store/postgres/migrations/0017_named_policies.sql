-- Policies that an operator saved by name. Tenants and endpoints whose level starts
-- from one carry its name beside the level; a name that nothing carries may go.
CREATE TABLE named_policies (
  id bigint PRIMARY KEY, name text NOT NULL UNIQUE, description text NOT NULL, body json NOT NULL, version bigint NOT NULL,
  created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL);
ALTER TABLE tenants ADD COLUMN policy_name text;
ALTER TABLE endpoints ADD COLUMN policy_name text;
CREATE INDEX tenants_policy ON tenants (policy_name) WHERE policy_name IS NOT NULL;
CREATE INDEX endpoints_policy ON endpoints (policy_name) WHERE policy_name IS NOT NULL;
