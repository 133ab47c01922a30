-- Payloads too large for their row are compressed by lz4 where the server has
-- it, and else not at all: the old default takes longer over 16 KiB than all
-- the rest of an event.
DO $$
BEGIN
  EXECUTE 'ALTER TABLE events ALTER COLUMN payload SET COMPRESSION lz4';
EXCEPTION WHEN OTHERS THEN
  EXECUTE 'ALTER TABLE events ALTER COLUMN payload SET STORAGE EXTERNAL';
END $$;
