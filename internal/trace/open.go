package trace

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Config is what Open needs to know of the server. All of it is required.
type Config struct {
	Version string
	Node    string // its name
	Log     *slog.Logger
}

// serviceName is what the server is called unless OTEL_SERVICE_NAME says
// otherwise.
const serviceName = "breakwater"

// Open starts a tracer by the OTEL_* variables of the process; nil when they ask
// for none. A variable that is wrong never keeps the server from running: many
// programs read them. It is left out with a warning that names it, or, if nothing
// could be sent that way, there is no tracer.
func Open(cfg Config) *Tracer {
	s := readSettings()
	for _, w := range s.warnings {
		cfg.Log.Warn("a setting of traces is not used", "variable", w.variable, "problem", w.problem)
	}
	if !s.on {
		return nil
	}
	// The SDK reads a few variables for itself; its complaints would go to stderr.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { cfg.Log.Debug("traces", "error", err) }))
	ctx := context.Background()
	c := newCollector(s.to, "Breakwater/"+cfg.Version)
	exporter, err := otlptrace.New(ctx, c)
	if err != nil {
		cfg.Log.Warn("there are no traces: the exporter does not start", "error", err)
		return nil
	}
	q := &queue{room: int64(s.queue), exporter: exporter, log: cfg.Log}
	batch := sdk.NewBatchSpanProcessor(q, sdk.WithMaxQueueSize(s.queue), sdk.WithMaxExportBatchSize(s.batch),
		sdk.WithBatchTimeout(s.delay), sdk.WithExportTimeout(s.timeout))
	provider := sdk.NewTracerProvider(
		sdk.WithSpanProcessor(entrance{q, batch}), sdk.WithSampler(linked{s.sampler}), sdk.WithResource(describe(ctx, cfg)))
	cfg.Log.Info("traces are on", "endpoint", s.shown, "sampler", s.sampler.Description())
	spans := provider.Tracer("github.com/breakwaterhq/breakwater")
	return &Tracer{provider: provider, spans: spans, queue: q, collector: c, attempts: newAttempts(spans, q, s.queue)}
}

// describe says who sends the spans. What the variables say goes before.
func describe(ctx context.Context, cfg Config) *resource.Resource {
	r, err := resource.New(ctx,
		resource.WithTelemetrySDK(),
		resource.WithAttributes(
			attribute.String("service.name", serviceName),
			attribute.String("service.version", cfg.Version),
			attribute.String("service.instance.id", cfg.Node),
		),
		resource.WithFromEnv(),
	)
	if err != nil { // r holds what could be read
		cfg.Log.Warn("a setting of traces is not used", "variable", "OTEL_RESOURCE_ATTRIBUTES", "problem", err.Error())
	}
	return r
}
