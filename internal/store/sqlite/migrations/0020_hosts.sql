-- What was learnt of the host of an endpoint, which all endpoints of it save.
ALTER TABLE lanes ADD COLUMN host_learnt TEXT;
