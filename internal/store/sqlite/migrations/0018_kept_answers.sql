-- Requests of people under an idempotency key that were carried out, with what was
-- answered, sealed: answers hold secrets. The claim is stored with the change itself,
-- the answer right after it. tenant_id 0: the operator's.
CREATE TABLE kept_answers (
  tenant_id INTEGER NOT NULL, route TEXT NOT NULL, key TEXT NOT NULL, hash BLOB NOT NULL, token INTEGER NOT NULL, subject TEXT NOT NULL,
  sealed BLOB, expires_at INTEGER NOT NULL, PRIMARY KEY (tenant_id, route, key)) STRICT;
CREATE INDEX kept_answers_expired ON kept_answers (expires_at);
