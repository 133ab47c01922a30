-- Sessions of the dashboard that were ended before their time.
CREATE TABLE logouts (id bytea NOT NULL PRIMARY KEY, until timestamptz NOT NULL);
