-- What commits count (see package stats), one row each, until it is added up in
-- stats a little later. written and ended are ids, of entries that count; NULL:
-- all of them do.
CREATE TABLE stats_log (at INTEGER NOT NULL, data BLOB NOT NULL, written TEXT, ended TEXT) STRICT;

-- Figures of endpoints, tenants and the system by minute, later by hour and day,
-- packed. trouble is 1 when somebody should look at them.
CREATE TABLE stats (
  level INTEGER NOT NULL, subject INTEGER NOT NULL, step INTEGER NOT NULL, at INTEGER NOT NULL, -- seconds
  trouble INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (level, subject, step, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX stats_age ON stats (step, at);
CREATE INDEX stats_trouble ON stats (at) WHERE trouble = 1;
