-- What a lane has learnt about rates, in requests per second, 0: nothing. The
-- load it is used to and the highest it carried, the rate of its recovery and
-- how long what that drains was held, what broke it, and what its host leaves
-- it. Constant defaults: no row is rewritten.
ALTER TABLE lanes ADD COLUMN usual double precision NOT NULL DEFAULT 0, ADD COLUMN proven double precision NOT NULL DEFAULT 0,
  ADD COLUMN recovery_rate double precision NOT NULL DEFAULT 0, ADD COLUMN held_us bigint NOT NULL DEFAULT 0,
  ADD COLUMN ceiling double precision NOT NULL DEFAULT 0, ADD COLUMN ceiling_learnt double precision NOT NULL DEFAULT 0,
  ADD COLUMN ceiling_at timestamptz, ADD COLUMN ceiling_wait_us bigint NOT NULL DEFAULT 0,
  ADD COLUMN mark double precision NOT NULL DEFAULT 0, ADD COLUMN marked_at timestamptz,
  ADD COLUMN host_rate double precision NOT NULL DEFAULT 0;
