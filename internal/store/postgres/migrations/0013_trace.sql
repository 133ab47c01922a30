-- Whether an endpoint is told in whose trace its events were sent: 0 off, 1
-- forward. A constant default: no row is rewritten.
ALTER TABLE endpoints ADD COLUMN trace_context smallint NOT NULL DEFAULT 0;
