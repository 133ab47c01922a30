-- The deliveries of a tenant in the order of ids: its lists need neither ask
-- for each of its endpoints nor walk past the deliveries of others.
CREATE INDEX deliveries_tenant ON deliveries (tenant_id, id);
