package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"
)

// setting is one row of the table. Names in the environment and on the command
// line follow from the key, or from flag where that is set.
type setting struct {
	key       string
	flag      string // only when it is not derived from key
	secret    bool   // masked, may come from <key>_file
	plainFlag bool   // a secret that may also be a plain flag
	private   bool   // a secret whose file others must not be able to read
	def       string // in the syntax of the setting; empty: see help
	help      string
	value     value
}

func (s *setting) flagName() string {
	if s.flag != "" {
		return s.flag
	}
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.key)
}

func (s *setting) variable() string {
	return prefix + strings.ToUpper(strings.ReplaceAll(s.flagName(), "-", "_"))
}

func (s *setting) list() bool {
	_, ok := s.value.(interface{ isList() })
	return ok
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
// documentation.
var settings = []setting{
	{
		key: "data_dir", def: "breakwater-data",
		help:  "folder of the SQLite file, the keys and the node's name; used by one process at a time",
		value: text{field: func(c *Config) *string { return &c.Options.DataDir }, check: checkPath, word: "dir"},
	},
	{
		key: "database_url", secret: true, plainFlag: true,
		help: "Postgres to use instead of SQLite",
		value: text{
			field: func(c *Config) *string { return &c.Options.DatabaseURL }, check: checkDatabaseURL,
			word: "url", rule: "postgres://…",
		},
	},
	{
		key: "listen", def: "127.0.0.1:8080", help: "address of the API",
		value: text{
			field: func(c *Config) *string { return &c.Options.Listen }, check: checkListen,
			word: "host:port", rule: "host:port",
		},
	},
	{
		key: "listen.trusted_proxies", help: "proxies in front of the API whose X-Forwarded-For names the client, for bounds per address and the audit; in YAML written as one key",
		value: prefixes(func(c *Config) *[]netip.Prefix { return &c.Options.TrustedProxies }),
	},
	{
		key: "listen.max_connections", def: "0",
		help:  "clients of the API at the same time; 0 means half of what the process may open, at most 16384, so that the store and deliveries have the rest",
		value: whole(func(c *Config) *int { return &c.Options.MaxConnections }, 0, 1_000_000),
	},
	{
		key: "listen.max_connections_per_address", def: "0",
		help:  "clients of one address, or of one /64 of IPv6; 0 means a quarter of listen.max_connections; trusted proxies may have all",
		value: whole(func(c *Config) *int { return &c.Options.MaxConnectionsPerAddress }, 0, 1_000_000),
	},
	{
		key: "node_name", help: "name that outlives restarts; made once and kept in data_dir when empty",
		value: text{
			field: func(c *Config) *string { return &c.Options.NodeName }, check: checkNodeName,
			word: "name", rule: "1 to 64 letters, digits, dots, dashes or underscores",
		},
	},
	{
		key: "dev", def: "false",
		help:  "for trying things out: loopback and private destinations allowed, text log, loopback listener only",
		value: toggle{func(c *Config) *bool { return &c.Options.Dev }},
	},
	{
		key: "admin_key", secret: true,
		help: "first admin key, used only while no key exists; made and shown once when empty",
		value: text{
			field: func(c *Config) *string { return &c.Options.AdminKey }, check: checkAdminKey,
			word: "key", rule: "16 to 256 visible ASCII characters",
		},
	},
	{
		key: "encryption_key", secret: true, private: true,
		help: "keys that seal endpoint secrets, the first one for new ones; made in data_dir when empty; all nodes of one Postgres need the same",
		value: many[string]{
			field: func(c *Config) *[]string { return &c.Options.EncryptionKeys },
			read:  checkEncryptionKey, write: func(s string) string { return s },
			word: "key,…", rule: "base64 of 32 bytes each",
		},
	},
	{
		key: "tls.cert_file", help: "certificate chain; with tls.key_file the API speaks TLS",
		value: text{field: func(c *Config) *string { return &c.Options.TLSCertFile }, check: checkReadable, word: "file"},
	},
	{
		key: "tls.key_file", help: "private key of tls.cert_file",
		value: text{field: func(c *Config) *string { return &c.Options.TLSKeyFile }, check: checkReadable, word: "file"},
	},
	{
		key: "pprof.listen", help: "address of the profiler, off when empty",
		value: text{
			field: func(c *Config) *string { return &c.Options.PprofListen }, check: checkLoopback,
			word: "host:port", rule: "loopback only",
		},
	},
	{
		key: "metrics.listen", help: "address of its own for /metrics; when empty it is on the API's address, for loopback, admin keys and metrics.token only",
		value: text{
			field: func(c *Config) *string { return &c.Options.MetricsListen }, check: checkListen,
			word: "host:port", rule: "host:port",
		},
	},
	{
		key: "metrics.token", secret: true, help: "lets its bearer read /metrics; with metrics.listen nobody else may",
		value: text{
			field: func(c *Config) *string { return &c.Options.MetricsToken }, check: checkAdminKey,
			word: "token", rule: "16 to 256 visible ASCII characters",
		},
	},
	{
		key: "log.level", def: "info", help: "least severe messages to log",
		value: logLevel{},
	},
	{
		key: "log.format", help: "form of the log; text on a terminal and with dev, else json",
		value: text{
			field: func(c *Config) *string { return &c.LogFormat }, check: oneOf("json", "text"),
			word: "format", rule: "json, text",
		},
	},

	{
		key: "ingest.max_payload", def: "1 MiB", help: "largest payload of an event",
		value: size(func(c *Config) *int64 { return &c.Options.MaxPayload }, kib, 16*mib),
	},
	{
		key: "ingest.max_batch_body", def: "16 MiB", help: "largest body of a batch request",
		value: size(func(c *Config) *int64 { return &c.Options.MaxBatchBody }, mib, 64*mib),
	},
	{
		key: "ingest.max_fanout", def: "10000", help: "most deliveries of one event",
		value: whole(func(c *Config) *int { return &c.Options.MaxFanout }, 1, 100_000),
	},
	{
		key: "ingest.max_request_deliveries", def: "20000", help: "most deliveries of all events of one batch request",
		value: whole(func(c *Config) *int { return &c.Options.MaxRequestDeliveries }, 1000, 200_000),
	},
	{
		key: "ingest.queue", def: "65536", help: "events and deliveries that may wait for the store before new ones get 503; a tenant may have as many waiting as are left free for all",
		value: whole(func(c *Config) *int { return &c.Options.IngestQueue }, 1024, 1<<20),
	},
	{
		key: "ingest.queue_bytes", def: "256 MiB", help: "payload bytes that may wait for the store, shared like ingest.queue",
		value: size(func(c *Config) *int64 { return &c.Options.IngestQueueBytes }, 16*mib, 64*gib),
	},
	{
		key: "ingest.tenant_rate", def: "0", help: "events per second of one tenant, 0 means no limit",
		value: number(func(c *Config) *float64 { return &c.Options.TenantRate }, 0, 1_000_000),
	},
	{
		key: "ingest.tenant_max_pending", def: "5000000", help: "deliveries of one tenant that may wait",
		value: whole64(func(c *Config) *int64 { return &c.Options.TenantMaxPending }, 1, 1_000_000_000_000),
	},
	{
		key: "ingest.tenant_max_pending_bytes", def: "8 GiB", help: "payload bytes of one tenant that may wait",
		value: size(func(c *Config) *int64 { return &c.Options.TenantMaxPendingBytes }, mib, 1024*tib),
	},
	{
		key: "ingest.tenant_max_endpoints", def: "1000", help: "endpoints of one tenant",
		value: whole64(func(c *Config) *int64 { return &c.Options.TenantMaxEndpoints }, 1, 1_000_000),
	},
	{
		key: "ingest.tenant_max_stored", def: "100 GiB", help: "bytes that one tenant may have stored; beyond it new events get 507 until retention has removed some",
		value: size(func(c *Config) *int64 { return &c.Options.TenantMaxStored }, mib, 1024*tib),
	},
	{
		key: "api.key_write_rate", def: "5", help: "changes of configuration per second with one key of a tenant, a minute's worth at once; 0 means no limit",
		value: number(func(c *Config) *float64 { return &c.Options.KeyWriteRate }, 0, 10_000),
	},
	{
		key: "idempotency_ttl", def: "1d", help: "how long idempotency keys are remembered",
		value: span(func(c *Config) *time.Duration { return &c.Options.IdempotencyTTL }, time.Hour, 7*day),
	},

	{
		key: "store.max_conns", def: "16", help: "connections to Postgres",
		value: whole(func(c *Config) *int { return &c.Options.StoreMaxConns }, 8, 200),
	},
	{
		key: "store.batch", def: "256", help: "accepts or settles in one commit",
		value: whole(func(c *Config) *int { return &c.Options.StoreBatch }, 1, 256),
	},
	{
		key: "store.batch_rows", def: "2048", help: "new events and deliveries in one commit; an event with more deliveries has one of its own",
		value: whole(func(c *Config) *int { return &c.Options.StoreBatchRows }, 256, 65_536),
	},
	{
		key: "store.disk_reserve", def: "512 MiB", help: "free space below which new events get 507 (SQLite); deliveries go on",
		value: size(func(c *Config) *int64 { return &c.Options.DiskReserve }, 64*mib, 1024*tib),
	},
	{
		key: "store.log_limit", def: "1 GiB", help: "length of the SQLite log at which new events get 507, because another program that reads the file keeps it from being shortened; deliveries go on",
		value: size(func(c *Config) *int64 { return &c.Options.LogLimit }, 256*mib, 1024*tib),
	},
	{
		key: "store.migrate", def: "true", help: "bring the schema up to date at start",
		value: toggle{func(c *Config) *bool { return &c.Options.Migrate }},
	},

	{
		key: "dispatch.max_in_flight", def: "1024", help: "requests of this node at the same time",
		value: whole(func(c *Config) *int { return &c.Options.MaxInFlight }, 1, 20_000),
	},
	{
		key: "dispatch.window", def: "512", help: "new deliveries of one endpoint kept in memory, and three quarters as many that were read",
		value: whole(func(c *Config) *int { return &c.Options.Window }, 16, 4096),
	},
	{
		key: "dispatch.payload_memory", def: "64 MiB", help: "payloads kept in memory; beyond it they are read again when sent",
		value: size(func(c *Config) *int64 { return &c.Options.PayloadMemory }, 8*mib, 4*gib),
	},
	{
		key: "dispatch.drain_timeout", def: "35s", help: "how long a stop waits for requests in flight",
		value: span(func(c *Config) *time.Duration { return &c.Options.DrainTimeout }, time.Second, 10*time.Minute),
	},

	{
		key: "lease.ttl", def: "15s", help: "how long a node keeps its shards without a sign of life",
		value: span(func(c *Config) *time.Duration { return &c.Options.LeaseTTL }, 5*time.Second, time.Minute),
	},
	{
		key: "lease.renew", def: "5s", help: "how often a node renews its leases; at most a third of lease.ttl",
		value: span(func(c *Config) *time.Duration { return &c.Options.LeaseRenew }, 500*time.Millisecond, 20*time.Second),
	},

	{
		key: "policy.default", flag: "policy", def: "default", help: "retry policy of endpoints that name none",
		value: text{
			field: func(c *Config) *string { return &c.Options.DefaultPolicy }, check: checkPreset,
			word: "preset", rule: "name of a preset",
		},
	},

	{
		key: "policy.limits.min_delay", def: "100ms", help: "shortest retry.min_delay that a tenant may set",
		value: span(func(c *Config) *time.Duration { return &c.Options.PolicyLimits.MinDelay }, 10*time.Millisecond, time.Hour),
	},
	{
		key: "policy.limits.min_backoff", def: "1s", help: "shortest retry.backoff.base, cap and delays that a tenant may set",
		value: span(func(c *Config) *time.Duration { return &c.Options.PolicyLimits.MinBackoff }, 10*time.Millisecond, time.Hour),
	},
	{
		key: "policy.limits.max_attempts", def: "30", help: "most retry.max_attempts that a tenant may set",
		value: whole(func(c *Config) *int { return &c.Options.PolicyLimits.MaxAttempts }, 1, 50),
	},
	{
		key: "policy.limits.max_timeout", def: "1m", help: "longest timeout.total that a tenant may set",
		value: span(func(c *Config) *time.Duration { return &c.Options.PolicyLimits.MaxTimeout }, time.Second, 2*time.Minute),
	},
	{
		key: "policy.limits.max_concurrency", def: "1000", help: "most requests at once that a tenant may set for an endpoint",
		value: whole(func(c *Config) *int { return &c.Options.PolicyLimits.MaxConcurrency }, 1, 1000),
	},
	{
		key: "policy.limits.min_probe", def: "1s", help: "shortest breaker.probe.min and max that a tenant may set",
		value: span(func(c *Config) *time.Duration { return &c.Options.PolicyLimits.MinProbe }, 100*time.Millisecond, 10*time.Minute),
	},
	{
		key: "policy.limits.require_breaker", def: "true", help: "tenants may not switch the breaker off",
		value: toggle{func(c *Config) *bool { return &c.Options.PolicyLimits.RequireBreaker }},
	},

	{
		key: "egress.allow_cidr", flag: "allow-cidr", help: "private blocks that endpoints may be in; never metadata addresses",
		value: prefixes(func(c *Config) *[]netip.Prefix { return &c.Options.AllowCIDR }),
	},
	{
		key: "egress.deny_cidr", flag: "deny-cidr", help: "blocks that endpoints may not be in; wins over allow_cidr",
		value: prefixes(func(c *Config) *[]netip.Prefix { return &c.Options.DenyCIDR }),
	},
	{
		key: "egress.ports", help: "ports of endpoints; when empty 80, 443 and from 1024 on, less those of databases and the like",
		value: ports(func(c *Config) *[]uint16 { return &c.Options.EgressPorts }),
	},
	{
		key: "egress.require_https", def: "false", help: "refuse plain http endpoints",
		value: toggle{func(c *Config) *bool { return &c.Options.RequireHTTPS }},
	},
	{
		key: "egress.allow_metadata", def: "false", help: "open link-local and metadata addresses, which allow_cidr never does",
		value: toggle{func(c *Config) *bool { return &c.Options.AllowMetadata }},
	},
	{
		key: "egress.proxy", secret: true, help: "HTTP CONNECT proxy for all deliveries; addresses are then judged by the proxy",
		value: text{
			field: func(c *Config) *string { return &c.Options.EgressProxy }, check: checkProxy,
			word: "url", rule: "http://… or https://…",
		},
	},
	{
		key: "egress.ca_file", help: "more certificate authorities to trust",
		value: text{field: func(c *Config) *string { return &c.Options.EgressCAFile }, check: checkReadable, word: "file"},
	},
	{
		key: "egress.response_keep", def: "16 KiB", help: "how much of a response body is kept",
		value: smallSize(func(c *Config) *int { return &c.Options.ResponseKeep }, 0, 64*kib),
	},
	{
		key: "egress.user_agent", help: "User-Agent of deliveries, Breakwater/<version> when empty",
		value: text{
			field: func(c *Config) *string { return &c.Options.UserAgent }, check: checkUserAgent,
			word: "text", rule: "up to 256 visible ASCII characters and spaces",
		},
	},
	{
		key: "egress.max_conns_per_host", def: "200", help: "connections to one host, for all its endpoints",
		value: whole(func(c *Config) *int { return &c.Options.MaxConnsHost }, 1, 1000),
	},
	{
		key: "egress.idle_timeout", def: "90s", help: "how long an idle connection is kept",
		value: span(func(c *Config) *time.Duration { return &c.Options.IdleTimeout }, time.Second, 10*time.Minute),
	},

	{
		key: "retention.data", def: "30d", help: "age at which events, deliveries, attempts and dead letters go; pending ones never do",
		value: span(func(c *Config) *time.Duration { return &c.Options.RetentionData }, day, 365*day),
	},

	{
		key: "retention.audit", def: "90d", help: "age at which audit records go",
		value: span(func(c *Config) *time.Duration { return &c.Options.RetentionAudit }, day, 3650*day),
	},

	{
		key: "sign.scheme", def: "standard", help: "signature of new endpoints",
		value: text{
			field: func(c *Config) *string { return &c.Options.SignScheme }, check: checkScheme,
			word: "scheme", rule: "standard, standard_ed25519, stripe",
		},
	},
	{
		key: "sign.stripe_header", def: "X-Webhook-Signature", help: "header of the stripe scheme",
		value: text{
			field: func(c *Config) *string { return &c.Options.StripeHeader }, check: checkStripeHeader,
			word: "header", rule: "a header name outside webhook-* and breakwater-*",
		},
	},
}

// logLevel is the only setting of its type.
type logLevel struct{}

func (logLevel) parse(c *Config, s string) error {
	levels := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	}
	level, ok := levels[s]
	if !ok {
		return fmt.Errorf("must be one of %s", logLevel{}.bounds())
	}
	c.LogLevel = level
	return nil
}

func (logLevel) show(c *Config) string { return strings.ToLower(c.LogLevel.String()) }
func (logLevel) placeholder() string   { return "level" }
func (logLevel) bounds() string        { return "debug, info, warn, error" }
