-- Every delivery has its row from the accept on. What an earlier version left to
-- its events is written here: targets holds four zigzag varints for each
-- delivery: its id less that of the event, its endpoint, its due time less that
-- of the event's creation, and its size. Each row of walk has read one byte more.
INSERT INTO deliveries (id, tenant_id, event_id, endpoint_id, due_at, size, run_due_at)
WITH RECURSIVE walk(id, tenant_id, created_at, targets, pos, byte, low, shift, n, value) AS (
  SELECT id, tenant_id, created_at, targets, 1,
    instr('0123456789ABCDEF', substr(hex(substr(targets, 1, 1)), 1, 1)) * 16 + instr('0123456789ABCDEF', substr(hex(substr(targets, 1, 1)), 2, 1)) - 17,
    0, 0, 0, NULL
  FROM events WHERE id >= (SELECT since FROM unwritten) AND targets IS NOT NULL
  UNION ALL
  SELECT id, tenant_id, created_at, targets, pos + 1,
    instr('0123456789ABCDEF', substr(hex(substr(targets, pos + 1, 1)), 1, 1)) * 16
      + instr('0123456789ABCDEF', substr(hex(substr(targets, pos + 1, 1)), 2, 1)) - 17,
    CASE WHEN byte < 128 THEN 0 ELSE low | ((byte & 127) << shift) END,
    CASE WHEN byte < 128 THEN 0 ELSE shift + 7 END,
    n + (byte < 128),
    CASE WHEN byte < 128 THEN low | (byte << shift) END
  FROM walk WHERE pos <= length(targets)),
field(id, tenant_id, created_at, target, name, value) AS (
  SELECT id, tenant_id, created_at, (n - 1) / 4, (n - 1) % 4,
    CASE value & 1 WHEN 0 THEN (value >> 1) & 9223372036854775807 ELSE ~((value >> 1) & 9223372036854775807) END
  FROM walk WHERE value IS NOT NULL)
SELECT id + max(value) FILTER (WHERE name = 0), tenant_id, id, max(value) FILTER (WHERE name = 1),
  created_at + max(value) FILTER (WHERE name = 2), max(value) FILTER (WHERE name = 3), created_at + max(value) FILTER (WHERE name = 2)
FROM field GROUP BY id, target
ON CONFLICT DO NOTHING;

DROP TABLE unwritten;

-- events.targets stays, unused: SQLite would write the whole table anew.
