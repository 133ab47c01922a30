package config_test

import (
	"encoding/base64"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/app"
	"github.com/breakwaterhq/breakwater/internal/config"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
	"github.com/breakwaterhq/breakwater/internal/policy"
)

var (
	goodEncryptionKey = base64.StdEncoding.EncodeToString(make([]byte, 32))
	goodAdminKey      = "bw_" + strings.Repeat("a1Z", 17)
)

// load runs config.Load with a YAML document (none when empty), variables and
// flags, away from any breakwater.yaml of the working folder.
func load(t *testing.T, yaml string, environ, flags []string) (*config.Config, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	config.AddFlags(fs)
	if err := fs.Parse(append([]string{"--config", file}, flags...)); err != nil {
		t.Fatalf("parse flags: %v", err)
	}
	return config.Load(config.Input{Flags: fs, Environ: environ, Version: "1.2.3"})
}

func mustLoad(t *testing.T, yaml string, environ, flags []string) *config.Config {
	t.Helper()
	c, err := load(t, yaml, environ, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "", nil, nil)
	want := app.Options{
		DataDir: "breakwater-data", Listen: "127.0.0.1:8080",
		MaxPayload: 1 << 20, MaxBatchBody: 16 << 20, MaxFanout: 10000, MaxRequestDeliveries: 20000, IngestQueue: 65536,
		IngestQueueBytes: 256 << 20, StoreBatchRows: 2048,
		TenantMaxPending: 5_000_000, TenantMaxPendingBytes: 8 << 30, TenantMaxEndpoints: 1000, TenantMaxStored: 100 << 30, KeyWriteRate: 5,
		RetentionAudit: 90 * 24 * time.Hour, RetentionAlerts: 90 * 24 * time.Hour, IdempotencyTTL: 24 * time.Hour,
		Stats: true, StatsMinutes: 48 * time.Hour, StatsHours: 90 * 24 * time.Hour, StatsDays: 1095 * 24 * time.Hour,
		StoreMaxConns: 16, StoreBatch: 256, LogLimit: 1 << 30, DiskReserve: 512 << 20, Migrate: true,
		MaxInFlight: 1024, Window: 512, PayloadMemory: 64 << 20, DrainTimeout: 35 * time.Second,
		LeaseTTL: 15 * time.Second, LeaseRenew: 5 * time.Second,
		DefaultPolicy: "default",
		PolicyLimits: policy.Limits{
			MinDelay: 100 * time.Millisecond, MinBackoff: time.Second, MaxAttempts: 30, MaxTimeout: time.Minute,
			MaxConcurrency: 1000, MinProbe: time.Second, RequireBreaker: true,
		},
		ResponseKeep: 16 << 10, UserAgent: "Breakwater/1.2.3", MaxConnsHost: 200, IdleTimeout: 90 * time.Second,
		RetentionData: 30 * 24 * time.Hour,
		SignScheme:    "standard", StripeHeader: "X-Webhook-Signature",
		Alerts: true, AlertInterval: 15 * time.Second,
		AlertOptions: alert.Options{Repeat: 4 * time.Hour, ResolveAfter: 5 * time.Minute, MaxOpen: 2000},
		SMTP:         mailer.Config{Port: 587, TLS: "starttls"},
		UI:           app.UI{VendorName: "Breakwater"},
	}
	if diff := cmp.Diff(want, c.Options, cmpopts.IgnoreTypes(func(app.Started) {})); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if c.LogLevel != slog.LevelInfo || c.LogFormat != "" {
		t.Errorf("log = %v %q, want info and the terminal's choice", c.LogLevel, c.LogFormat)
	}
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	yaml := "store:\n  max_conns: 10\n  batch: 10\n  migrate: false\n"
	environ := []string{"BREAKWATER_STORE_MAX_CONNS=20", "BREAKWATER_STORE_BATCH=20"}
	c := mustLoad(t, yaml, environ, []string{"--store-max-conns=30"})
	if c.Options.StoreMaxConns != 30 || c.Options.StoreBatch != 20 || c.Options.Migrate {
		t.Errorf("got conns %d, batch %d, migrate %v; want the flag's 30, the variable's 20, the file's false",
			c.Options.StoreMaxConns, c.Options.StoreBatch, c.Options.Migrate)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		yaml    string
		environ []string
		flags   []string
		got     func(*config.Config) any
		want    any
	}{
		"a key beside the section of its name": {
			yaml: "listen: 127.0.0.1:9000\nlisten.trusted_proxies: [10.0.0.0/8, 192.0.2.1]\n",
			got:  func(c *config.Config) any { return append([]netip.Prefix{}, c.Options.TrustedProxies...) },
			want: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32")},
		},
		"size with space": {
			yaml: "ingest:\n  max_payload: 2 MiB\n",
			got:  func(c *config.Config) any { return c.Options.MaxPayload }, want: int64(2 << 20),
		},
		"size without space": {
			flags: []string{"--store-disk-reserve=128MiB"},
			got:   func(c *config.Config) any { return c.Options.DiskReserve }, want: int64(128 << 20),
		},
		"size zero": {
			flags: []string{"--egress-response-keep=0"},
			got:   func(c *config.Config) any { return c.Options.ResponseKeep }, want: 0,
		},
		"days": {
			environ: []string{"BREAKWATER_RETENTION_DATA=7d"},
			got:     func(c *config.Config) any { return c.Options.RetentionData }, want: 7 * 24 * time.Hour,
		},
		"dotted YAML key": {
			yaml: "lease.ttl: 30s\n",
			got:  func(c *config.Config) any { return c.Options.LeaseTTL }, want: 30 * time.Second,
		},
		"repeated and joined CIDRs": {
			flags: []string{"--allow-cidr=10.0.0.0/8", "--allow-cidr=192.168.0.0/16, ::1"},
			got:   func(c *config.Config) any { return c.Options.AllowCIDR },
			want: []netip.Prefix{
				netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("::1/128"),
			},
		},
		"CIDR variable follows the flag": {
			environ: []string{"BREAKWATER_DENY_CIDR=10.1.0.0/16"},
			got:     func(c *config.Config) any { return c.Options.DenyCIDR },
			want:    []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		},
		"YAML list": {
			yaml: "egress:\n  ports: [443, 8443]\n",
			got:  func(c *config.Config) any { return c.Options.EgressPorts }, want: []uint16{443, 8443},
		},
		"policy flag": {
			flags: []string{"--policy=quick"},
			got:   func(c *config.Config) any { return c.Options.DefaultPolicy }, want: "quick",
		},
		"switch without value": {
			flags: []string{"--egress-require-https"},
			got:   func(c *config.Config) any { return c.Options.RequireHTTPS }, want: true,
		},
		"dev logs text": {
			flags: []string{"--dev"},
			got:   func(c *config.Config) any { return c.LogFormat }, want: "text",
		},
		"dev keeps a chosen format": {
			flags: []string{"--dev", "--log-format=json"},
			got:   func(c *config.Config) any { return c.LogFormat }, want: "json",
		},
		"empty variable is not set": {
			environ: []string{"BREAKWATER_STORE_BATCH="},
			got:     func(c *config.Config) any { return c.Options.StoreBatch }, want: 256,
		},
		"empty flag takes back the file": {
			yaml: "node_name: one\n", flags: []string{"--node-name="},
			got: func(c *config.Config) any { return c.Options.NodeName }, want: "",
		},
		"client and test variables are not ours": {
			environ: []string{
				"BREAKWATER_URL=x", "BREAKWATER_API_KEY=x", "BREAKWATER_API_KEY_FILE=x", "BREAKWATER_TEST_PG=x",
				"BREAKWATER_REQUIRE_PG=1", "HOME=/", "XBREAKWATER_FOO=1",
			},
			got: func(c *config.Config) any { return c.Options.Listen }, want: "127.0.0.1:8080",
		},
		"empty section": {
			yaml: "store:\nlisten:\n",
			got:  func(c *config.Config) any { return c.Options.Listen }, want: "127.0.0.1:8080",
		},
		"several encryption keys": {
			yaml: "encryption_key: " + goodEncryptionKey + "," + goodEncryptionKey + "\n",
			got:  func(c *config.Config) any { return len(c.Options.EncryptionKeys) }, want: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := mustLoad(t, tc.yaml, tc.environ, tc.flags)
			opts := cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })
			if diff := cmp.Diff(tc.want, tc.got(c), opts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSecretFromFile(t *testing.T) {
	t.Parallel()
	file := secretFile(t, goodAdminKey+"\n")
	for name, c := range map[string]*config.Config{
		"flag":     mustLoad(t, "", nil, []string{"--admin-key-file=" + file}),
		"variable": mustLoad(t, "", []string{"BREAKWATER_ADMIN_KEY_FILE=" + file}, nil),
		"YAML":     mustLoad(t, "admin_key_file: "+file+"\n", nil, nil),
		// A higher source wins before values and files are compared.
		"flag over variable": mustLoad(t, "", []string{"BREAKWATER_ADMIN_KEY=bw_x"}, []string{"--admin-key-file=" + file}),
	} {
		if c.Options.AdminKey != goodAdminKey {
			t.Errorf("%s: admin key = %q, want the file without its newline", name, c.Options.AdminKey)
		}
	}
}

func TestEffective(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "ingest:\n  max_payload: 2 MiB\n",
		[]string{"BREAKWATER_DATABASE_URL=postgres://u:hunter2@h/d", "BREAKWATER_RETENTION_DATA=14d"},
		[]string{"--allow-cidr=10.0.0.0/8", "--encryption-key-file=" + secretFile(t, goodEncryptionKey)})
	got := map[string]config.Setting{}
	for _, s := range c.Effective() {
		got[s.Key] = s
		if strings.Contains(s.Value, "hunter2") || strings.Contains(s.Value, goodEncryptionKey) {
			t.Errorf("%s shows its secret: %q", s.Key, s.Value)
		}
	}
	for key, want := range map[string][2]string{
		"database_url":      {"***", "BREAKWATER_DATABASE_URL"},
		"encryption_key":    {"***", "--encryption-key-file"},
		"admin_key":         {"", "default"},
		"retention.data":    {"14d", "BREAKWATER_RETENTION_DATA"},
		"egress.allow_cidr": {"10.0.0.0/8", "--allow-cidr"},
		"lease.ttl":         {"15s", "default"},
		"idempotency_ttl":   {"1d", "default"},
	} {
		if s := got[key]; s.Value != want[0] || s.Origin != want[1] {
			t.Errorf("%s = %q from %q, want %q from %q", key, s.Value, s.Origin, want[0], want[1])
		}
	}
	if s := got["ingest.max_payload"]; s.Value != "2 MiB" || !strings.HasSuffix(s.Origin, "settings.yaml line 2") {
		t.Errorf("ingest.max_payload = %+v, want 2 MiB from line 2", s)
	}
}

func TestDefaultFileOfTheWorkingFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile(config.DefaultFile, []byte("listen: 127.0.0.1:9999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Input{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Options.Listen != "127.0.0.1:9999" {
		t.Errorf("listen = %q, want that of %s", c.Options.Listen, config.DefaultFile)
	}
	other := secretFile(t, "listen: 127.0.0.1:7777\n")
	if c, err = config.Load(config.Input{Environ: []string{"BREAKWATER_CONFIG=" + other}}); err != nil {
		t.Fatal(err)
	}
	if c.Options.Listen != "127.0.0.1:7777" {
		t.Errorf("listen = %q, want that of BREAKWATER_CONFIG", c.Options.Listen)
	}
}
