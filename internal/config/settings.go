package config

import (
	"slices"
	"strings"
	"time"
)

// setting is one row of the table. Names in the environment and on the command
// line follow from the key.
type setting struct {
	key   string
	value value
	def   string // in the syntax of the setting; empty: see help
	help  string

	secret    bool // masked, may come from <key>_file
	plainFlag bool // a secret that may also be a plain flag
	private   bool // a secret whose file others must not be able to read
}

// row makes a row of the table.
func row(key string, v value, def, help string, marks ...func(*setting)) setting {
	s := setting{key: key, value: v, def: def, help: help}
	for _, mark := range marks {
		mark(&s)
	}
	return s
}

// The marks of a row.
func secret(s *setting)    { s.secret = true }
func plainFlag(s *setting) { s.plainFlag = true }
func private(s *setting)   { s.private = true }

// shortFlags are the flags that do not follow from their keys.
var shortFlags = map[string]string{
	"policy.default":    "policy",
	"egress.allow_cidr": "allow-cidr",
	"egress.deny_cidr":  "deny-cidr",
}

func (s *setting) flagName() string {
	if short, ok := shortFlags[s.key]; ok {
		return short
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.key)
}

func (s *setting) variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(s.flagName(), "-", "_"))
}

// shown is the given text for a message.
func (s *setting) shown(g given) string {
	if s.secret && !g.isFile {
		return ""
	}
	return g.text
}

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
	tib = 1 << 40
	day = 24 * time.Hour
)

// settings is the table that everything follows from, in the order of the
// documentation: the key, the type with its place in c and its bounds, the
// default, and the help.
func (c *Config) settings() []setting {
	return slices.Concat(c.serverSettings(), c.ingestSettings(), c.storeSettings(), c.policySettings(),
		c.egressSettings(), c.retentionSettings(), c.alertSettings(), c.uiSettings())
}

func (c *Config) serverSettings() []setting {
	o := &c.Options
	return []setting{
		row("data_dir", text(&o.DataDir, "dir", "", checkPath), "breakwater-data",
			"folder of the SQLite file, the keys and the node's name; used by one process at a time"),
		row("database_url", text(&o.DatabaseURL, "url", "postgres://…", checkDatabaseURL), "",
			"Postgres to use instead of SQLite", secret, plainFlag),
		row("listen", text(&o.Listen, "host:port", "host:port", checkListen), "127.0.0.1:8080",
			"address of the API"),
		row("listen.trusted_proxies", prefixes(&o.TrustedProxies), "",
			"proxies in front of the API whose X-Forwarded-For names the client, for bounds per address and the audit; in YAML written as one key"),
		row("listen.max_connections", whole(&o.MaxConnections, 0, 1_000_000), "0",
			"clients of the API at the same time; 0 means half of what the process may open, at most 16384, so that the store and deliveries have the rest"),
		row("listen.max_connections_per_address", whole(&o.MaxConnectionsPerAddress, 0, 1_000_000), "0",
			"clients of one address, or of one /64 of IPv6; 0 means a quarter of listen.max_connections; trusted proxies may have all"),
		row("node_name", text(&o.NodeName, "name", "1 to 64 letters, digits, dots, dashes or underscores", checkNodeName), "",
			"name that outlives restarts; made once and kept in data_dir when empty"),
		row("dev", toggle(&o.Dev), "false",
			"for trying things out: loopback and private destinations allowed, text log, loopback listener only"),
		row("admin_key", text(&o.AdminKey, "key", "16 to 256 visible ASCII characters", checkAdminKey), "",
			"first admin key, used only while no key exists; made and shown once when empty", secret),
		row("encryption_key", many(&o.EncryptionKeys, "key,…", "base64 of 32 bytes each", checkEncryptionKey, strings.Clone), "",
			"keys that seal endpoint secrets, the first one for new ones; made in data_dir when empty; all nodes of one Postgres need the same", secret, private),
		row("tls.cert_file", text(&o.TLSCertFile, "file", "", checkReadable), "",
			"certificate chain; with tls.key_file the API speaks TLS"),
		row("tls.key_file", text(&o.TLSKeyFile, "file", "", checkReadable), "",
			"private key of tls.cert_file"),
		row("pprof.listen", text(&o.PprofListen, "host:port", "loopback only", checkLoopback), "",
			"address of the profiler, off when empty"),
		row("metrics.listen", text(&o.MetricsListen, "host:port", "host:port", checkListen), "",
			"address of its own for /metrics; when empty it is on the API's address, for loopback, admin keys and metrics.token only"),
		row("metrics.token", text(&o.MetricsToken, "token", "16 to 256 visible ASCII characters", checkAdminKey), "",
			"lets its bearer read /metrics; with metrics.listen nobody else may", secret),
		row("metrics.worst_endpoints", whole(&o.MetricsWorst, 0, 100), "0",
			"endpoints of each node, those in the worst state, that have series of their own, labelled with their ids; 0 means none"),
		row("log.level", logLevel(&c.LogLevel), "info",
			"least severe messages to log"),
		row("log.format", oneOf(&c.LogFormat, "format", "json", "text"), "",
			"form of the log; text on a terminal and with dev, else json"),
	}
}

func (c *Config) ingestSettings() []setting {
	o := &c.Options
	return []setting{
		row("ingest.max_payload", size(&o.MaxPayload, kib, 16*mib), "1 MiB",
			"largest payload of an event"),
		row("ingest.max_batch_body", size(&o.MaxBatchBody, mib, 64*mib), "16 MiB",
			"largest body of a batch request"),
		row("ingest.max_fanout", whole(&o.MaxFanout, 1, 100_000), "10000",
			"most deliveries of one event"),
		row("ingest.max_request_deliveries", whole(&o.MaxRequestDeliveries, 1000, 200_000), "20000",
			"most deliveries of all events of one batch request"),
		row("ingest.queue", whole(&o.IngestQueue, 1024, 1<<20), "65536",
			"events and deliveries that may wait for the store before new ones get 503; a tenant may have as many waiting as are left free for all"),
		row("ingest.queue_bytes", size(&o.IngestQueueBytes, 16*mib, 64*gib), "256 MiB",
			"payload bytes that may wait for the store, shared like ingest.queue"),
		row("ingest.tenant_rate", number(&o.TenantRate, 0, 1_000_000), "0",
			"events per second of one tenant, 0 means no limit"),
		row("ingest.tenant_max_pending", whole(&o.TenantMaxPending, 1, 1_000_000_000_000), "5000000",
			"deliveries of one tenant that may wait"),
		row("ingest.tenant_max_pending_bytes", size(&o.TenantMaxPendingBytes, mib, 1024*tib), "8 GiB",
			"payload bytes of one tenant that may wait"),
		row("ingest.tenant_max_endpoints", whole(&o.TenantMaxEndpoints, 1, 1_000_000), "1000",
			"endpoints of one tenant"),
		row("ingest.tenant_max_stored", size(&o.TenantMaxStored, mib, 1024*tib), "100 GiB",
			"bytes that one tenant may have stored; beyond it new events get 507 until retention has removed some"),
		row("api.key_write_rate", number(&o.KeyWriteRate, 0, 10_000), "5",
			"changes of configuration per second with one key of a tenant, a minute's worth at once; 0 means no limit"),
		row("idempotency_ttl", span(&o.IdempotencyTTL, time.Hour, 7*day), "1d",
			"how long idempotency keys are remembered"),
	}
}

func (c *Config) storeSettings() []setting {
	o := &c.Options
	return []setting{
		row("store.max_conns", whole(&o.StoreMaxConns, 8, 200), "16",
			"connections to Postgres"),
		row("store.batch", whole(&o.StoreBatch, 1, 256), "256",
			"accepts or settles in one commit"),
		row("store.batch_rows", whole(&o.StoreBatchRows, 256, 65_536), "2048",
			"new events and deliveries in one commit; an event with more deliveries has one of its own"),
		row("store.disk_reserve", size(&o.DiskReserve, 64*mib, 1024*tib), "512 MiB",
			"free space below which new events get 507 (SQLite); deliveries go on"),
		row("store.log_limit", size(&o.LogLimit, 256*mib, 1024*tib), "1 GiB",
			"length of the SQLite log at which new events get 507, because another program that reads the file keeps it from being shortened; deliveries go on"),
		row("store.migrate", toggle(&o.Migrate), "true",
			"bring the schema up to date at start"),
		row("dispatch.max_in_flight", whole(&o.MaxInFlight, 1, 20_000), "1024",
			"requests of this node at the same time"),
		row("dispatch.window", whole(&o.Window, 16, 4096), "512",
			"new deliveries of one endpoint kept in memory, and three quarters as many that were read"),
		row("dispatch.payload_memory", size(&o.PayloadMemory, 8*mib, 4*gib), "64 MiB",
			"payloads kept in memory; beyond it they are read again when sent"),
		row("dispatch.drain_timeout", span(&o.DrainTimeout, time.Second, 10*time.Minute), "35s",
			"how long a stop waits for requests in flight"),
		row("lease.ttl", span(&o.LeaseTTL, 5*time.Second, time.Minute), "15s",
			"how long a node keeps its shards without a sign of life"),
		row("lease.renew", span(&o.LeaseRenew, 500*time.Millisecond, 20*time.Second), "5s",
			"how often a node renews its leases; at most a third of lease.ttl"),
	}
}

func (c *Config) policySettings() []setting {
	o := &c.Options
	return []setting{
		row("policy.default", text(&o.DefaultPolicy, "preset", "name of a preset", checkPreset), "default",
			"retry policy of endpoints that name none"),
		row("policy.limits.min_delay", span(&o.PolicyLimits.MinDelay, 10*time.Millisecond, time.Hour), "100ms",
			"shortest retry.min_delay that a tenant may set"),
		row("policy.limits.min_backoff", span(&o.PolicyLimits.MinBackoff, 10*time.Millisecond, time.Hour), "1s",
			"shortest retry.backoff.base, cap and delays that a tenant may set"),
		row("policy.limits.max_attempts", whole(&o.PolicyLimits.MaxAttempts, 1, 50), "30",
			"most retry.max_attempts that a tenant may set"),
		row("policy.limits.max_timeout", span(&o.PolicyLimits.MaxTimeout, time.Second, 2*time.Minute), "1m",
			"longest timeout.total that a tenant may set"),
		row("policy.limits.max_concurrency", whole(&o.PolicyLimits.MaxConcurrency, 1, 1000), "1000",
			"most requests at once that a tenant may set for an endpoint"),
		row("policy.limits.min_probe", span(&o.PolicyLimits.MinProbe, 100*time.Millisecond, 10*time.Minute), "1s",
			"shortest breaker.probe.min and max that a tenant may set"),
		row("policy.limits.require_breaker", toggle(&o.PolicyLimits.RequireBreaker), "true",
			"tenants may not switch the breaker off"),
	}
}

func (c *Config) egressSettings() []setting {
	o := &c.Options
	return []setting{
		row("egress.allow_cidr", prefixes(&o.AllowCIDR), "",
			"private blocks that endpoints may be in; never metadata addresses"),
		row("egress.deny_cidr", prefixes(&o.DenyCIDR), "",
			"blocks that endpoints may not be in; wins over allow_cidr"),
		row("egress.ports", ports(&o.EgressPorts), "",
			"ports of endpoints; when empty 80, 443 and from 1024 on, less those of databases and the like"),
		row("egress.require_https", toggle(&o.RequireHTTPS), "false",
			"refuse plain http endpoints"),
		row("egress.allow_metadata", toggle(&o.AllowMetadata), "false",
			"open link-local and metadata addresses, which allow_cidr never does"),
		row("egress.proxy", text(&o.EgressProxy, "url", "http://… or https://…", checkProxy), "",
			"HTTP CONNECT proxy for all deliveries; addresses are then judged by the proxy", secret),
		row("egress.ca_file", text(&o.EgressCAFile, "file", "", checkReadable), "",
			"more certificate authorities to trust"),
		row("egress.response_keep", size(&o.ResponseKeep, 0, 64*kib), "16 KiB",
			"how much of a response body is kept"),
		row("egress.user_agent", text(&o.UserAgent, "text", "up to 256 visible ASCII characters and spaces", checkUserAgent), "",
			"User-Agent of deliveries, Breakwater/<version> when empty"),
		row("egress.max_conns_per_host", whole(&o.MaxConnsHost, 1, 1000), "200",
			"connections to one host, for all its endpoints"),
		row("egress.idle_timeout", span(&o.IdleTimeout, time.Second, 10*time.Minute), "90s",
			"how long an idle connection is kept"),
	}
}

func (c *Config) retentionSettings() []setting {
	o := &c.Options
	return []setting{
		row("retention.data", span(&o.RetentionData, day, 365*day), "30d",
			"age at which events, deliveries, attempts and dead letters go; pending ones never do"),
		row("retention.audit", span(&o.RetentionAudit, day, 3650*day), "90d",
			"age at which audit records go"),
		row("retention.alerts", span(&o.RetentionAlerts, 7*day, 3650*day), "90d",
			"how long alerts stay after they are resolved"),
		row("stats.enabled", toggle(&o.Stats), "true",
			"keep figures of every endpoint, tenant and the system by the minute"),
		row("stats.minutes", span(&o.StatsMinutes, 25*time.Hour, 30*day), "48h",
			"age at which figures of minutes become those of an hour"),
		row("stats.hours", span(&o.StatsHours, 31*day, 730*day), "90d",
			"age at which figures of hours become those of a day"),
		row("stats.days", span(&o.StatsDays, 90*day, 3650*day), "1095d",
			"age at which figures of days go"),
		row("sign.scheme", oneOf(&o.SignScheme, "scheme", "standard", "standard_ed25519", "stripe"), "standard",
			"signature of new endpoints"),
		row("sign.stripe_header", text(&o.StripeHeader, "header", "a header name outside webhook-* and breakwater-*", checkStripeHeader), "X-Webhook-Signature",
			"header of the stripe scheme"),
	}
}
