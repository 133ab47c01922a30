package trace

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// settings are what the OTEL_* variables ask for.
type settings struct {
	on       bool
	to       target
	shown    string // where spans go, without what may be secret
	sampler  sdk.Sampler
	queue    int // spans that may wait
	batch    int // spans in one request
	delay    time.Duration
	timeout  time.Duration // of an export, with its repetitions
	warnings []warning
}

// warning is what is wrong with a variable. It never holds the value of one
// that may be secret.
type warning struct{ variable, problem string }

func (s *settings) warn(variable, problem string) {
	s.warnings = append(s.warnings, warning{variable, problem})
}

// off warns of a variable without which nothing can be sent.
func (s *settings) off(variable, problem string) {
	s.warn(variable, problem+": there are no traces")
	s.on = false
}

func readSettings() *settings {
	s := &settings{}
	if s.on = s.wanted(); !s.on {
		return s
	}
	s.readProtocol()
	s.readEndpoint()
	s.readTLS()
	s.readHeaders()
	s.to.compress = s.readCompression()
	timeout, _ := either("TIMEOUT")
	s.to.timeout = s.milliseconds(timeout, 10*time.Second)
	s.sampler = s.readSampler()
	s.queue = s.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048, 1, 1<<20)
	s.batch = s.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", min(512, s.queue), 1, s.queue)
	s.delay = s.milliseconds("OTEL_BSP_SCHEDULE_DELAY", 5*time.Second)
	s.timeout = s.milliseconds("OTEL_BSP_EXPORT_TIMEOUT", 30*time.Second)
	if list := get("OTEL_PROPAGATORS"); list != "" && !slices.Contains(split(list), "tracecontext") {
		s.warn("OTEL_PROPAGATORS", "knows tracecontext only, which is always used")
	}
	return s
}

// get returns a variable without white space around it.
func get(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// either returns a variable of the exporter, which has a general name and one for
// traces alone that goes before, and the name that it was found under.
func either(name string) (variable, value string) {
	const general, special = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	if v := get(special + name); v != "" {
		return special + name, v
	}
	return general + name, get(general + name)
}

func split(list string) []string {
	words := strings.Split(list, ",")
	for i, w := range words {
		words[i] = strings.ToLower(strings.TrimSpace(w))
	}
	return words
}

// wanted reports whether the variables ask for traces.
func (s *settings) wanted() bool {
	switch disabled := strings.ToLower(get("OTEL_SDK_DISABLED")); disabled {
	case "true":
		return false
	case "", "false":
	default:
		s.warn("OTEL_SDK_DISABLED", "must be true or false; it counts as false")
	}
	list := get("OTEL_TRACES_EXPORTER")
	if list == "" {
		_, endpoint := either("ENDPOINT")
		return endpoint != ""
	}
	names := split(list)
	for _, name := range names {
		if name != "otlp" && name != "none" {
			s.warn("OTEL_TRACES_EXPORTER", fmt.Sprintf("knows otlp and none, not %q", name))
		}
	}
	return slices.Contains(names, "otlp")
}

func (s *settings) readProtocol() {
	if name, protocol := either("PROTOCOL"); protocol != "" && protocol != "http/protobuf" {
		s.off(name, fmt.Sprintf("knows http/protobuf only, not %q", protocol))
	}
}

// tracesPath follows an endpoint that is for everything, not for traces alone.
const tracesPath = "v1/traces"

func (s *settings) readEndpoint() {
	name, raw := either("ENDPOINT")
	if raw == "" {
		raw = "http://localhost:4318"
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		s.off(name, "must be a URL such as http://collector:4318") // it may hold a password
		return
	}
	if !strings.Contains(name, "TRACES") {
		u = u.JoinPath(tracesPath)
	}
	s.to.url = u.String()
	u.User, u.RawQuery, u.Fragment = nil, "", "" // they may hold a key
	s.shown = u.String()
}

func (s *settings) readTLS() {
	var own tls.Config
	if name, file := either("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		own.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			s.off(name, err.Error())
		case !own.RootCAs.AppendCertsFromPEM(pem):
			s.off(name, "the file holds no certificate")
		}
	}
	certName, certFile := either("CLIENT_CERTIFICATE")
	keyName, keyFile := either("CLIENT_KEY")
	switch {
	case certFile == "" && keyFile == "":
	case certFile == "":
		s.off(certName, "goes with "+keyName)
	case keyFile == "":
		s.off(keyName, "goes with "+certName)
	default:
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			s.off(certName, err.Error())
		}
		own.Certificates = []tls.Certificate{pair}
	}
	if own.RootCAs != nil || own.Certificates != nil {
		s.to.tls = &own
	}
}

// readHeaders reads name=value pairs, values percent-encoded. What is wrong is
// left out; nothing of it may be told, for it may be a token.
func (s *settings) readHeaders() {
	variable, list := either("HEADERS")
	if list == "" {
		return
	}
	s.to.headers = make(map[string]string)
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			s.warn(variable, "must be name=value, separated by commas, values percent-encoded; what is not is left out")
			continue
		}
		s.to.headers[name] = value
	}
}

func (s *settings) readCompression() bool {
	switch name, word := either("COMPRESSION"); word {
	case "gzip":
		return true
	case "", "none":
	default:
		s.warn(name, fmt.Sprintf("must be gzip or none, not %q", word))
	}
	return false
}

const samplerVariable = "OTEL_TRACES_SAMPLER"

// readSampler returns the sampler asked for, else the standard one: as the
// publisher says, and every trace that begins here.
func (s *settings) readSampler() sdk.Sampler {
	switch name := strings.ToLower(get(samplerVariable)); name {
	case "", "parentbased_always_on":
	case "always_on":
		return sdk.AlwaysSample()
	case "always_off":
		return sdk.NeverSample()
	case "traceidratio":
		return sdk.TraceIDRatioBased(s.ratio())
	case "parentbased_always_off":
		return sdk.ParentBased(sdk.NeverSample())
	case "parentbased_traceidratio":
		return sdk.ParentBased(sdk.TraceIDRatioBased(s.ratio()))
	default:
		s.warn(samplerVariable, fmt.Sprintf("knows always_on, always_off, traceidratio, and these three after parentbased_, not %q; it counts as parentbased_always_on", name))
	}
	return sdk.ParentBased(sdk.AlwaysSample())
}

// ratio returns the share of traces that are sampled.
func (s *settings) ratio() float64 {
	text := get(samplerVariable + "_ARG")
	if text == "" {
		return 1
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share >= 0 && share <= 1) {
		s.warn(samplerVariable+"_ARG", fmt.Sprintf("must be between 0 and 1, not %q; it counts as 1", text))
		return 1
	}
	return share
}

// number returns a whole number within bounds, or the default.
func (s *settings) number(name string, standard, low, high int) int {
	text := get(name)
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		s.warn(name, fmt.Sprintf("must be a whole number between %d and %d, not %q; it counts as %d", low, high, text, standard))
		return standard
	}
	return n
}

// milliseconds returns a time of up to an hour.
func (s *settings) milliseconds(name string, standard time.Duration) time.Duration {
	const most = time.Hour
	return time.Duration(s.number(name, int(standard.Milliseconds()), 1, int(most.Milliseconds()))) * time.Millisecond
}
