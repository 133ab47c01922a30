CREATE TABLE IF NOT EXISTS "webhook_seen" (
	scope TEXT NOT NULL,
	id TEXT NOT NULL,
	seen_at BIGINT NOT NULL,
	PRIMARY KEY (scope, id)
);
CREATE INDEX IF NOT EXISTS "webhook_seen_at" ON "webhook_seen" (scope, seen_at);
CREATE TABLE IF NOT EXISTS "webhook_seen_inbox" (
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
	body BLOB NOT NULL,
	reason TEXT NOT NULL,
	PRIMARY KEY (scope, id)
);
CREATE INDEX IF NOT EXISTS "webhook_seen_inbox_due" ON "webhook_seen_inbox" (scope, state, due_at);
;

INSERT INTO "webhook_seen" (scope, id, seen_at) VALUES (?, ?, ?) ON CONFLICT (scope, id) DO NOTHING;

SELECT seen_at FROM "webhook_seen" WHERE scope = ? AND id = ?;

UPDATE "webhook_seen" SET seen_at = ? WHERE scope = ? AND id = ? AND seen_at <= ?;

DELETE FROM "webhook_seen" WHERE scope = ? AND seen_at <= ? AND id IN (
	SELECT id FROM (SELECT id FROM "webhook_seen" WHERE scope = ? AND seen_at <= ? ORDER BY seen_at LIMIT 1000) AS old);

SELECT state, due_at FROM "webhook_seen_inbox" WHERE scope = ? AND id = ?;

INSERT INTO "webhook_seen_inbox"
	(type, delivery_id, attempt, sent_at, body, due_at, accepted_at, scope, id, state, tries, reason)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '') ON CONFLICT (scope, id) DO NOTHING;

UPDATE "webhook_seen_inbox"
	SET type = ?, delivery_id = ?, attempt = ?, sent_at = ?, body = ?, due_at = ?, accepted_at = ?, state = 0, tries = 0, reason = ''
	WHERE scope = ? AND id = ? AND state = 1 AND due_at <= ?;

DELETE FROM "webhook_seen_inbox" WHERE scope = ? AND state = 1 AND due_at <= ? AND id IN (
	SELECT id FROM (SELECT id FROM "webhook_seen_inbox" WHERE scope = ? AND state = 1 AND due_at <= ? ORDER BY due_at LIMIT 1000) AS old);

SELECT COUNT(*) FROM (SELECT id FROM "webhook_seen_inbox" WHERE scope = ? AND state = 0 AND due_at <= ? LIMIT 1) AS due;

UPDATE "webhook_seen_inbox" SET tries = tries WHERE 1 = 0;

SELECT id, type, delivery_id, attempt, sent_at, body, tries FROM "webhook_seen_inbox"
	WHERE scope = ? AND state = 0 AND due_at <= ? ORDER BY due_at LIMIT 1;

UPDATE "webhook_seen_inbox" SET state = 1, due_at = ?, tries = tries + 1, body = ?, reason = '' WHERE scope = ? AND id = ? AND state = 0;

UPDATE "webhook_seen_inbox" SET state = ?, due_at = ?, tries = tries + 1, reason = ? WHERE scope = ? AND id = ? AND state = 0 AND tries = ?;

SELECT id, type, delivery_id, attempt, sent_at, body, tries, due_at, reason FROM "webhook_seen_inbox"
	WHERE scope = ? AND state = 2 ORDER BY due_at LIMIT ?;

UPDATE "webhook_seen_inbox" SET state = 0, due_at = ?, tries = 0 WHERE scope = ? AND id = ? AND state = 2;
