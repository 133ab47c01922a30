-- The few lanes that were told to wait, and those on their way back, among all.
CREATE INDEX lanes_hold ON lanes (hold_until) WHERE hold_until IS NOT NULL;
CREATE INDEX lanes_recovering ON lanes (tenant_id) WHERE recovery_rate > 0;

-- The few changes of one thing, among all of its tenant.
CREATE INDEX audit_subject ON audit (subject);
