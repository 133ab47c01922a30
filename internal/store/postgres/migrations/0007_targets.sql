-- The row of an event names the deliveries that get their row with their
-- result (targets), and unwritten says where to look for those: no event of the
-- node before since lacks a row.
ALTER TABLE events ADD COLUMN targets bytea;

-- The attempt that came with the row.
ALTER TABLE deliveries ADD COLUMN first_attempt text, ADD COLUMN first_excerpt bytea;

CREATE TABLE unwritten (node_id bigint PRIMARY KEY, since bigint NOT NULL) WITH (fillfactor = 50);
