-- What a lane has learnt about rates, in requests per second, 0: nothing. The
-- load it is used to and the highest it carried, the rate of its recovery and
-- how long what that drains was held, what broke it, and what its host leaves it.
ALTER TABLE lanes ADD COLUMN usual REAL NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN proven REAL NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN recovery_rate REAL NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN held_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN ceiling REAL NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN ceiling_learnt REAL NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN ceiling_at INTEGER;
ALTER TABLE lanes ADD COLUMN ceiling_wait_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN mark REAL NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN marked_at INTEGER;
ALTER TABLE lanes ADD COLUMN host_rate REAL NOT NULL DEFAULT 0;
