-- What commits count (see package stats), a row for each of their statements,
-- until it is added up in stats a little later. written and ended are ids, of
-- entries that count; NULL: all of them do. The table has no index and is nearly
-- empty: it is read whole.
CREATE TABLE stats_log (at bigint NOT NULL, data bytea NOT NULL, written text, ended text)
  WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0, autovacuum_analyze_threshold = 1000000000, vacuum_truncate = false);

-- Figures of endpoints, tenants and the system by minute, later by hour and day,
-- packed. trouble is 1 when somebody should look at them. Rows of the running
-- minute change: room is left on their pages, so that no index has to be touched.
CREATE TABLE stats (
  level smallint NOT NULL, subject bigint NOT NULL, step smallint NOT NULL, at bigint NOT NULL, -- seconds
  trouble smallint NOT NULL, data bytea NOT NULL,
  PRIMARY KEY (level, subject, step, at)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX stats_age ON stats (step, at);
CREATE INDEX stats_trouble ON stats (at) WHERE trouble = 1;
