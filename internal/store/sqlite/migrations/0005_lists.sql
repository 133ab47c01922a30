-- The deliveries of a tenant in the order of ids: its lists need not walk past
-- those of others.
CREATE INDEX deliveries_tenant ON deliveries (tenant_id);
