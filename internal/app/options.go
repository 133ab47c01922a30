// Package app puts the parts together: Options in, New checks them, Run serves
// until its context ends. It is the only place that knows every part.
//
// It makes no decision of its own: reading flags and files is config's job, and
// every rule lives in the package that is named after it.
package app

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/breakwaterhq/breakwater/internal/alert"
	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/notify/mailer"
	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/store/dirlock"
)

// Options is the complete configuration of a server. package config builds it
// from flags, environment and YAML, with bounds checked and defaults filled in.
type Options struct {
	DataDir     string
	DatabaseURL string // empty: SQLite in DataDir
	Listen      string
	// TrustedProxies are believed when they name the client.
	TrustedProxies []netip.Prefix
	// MaxConnections bounds the clients of the API; 0: by what the process may
	// open. Those of one address have a quarter unless told otherwise.
	MaxConnections           int
	MaxConnectionsPerAddress int
	NodeName                 string // empty: kept in DataDir, made at the first start
	Dev                      bool   // loopback and private destinations allowed

	AdminKey       string   // used only while no key exists; empty: one is made
	EncryptionKeys []string // base64 of 32 bytes each, the first one seals; empty: key file in DataDir
	TLSCertFile    string
	TLSKeyFile     string
	PprofListen    string // empty: off; loopback only
	MetricsListen  string // empty: on Listen
	MetricsToken   string // lets its bearer read the metrics; empty: none
	MetricsWorst   int    // endpoints with series of their own

	MaxPayload            int64
	MaxBatchBody          int64
	MaxFanout             int
	MaxRequestDeliveries  int
	IngestQueue           int // rows
	IngestQueueBytes      int64
	TenantRate            float64 // events/s, 0: off
	TenantMaxPending      int64
	TenantMaxPendingBytes int64
	TenantMaxEndpoints    int64
	TenantMaxStored       int64
	KeyWriteRate          float64 // changes/s, 0: off
	IdempotencyTTL        time.Duration

	StoreMaxConns  int
	StoreBatch     int
	StoreBatchRows int
	DiskReserve    int64
	LogLimit       int64 // of the embedded store
	Migrate        bool

	MaxInFlight   int
	Window        int
	PayloadMemory int64
	DrainTimeout  time.Duration

	LeaseTTL   time.Duration
	LeaseRenew time.Duration

	DefaultPolicy string // preset name
	PolicyLimits  policy.Limits

	AllowCIDR     []netip.Prefix
	DenyCIDR      []netip.Prefix
	EgressPorts   []uint16 // empty: the built-in rule
	RequireHTTPS  bool
	AllowMetadata bool
	EgressProxy   string
	EgressCAFile  string
	ResponseKeep  int
	UserAgent     string
	MaxConnsHost  int
	IdleTimeout   time.Duration

	RetentionData   time.Duration
	RetentionAudit  time.Duration
	RetentionAlerts time.Duration // after they are resolved

	Stats        bool // count what happens, per minute
	StatsMinutes time.Duration
	StatsHours   time.Duration
	StatsDays    time.Duration

	PublicURL       string // of this server, for people; empty: notices have no links
	RunbookURL      string // empty: below PublicURL
	Alerts          bool   // judge alert rules
	AlertInterval   time.Duration
	AlertOptions    alert.Options // but for NextID
	AlertThresholds alert.Thresholds
	SMTP            mailer.Config // no host: no e-mail

	UI       UI
	Settings []view.Setting // as they are shown, with their origins

	SignScheme   string // for new endpoints
	StripeHeader string

	Version string
	Log     *slog.Logger
	// Announce is called once when the server accepts requests. AdminKey is set
	// when a key was made by this start.
	Announce func(Started)
}

// UI is how the dashboard looks to people, and where they find it.
type UI struct {
	PublicURL      string // empty: that of the server, else where it listens
	VendorName     string // what visitors of the portal see
	VendorLogo     string // https URL or data: URI of an image; empty: none
	VendorColor    string // #rrggbb; empty: the usual one
	FrameAncestors []string
}

// ErrFolderInUse means that another process has the data folder.
var ErrFolderInUse = dirlock.ErrLocked

// Started is what a person wants to know when the server is up.
type Started struct {
	URL          string
	AdminKey     string // shown once; empty when keys exist already
	AdminKeyFile string // where it was kept; empty with DatabaseURL or a given key
	Store        string // "sqlite breakwater-data/breakwater.db" or "postgres host/db"
	Node         string
}
