-- What a node knows of itself, for whoever judges the whole fleet: one document,
-- since nobody asks for a part of it.
ALTER TABLE node_watch ADD COLUMN health TEXT NOT NULL DEFAULT '{}';

-- The few endpoints that are paused or disabled, among all.
CREATE INDEX endpoints_halted ON endpoints (tenant_id) WHERE state <> 0 AND deleted_at IS NULL;
