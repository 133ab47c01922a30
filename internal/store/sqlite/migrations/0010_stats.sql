-- Figures of endpoints, tenants and the system by minute, later by hour and day
-- (see package stats): what each writer has counted, packed. Readers add up the
-- writers.
CREATE TABLE stats (
  level INTEGER NOT NULL, subject INTEGER NOT NULL, step INTEGER NOT NULL, at INTEGER NOT NULL, -- seconds
  writer INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (level, subject, step, at, writer)
) STRICT, WITHOUT ROWID;

CREATE INDEX stats_age ON stats (step, at);
