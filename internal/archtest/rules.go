package archtest

import "strings"

// imports is what a package may use besides the standard library.
type imports struct {
	own       []string // folders of this module
	libraries []string
}

// section is what every part of the dashboard may use.
var section = imports{own: in("internal/api/view", "internal/quantity", "internal/ui/chart", "internal/ui/figures", "internal/ui/site", "internal/ui/words")}

// allowed lists every package of the module. Arrows point down only: cli → app
// → {api, ingest, dispatch, replay, retention, watch, evaluate, notify} → {store, egress,
// vault} → {policy, lane, window, sign, alert, stats} → hook. Siblings do not meet; where one needs another it
// declares a small interface and app hands it over.
var allowed = map[string]imports{
	"cmd/breakwater": {own: in("internal/cli")},
	"receiver":       {}, // copied into other people's servers: standard library only

	"internal/jsonscan": {},
	"internal/quantity": {},
	"internal/pause":    {},

	"internal/hook":   {},
	"internal/policy": {own: in("internal/hook", "internal/lane", "internal/quantity")},
	"internal/lane":   {own: in("internal/hook")},
	"internal/window": {own: in("internal/hook")},
	"internal/sign":   {own: in("internal/hook")},
	"internal/vault":  {own: in("internal/hook")},
	"internal/portal": {own: in("internal/hook")},
	"internal/shape":  {own: in("internal/hook")},
	"internal/filter": {libraries: in("github.com/expr-lang/expr")},
	"internal/schema": {libraries: in("github.com/santhosh-tekuri/jsonschema/v6", "golang.org/x/text/language", "golang.org/x/text/message")},

	"internal/egress": {
		own:       in("internal/hook", "internal/sign"),
		libraries: in("code.dny.dev/ssrf", "golang.org/x/net/http/httpguts", "golang.org/x/net/idna"),
	},

	"internal/sim": {
		own:       in("internal/hook", "internal/policy", "internal/quantity", "internal/lane"),
		libraries: in("go.yaml.in/yaml/v3"),
	},

	"internal/stats": {own: in("internal/hook")},
	"internal/alert": {own: in("internal/hook", "internal/quantity", "internal/stats")},

	"internal/headroom": {},
	"internal/door":     {},

	"internal/store":          {own: in("internal/hook", "internal/lane", "internal/stats")},
	"internal/store/sqlstore": {own: in("internal/hook", "internal/lane", "internal/stats", "internal/store", "internal/store/visible")},
	"internal/store/dirlock":  {libraries: in("golang.org/x/sys")},
	"internal/store/sqlite": {
		own:       in("internal/hook", "internal/lane", "internal/stats", "internal/store", "internal/store/dirlock", "internal/store/sqlstore", "internal/store/visible"),
		libraries: in("modernc.org/sqlite"),
	},
	"internal/store/postgres": {
		own: in(
			"internal/hook", "internal/lane", "internal/stats", "internal/store", "internal/store/sqlstore", "internal/store/visible",
			"internal/store/postgres/deferred", "internal/store/postgres/hints", "internal/store/postgres/pipeline",
		),
		libraries: in("github.com/jackc/pgx/v5"),
	},
	"internal/store/postgres/deferred": {own: in("internal/hook", "internal/store", "internal/store/visible")},
	"internal/store/postgres/hints":    {own: in("internal/hook", "internal/store"), libraries: in("github.com/jackc/pgx/v5")},
	"internal/store/postgres/pipeline": {libraries: in("github.com/jackc/pgx/v5")},
	"internal/store/visible":           {},
	"internal/store/storetest": {
		own:       in("internal/hook", "internal/lane", "internal/stats", "internal/store"),
		libraries: in("github.com/google/go-cmp", "pgregory.net/rapid"),
	},

	"internal/ingest": {
		own:       in("internal/filter", "internal/hook", "internal/policy", "internal/schema", "internal/store"),
		libraries: in("golang.org/x/sync/singleflight", "golang.org/x/time/rate"),
	},
	"internal/backfill": {own: in("internal/filter", "internal/hook", "internal/store")},
	"internal/dispatch": {
		own: in(
			"internal/hook", "internal/policy", "internal/lane", "internal/window", "internal/sign", "internal/shape",
			"internal/store", "internal/egress", "internal/vault", "internal/dispatch/lease",
		),
	},
	"internal/dispatch/lease": {own: in("internal/hook", "internal/store")},
	"internal/replay":         {own: in("internal/hook", "internal/policy", "internal/store")},
	"internal/retention":      {own: in("internal/hook", "internal/stats", "internal/store")},
	"internal/watch":          {own: in("internal/hook", "internal/store")},
	"internal/evaluate":       {own: in("internal/hook", "internal/policy", "internal/lane", "internal/stats", "internal/alert", "internal/store")},
	"internal/rekey":          {own: in("internal/hook", "internal/store", "internal/vault")},
	"internal/notify":         {own: in("internal/hook", "internal/sign", "internal/notify/mailer")},
	"internal/notify/mailer":  {libraries: in("github.com/wneessen/go-mail")},

	"internal/notify/mailer/mailtest": {},
	"internal/census":                 {own: in("internal/hook", "internal/store")},
	"internal/metric": {
		own:       in("internal/alert", "internal/hook"),
		libraries: in("github.com/prometheus/client_golang"),
	},
	"internal/trace": {
		own: in("internal/hook"),
		libraries: in(
			"github.com/go-logr/logr", "go.opentelemetry.io/otel", "go.opentelemetry.io/proto/otlp", "google.golang.org/protobuf",
			"golang.org/x/net/http/httpguts",
		),
	},
	"internal/metric/promrule": {
		own:       in("internal/alert", "internal/hook", "internal/quantity"),
		libraries: in("go.yaml.in/yaml/v3"),
	},
	"internal/metric/grafana": {own: in("internal/metric")},
	"internal/api": {
		own: in(
			"internal/hook", "internal/policy", "internal/portal", "internal/quantity", "internal/shape", "internal/sign", "internal/stats", "internal/store",
			"internal/vault", "internal/api/accept", "internal/api/alerts", "internal/api/attempts", "internal/api/curl", "internal/api/destination", "internal/api/eventtypes", "internal/api/policies", "internal/api/rest", "internal/api/spec", "internal/api/sse", "internal/api/strip", "internal/api/tap", "internal/api/trial", "internal/api/view",
		),
		libraries: in("github.com/danielgtaylor/huma/v2"),
	},
	"internal/api/accept": {
		own:       in("internal/hook", "internal/jsonscan", "internal/quantity", "internal/api/rest"),
		libraries: in("github.com/danielgtaylor/huma/v2"),
	},
	"internal/api/alerts": {
		own: in(
			"internal/alert", "internal/hook", "internal/notify", "internal/quantity", "internal/sign", "internal/store", "internal/vault",
			"internal/api/destination", "internal/api/rest", "internal/api/view",
		),
	},
	"internal/api/attempts": {
		own:       in("internal/hook", "internal/store", "internal/api/rest", "internal/api/sse", "internal/api/view"),
		libraries: in("github.com/danielgtaylor/huma/v2"),
	},
	"internal/api/tap": {
		own:       in("internal/hook", "internal/store", "internal/api/rest", "internal/api/sse", "internal/api/view"),
		libraries: in("github.com/danielgtaylor/huma/v2"),
	},
	"internal/api/sse":         {own: in("internal/hook", "internal/store", "internal/api/rest"), libraries: in("github.com/danielgtaylor/huma/v2")},
	"internal/api/trial":       {own: in("internal/hook", "internal/policy", "internal/quantity", "internal/sim", "internal/api/rest", "internal/api/view")},
	"internal/api/policies":    {own: in("internal/hook", "internal/policy", "internal/store", "internal/api/rest", "internal/api/view")},
	"internal/api/curl":        {},
	"internal/api/spec":        {},
	"internal/api/contract":    {libraries: in("github.com/santhosh-tekuri/jsonschema/v6")},
	"internal/api/eventtypes":  {own: in("internal/filter", "internal/hook", "internal/schema", "internal/store", "internal/api/rest", "internal/api/view")},
	"internal/api/destination": {own: in("internal/filter", "internal/hook", "internal/shape", "internal/api/rest", "internal/api/view")},
	"internal/api/strip":       {own: in("internal/api/view", "internal/hook", "internal/stats")},
	"internal/api/view": {
		own:       in("internal/hook", "internal/policy", "internal/quantity", "internal/stats", "internal/store"),
		libraries: in("github.com/danielgtaylor/huma/v2"),
	},
	"internal/api/rest": {
		own:       in("internal/hook", "internal/jsonscan", "internal/quantity", "internal/store", "internal/vault"),
		libraries: in("github.com/danielgtaylor/huma/v2", "golang.org/x/time/rate"),
	},

	"internal/ui": {own: in(
		"internal/ui/apidocs", "internal/ui/session", "internal/ui/site", "internal/ui/static",
		"internal/ui/alerts", "internal/ui/deadletters", "internal/ui/deliveries", "internal/ui/endpoints", "internal/ui/find", "internal/ui/overview",
		"internal/ui/playground", "internal/ui/settings", "internal/ui/tenants",
	)},
	"internal/ui/site": {own: in("internal/hook", "internal/portal", "internal/api/rest", "internal/api/sse", "internal/api/view", "internal/ui/brand", "internal/ui/chart", "internal/ui/session", "internal/ui/words")},
	// Sections: what they need of each other's pages is an address.
	"internal/ui/alerts":      section,
	"internal/ui/deadletters": section,
	"internal/ui/deliveries":  section,
	"internal/ui/overview":    section,
	"internal/ui/settings":    section,
	"internal/ui/find":        section,
	"internal/ui/endpoints":   section,
	"internal/ui/tenants":     section,
	"internal/ui/uitest": {own: in(
		"internal/api", "internal/api/rest", "internal/api/view", "internal/backfill", "internal/hook", "internal/store", "internal/store/sqlite", "internal/ui", "internal/ui/site", "internal/vault",
	)},
	"internal/ui/playground": {own: section.own, libraries: in("go.yaml.in/yaml/v3")},

	"internal/ui/apidocs": {}, // reads the document and nothing else
	"internal/ui/session": {own: in("internal/hook", "internal/portal")},
	"internal/ui/brand":   {},
	"internal/ui/words":   {own: in("internal/api/view", "internal/quantity")},
	"internal/ui/static":  {},
	// The dashboard. Its pictures are drawn from plain figures.
	"internal/ui/chart":   {},
	"internal/ui/figures": {own: in("internal/api/view", "internal/ui/chart", "internal/ui/words")},

	"internal/app": {own: in(
		"internal/hook", "internal/policy", "internal/quantity", "internal/lane", "internal/sign", "internal/vault", "internal/egress",
		"internal/store", "internal/store/dirlock", "internal/store/sqlite", "internal/store/postgres",
		"internal/ingest", "internal/backfill", "internal/dispatch", "internal/replay", "internal/retention", "internal/api", "internal/api/accept", "internal/api/rest", "internal/api/view",
		"internal/watch", "internal/census", "internal/metric", "internal/trace", "internal/headroom", "internal/door",
		"internal/alert", "internal/api/alerts", "internal/evaluate", "internal/notify", "internal/notify/mailer", "internal/stats",
		"internal/ui", "internal/ui/apidocs", "internal/ui/site",
	)},

	"internal/upkeep": {own: in(
		"internal/app", "internal/hook", "internal/rekey", "internal/store", "internal/store/dirlock", "internal/store/postgres", "internal/store/sqlite", "internal/vault",
	)},

	"internal/config": {
		own:       in("internal/alert", "internal/api/view", "internal/app", "internal/notify/mailer", "internal/policy", "internal/quantity"),
		libraries: in("github.com/spf13/pflag", "go.yaml.in/yaml/v3"),
	},

	// The lab: tools that try the product out, no part of serving.
	"internal/lab/pgcluster": {libraries: in("github.com/jackc/pgx/v5")},
	"internal/lab/pgtest":    {own: in("internal/lab/pgcluster")},
	"internal/lab/promtest":  {},
	"internal/lab/simplot": {
		own:       in("internal/quantity", "internal/sim"),
		libraries: in("github.com/guptarohit/asciigraph", "gonum.org/v1/plot"),
	},
	"internal/lab/sink": {own: in("internal/hook", "internal/pause", "internal/quantity", "receiver")},
	"internal/lab/demo": {own: in("internal/api/view", "internal/lab/sink", "internal/quantity")},
	"internal/lab/bench": {
		own:       in("internal/lab/bench/histogram", "internal/lab/bench/usage", "internal/lab/bench/wire", "internal/lab/pgcluster"),
		libraries: in("gonum.org/v1/plot"),
	},
	"internal/lab/bench/histogram": {},
	"internal/lab/bench/usage":     {libraries: in("github.com/prometheus/procfs")},
	"internal/lab/bench/relay":     {own: in("internal/egress", "internal/headroom")},
	"internal/lab/bench/wire":      {},

	"internal/cli/kit": {own: in("internal/api/view", "internal/config", "internal/pause"), libraries: in("github.com/spf13/cobra", "github.com/spf13/pflag")},
	"internal/cli/manual": {
		own:       in("internal/cli/kit", "internal/config"),
		libraries: in("github.com/spf13/cobra", "github.com/spf13/pflag"),
	},
	"internal/cli/receive": {
		own:       in("internal/api/view", "internal/cli/kit", "internal/hook", "internal/sign", "receiver"),
		libraries: in("github.com/spf13/cobra"),
	},
	"internal/cli/watch": {own: in("internal/api/view", "internal/cli/kit", "internal/pause"), libraries: in("github.com/spf13/cobra")},
	"internal/cli/doctor": {
		own:       in("internal/app", "internal/cli/kit", "internal/config", "internal/door", "internal/quantity", "internal/upkeep", "internal/vault"),
		libraries: in("github.com/spf13/cobra"),
	},
	"internal/cli/transfer": {
		own:       in("internal/cli/kit", "internal/config", "internal/pause"),
		libraries: in("github.com/spf13/cobra", "go.yaml.in/yaml/v3"),
	},
	"internal/cli": {
		own: in(
			"internal/api/view", "internal/app", "internal/upkeep", "internal/cli/doctor", "internal/cli/kit", "internal/cli/manual", "internal/cli/receive", "internal/cli/transfer", "internal/cli/watch",
			"internal/config", "internal/pause", "internal/quantity", "internal/metric/grafana", "internal/metric/promrule",
			"internal/lab/bench", "internal/lab/bench/relay", "internal/lab/demo", "internal/lab/simplot", "internal/lab/sink", "internal/sim", "receiver",
		),
		libraries: in("github.com/spf13/cobra", "github.com/spf13/pflag"),
	},
	"internal/archtest": {},

	// Releases are made from outside: they hold what the program prints itself.
	"internal/release":      {},
	"internal/release/make": {own: in("internal/release")},
	"examples/receiver":     {own: in("receiver"), libraries: in("modernc.org/sqlite")}, // for people to begin with

	"test/process": {}, // drives the binary from outside
	"test/manual":  {}, // so does this, as the pages say
	"test/torture": {}, // so does this
	"test/browser": {}, // and this, through the dashboard
	"test/openapi": {}, // and this, with the clients of others
	"test/deploy":  {}, // what releases, images and charts are made of
	"test/program": {},
	"test/demo":    {own: in("test/program", "test/seed")},
	"test/seed": { // writes a past that a server goes on with
		own: in(
			"internal/api/rest", "internal/hook", "internal/lane", "internal/policy", "internal/sign", "internal/stats", "internal/vault",
			"internal/store", "internal/store/sqlite", "internal/store/postgres", "test/program",
		),
		libraries: in("github.com/jackc/pgx/v5"),
	},
	"test/torture/check": {}, // shares nothing with what it judges
}

// mayBeLarge reports whether a package may outgrow the bound on packages: tools
// and tests that are no part of serving.
func mayBeLarge(folder string) bool {
	return strings.HasPrefix(folder, "internal/lab/") || strings.HasPrefix(folder, "test/") || folder == "internal/store/storetest"
}

func in(names ...string) []string { return names }

func set(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

var (
	// pure packages get time and chance as arguments, so that everything they
	// decide can be tested, simulated and replayed exactly.
	pure = set(
		"internal/hook", "internal/policy", "internal/lane", "internal/window", "internal/filter", "internal/schema", "internal/shape", "internal/sign", "internal/jsonscan", "internal/quantity",
		"internal/stats", "internal/alert", "internal/api/curl", "internal/api/view", "internal/store/postgres/deferred", "internal/store/visible",
		"internal/ui/chart", "internal/ui/words",
	)

	// impure are imports that have no business in a pure package.
	impure = set("log", "os", "os/exec", "os/signal", "syscall", "database/sql", "net/http/httptest")

	// slogValue are the names of log/slog that a type needs to say how it is
	// logged, or rather that it is not: secrets use them.
	slogValue = set("LogValuer", "Value", "StringValue")

	clock = set("Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker")

	// ownSource are the names of math/rand that do not touch its global source.
	ownSource = set(
		"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf",
		"Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf",
	)

	// outbound are the ways to open a connection.
	outbound = map[string]map[string]bool{
		"net/http":   set("Get", "Head", "Post", "PostForm", "DefaultClient", "DefaultTransport", "Client", "Transport"),
		"net":        set("Dial", "DialTimeout", "DialIP", "DialTCP", "DialUDP", "DialUnix", "Dialer"),
		"crypto/tls": set("Dial", "DialWithDialer", "Dialer"),
	}

	// mayConnect are the packages that may: the guarded client, the client of
	// our own API, the one that copies events to this machine, the stores' drivers, the ways to the operator's mail server and
	// collector of traces, the load generator and its yardstick, the invented
	// destinations of tests.
	mayConnect = set(
		"internal/egress", "internal/cli/kit", "internal/cli/receive", "internal/store/postgres", "internal/notify/mailer", "internal/trace", "internal/lab/pgcluster",
		"internal/lab/bench", "internal/lab/bench/relay", "internal/lab/bench/wire", "internal/lab/demo",
		"test/seed",
	)
)
