-- Sessions of the dashboard that were ended before their time.
CREATE TABLE logouts (id BLOB NOT NULL PRIMARY KEY, until INTEGER NOT NULL) STRICT, WITHOUT ROWID; -- microseconds
