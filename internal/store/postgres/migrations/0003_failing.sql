-- What disables an endpoint: since when it has done nothing but fail (NULL: its
-- last attempt did not), in how many attempts, and what was warned of.
ALTER TABLE lanes ADD COLUMN failing_since timestamptz, ADD COLUMN failing_attempts bigint NOT NULL DEFAULT 0,
  ADD COLUMN failing_warned smallint NOT NULL DEFAULT 0;
