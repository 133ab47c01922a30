CREATE TABLE IF NOT EXISTS `hooks`.`seen` (
	scope VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	seen_at BIGINT NOT NULL,
	PRIMARY KEY (scope, id),
	INDEX (scope, seen_at)
);
CREATE TABLE IF NOT EXISTS `hooks`.`seen_inbox` (
	scope VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	state INTEGER NOT NULL,
	due_at BIGINT NOT NULL,
	tries INTEGER NOT NULL,
	accepted_at BIGINT NOT NULL,
	type MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
	delivery_id MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
	attempt INTEGER NOT NULL,
	sent_at BIGINT NOT NULL,
	body LONGBLOB NOT NULL,
	reason MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
	PRIMARY KEY (scope, id),
	INDEX (scope, state, due_at)
);
;

INSERT IGNORE INTO `hooks`.`seen` (scope, id, seen_at) VALUES (?, ?, ?);

SELECT seen_at FROM `hooks`.`seen` WHERE scope = ? AND id = ?;

UPDATE `hooks`.`seen` SET seen_at = ? WHERE scope = ? AND id = ? AND seen_at <= ?;

DELETE FROM `hooks`.`seen` WHERE scope = ? AND seen_at <= ? AND id IN (
	SELECT id FROM (SELECT id FROM `hooks`.`seen` WHERE scope = ? AND seen_at <= ? ORDER BY seen_at LIMIT 1000) AS old);

SELECT state, due_at FROM `hooks`.`seen_inbox` WHERE scope = ? AND id = ?;

INSERT IGNORE INTO `hooks`.`seen_inbox`
	(type, delivery_id, attempt, sent_at, body, due_at, accepted_at, scope, id, state, tries, reason)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, '');

UPDATE `hooks`.`seen_inbox`
	SET type = ?, delivery_id = ?, attempt = ?, sent_at = ?, body = ?, due_at = ?, accepted_at = ?, state = 0, tries = 0, reason = ''
	WHERE scope = ? AND id = ? AND state = 1 AND due_at <= ?;

DELETE FROM `hooks`.`seen_inbox` WHERE scope = ? AND state = 1 AND due_at <= ? AND id IN (
	SELECT id FROM (SELECT id FROM `hooks`.`seen_inbox` WHERE scope = ? AND state = 1 AND due_at <= ? ORDER BY due_at LIMIT 1000) AS old);

SELECT COUNT(*) FROM (SELECT id FROM `hooks`.`seen_inbox` WHERE scope = ? AND state = 0 AND due_at <= ? LIMIT 1) AS due;

UPDATE `hooks`.`seen_inbox` SET tries = tries WHERE 1 = 0;

SELECT id, type, delivery_id, attempt, sent_at, body, tries FROM `hooks`.`seen_inbox`
	WHERE scope = ? AND state = 0 AND due_at <= ? ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED;

UPDATE `hooks`.`seen_inbox` SET state = 1, due_at = ?, tries = tries + 1, body = ?, reason = '' WHERE scope = ? AND id = ? AND state = 0;

UPDATE `hooks`.`seen_inbox` SET state = ?, due_at = ?, tries = tries + 1, reason = ? WHERE scope = ? AND id = ? AND state = 0 AND tries = ?;

SELECT id, type, delivery_id, attempt, sent_at, body, tries, due_at, reason FROM `hooks`.`seen_inbox`
	WHERE scope = ? AND state = 2 ORDER BY due_at LIMIT ?;

UPDATE `hooks`.`seen_inbox` SET state = 0, due_at = ?, tries = 0 WHERE scope = ? AND id = ? AND state = 2;
