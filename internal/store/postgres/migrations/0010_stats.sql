-- Figures of endpoints, tenants and the system by minute, later by hour and day
-- (see package stats): what each writer has counted, packed. Readers add up the
-- writers. Rows of the running minute change all the time: room is left on their
-- pages, so that no index has to be touched.
CREATE TABLE stats (
  level smallint NOT NULL, subject bigint NOT NULL, step smallint NOT NULL, at bigint NOT NULL, -- seconds
  writer bigint NOT NULL, data bytea NOT NULL,
  PRIMARY KEY (level, subject, step, at, writer)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

CREATE INDEX stats_age ON stats (step, at);
