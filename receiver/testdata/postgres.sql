CREATE TABLE IF NOT EXISTS "hooks"."seen" (
	scope TEXT NOT NULL,
	id TEXT NOT NULL,
	seen_at BIGINT NOT NULL,
	PRIMARY KEY (scope, id)
);
CREATE INDEX IF NOT EXISTS "seen_at" ON "hooks"."seen" (scope, seen_at);
CREATE TABLE IF NOT EXISTS "hooks"."seen_inbox" (
	scope TEXT NOT NULL,
	id TEXT NOT NULL,
	state INTEGER NOT NULL,
	due_at BIGINT NOT NULL,
	tries INTEGER NOT NULL,
	accepted_at BIGINT NOT NULL,
	type TEXT NOT NULL,
	delivery_id TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	sent_at BIGINT NOT NULL,
	body BYTEA NOT NULL,
	reason TEXT NOT NULL,
	PRIMARY KEY (scope, id)
);
CREATE INDEX IF NOT EXISTS "seen_inbox_due" ON "hooks"."seen_inbox" (scope, state, due_at);
;

INSERT INTO "hooks"."seen" (scope, id, seen_at) VALUES ($1, $2, $3) ON CONFLICT (scope, id) DO NOTHING;

SELECT seen_at FROM "hooks"."seen" WHERE scope = $1 AND id = $2;

UPDATE "hooks"."seen" SET seen_at = $1 WHERE scope = $2 AND id = $3 AND seen_at <= $4;

DELETE FROM "hooks"."seen" WHERE scope = $1 AND seen_at <= $2 AND id IN (
	SELECT id FROM (SELECT id FROM "hooks"."seen" WHERE scope = $3 AND seen_at <= $4 ORDER BY seen_at LIMIT 1000) AS old);

SELECT state, due_at FROM "hooks"."seen_inbox" WHERE scope = $1 AND id = $2;

INSERT INTO "hooks"."seen_inbox"
	(type, delivery_id, attempt, sent_at, body, due_at, accepted_at, scope, id, state, tries, reason)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, 0, '') ON CONFLICT (scope, id) DO NOTHING;

UPDATE "hooks"."seen_inbox"
	SET type = $1, delivery_id = $2, attempt = $3, sent_at = $4, body = $5, due_at = $6, accepted_at = $7, state = 0, tries = 0, reason = ''
	WHERE scope = $8 AND id = $9 AND state = 1 AND due_at <= $10;

DELETE FROM "hooks"."seen_inbox" WHERE scope = $1 AND state = 1 AND due_at <= $2 AND id IN (
	SELECT id FROM (SELECT id FROM "hooks"."seen_inbox" WHERE scope = $3 AND state = 1 AND due_at <= $4 ORDER BY due_at LIMIT 1000) AS old);

SELECT COUNT(*) FROM (SELECT id FROM "hooks"."seen_inbox" WHERE scope = $1 AND state = 0 AND due_at <= $2 LIMIT 1) AS due;

UPDATE "hooks"."seen_inbox" SET tries = tries WHERE 1 = 0;

SELECT id, type, delivery_id, attempt, sent_at, body, tries FROM "hooks"."seen_inbox"
	WHERE scope = $1 AND state = 0 AND due_at <= $2 ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED;

UPDATE "hooks"."seen_inbox" SET state = 1, due_at = $1, tries = tries + 1, body = $2, reason = '' WHERE scope = $3 AND id = $4 AND state = 0;

UPDATE "hooks"."seen_inbox" SET state = $1, due_at = $2, tries = tries + 1, reason = $3 WHERE scope = $4 AND id = $5 AND state = 0 AND tries = $6;

SELECT id, type, delivery_id, attempt, sent_at, body, tries, due_at, reason FROM "hooks"."seen_inbox"
	WHERE scope = $1 AND state = 2 ORDER BY due_at LIMIT $2;

UPDATE "hooks"."seen_inbox" SET state = 0, due_at = $1, tries = 0 WHERE scope = $2 AND id = $3 AND state = 2;
