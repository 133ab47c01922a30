-- Whether an endpoint is told in whose trace its events were sent: 0 off, 1 forward.
ALTER TABLE endpoints ADD COLUMN trace_context INTEGER NOT NULL DEFAULT 0;
