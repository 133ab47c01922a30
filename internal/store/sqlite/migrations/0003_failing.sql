-- What disables an endpoint: since when it has done nothing but fail (NULL: its
-- last attempt did not), in how many attempts, and what was warned of.
ALTER TABLE lanes ADD COLUMN failing_since INTEGER;
ALTER TABLE lanes ADD COLUMN failing_attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN failing_warned INTEGER NOT NULL DEFAULT 0;
