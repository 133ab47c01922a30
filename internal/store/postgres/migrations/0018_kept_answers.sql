-- Requests of people under an idempotency key that were carried out, with what was
-- answered, sealed: answers hold secrets. The claim is stored with the change itself,
-- the answer right after it. tenant_id 0: the operator's.
CREATE TABLE kept_answers (
  tenant_id bigint NOT NULL, route text NOT NULL, key text NOT NULL, hash bytea NOT NULL, token bigint NOT NULL, subject text NOT NULL,
  sealed bytea, expires_at timestamptz NOT NULL, PRIMARY KEY (tenant_id, route, key));
CREATE INDEX kept_answers_expired ON kept_answers (expires_at);
