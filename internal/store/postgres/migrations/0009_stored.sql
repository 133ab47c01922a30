-- How much a tenant has stored, for its quota: 256 for an event or an attempt and
-- 512 for a delivery, with what publishers and destinations filled in. Counted
-- when rows are written and when retention removes them, here for all that is
-- there already.
ALTER TABLE tenant_usage ADD COLUMN stored bigint NOT NULL DEFAULT 0;

INSERT INTO tenant_usage AS u (tenant_id, node_id, pending, bytes, stored)
SELECT tenant_id, 0, 0, 0, sum(weight) FROM (
  SELECT tenant_id, 256 + octet_length(payload) AS weight FROM events
  UNION ALL
  SELECT tenant_id, 512 + CASE WHEN first_attempt IS NULL THEN 0
    ELSE 256 + octet_length(first_attempt) + coalesce(octet_length(first_excerpt), 0) END FROM deliveries
  UNION ALL
  SELECT tenant_id, 256 + coalesce(octet_length(detail::text), 0) + coalesce(octet_length(error), 0) + coalesce(octet_length(excerpt), 0)
  FROM attempts) AS r
WHERE tenant_id IN (SELECT id FROM tenants) GROUP BY tenant_id
ON CONFLICT (tenant_id, node_id) DO UPDATE SET stored = excluded.stored;
