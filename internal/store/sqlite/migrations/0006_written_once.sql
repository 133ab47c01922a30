-- A delivery that succeeds at once is written once: its row comes with the
-- result. Until then the event names it. targets NULL: all rows are there.
ALTER TABLE events ADD COLUMN targets BLOB;

-- Events below since have the rows of all their deliveries.
CREATE TABLE unwritten (id INTEGER PRIMARY KEY CHECK (id = 1), since INTEGER NOT NULL) STRICT;
INSERT INTO unwritten (id, since) SELECT 1, coalesce(max(id), 0) FROM events;

-- The attempt that the row came with. It is found by its delivery alone, so it
-- needs no index; the others are in attempts.
ALTER TABLE deliveries ADD COLUMN first_attempt_id INTEGER;
CREATE TABLE first_attempts (id INTEGER PRIMARY KEY, document TEXT NOT NULL, excerpt BLOB) STRICT;
