-- The dead letters of all tenants in the order of ids: whoever looks at the whole
-- server need not walk past all that was delivered.
CREATE INDEX deliveries_dead_all ON deliveries (state, id) WHERE state = 2;
