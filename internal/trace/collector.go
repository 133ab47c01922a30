package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// collector sends spans to an OpenTelemetry collector: OTLP over HTTP, in
// protobuf. The library's own client would do, were it not for a whole gRPC that
// it links in, six times the size of everything else here.
type collector struct {
	to      target
	agent   string
	client  *http.Client
	chance  *rand.Rand // of the goroutine that exports
	closing chan struct{}
	once    sync.Once
}

// target is where spans go and how.
type target struct {
	url      string
	headers  map[string]string
	compress bool
	timeout  time.Duration // of one request
	tls      *tls.Config   // nil: the system's roots
}

// The operator chose the collector, so that its address needs no guard. Proxies
// are found as everywhere: HTTPS_PROXY, NO_PROXY.
func newCollector(to target, agent string) *collector {
	now := uint64(time.Now().UnixNano())
	return &collector{
		to: to, agent: agent, chance: rand.New(rand.NewPCG(now, now)), closing: make(chan struct{}),
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: to.tls, ForceAttemptHTTP2: true,
				MaxIdleConns: 2, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
				MaxResponseHeaderBytes: 64 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       to.timeout,
		},
	}
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// hurry makes what is being sent and all that follows do without repetitions: the
// server stops.
func (c *collector) hurry() { c.once.Do(func() { close(c.closing) }) }

// rejected says that a collector took a request but not all its spans.
type rejected struct {
	spans int64
	why   string
}

func (r *rejected) Error() string {
	return fmt.Sprintf("the collector rejected %d spans: %s", r.spans, r.why)
}

// errRefused is an answer that is final.
var errRefused = errors.New("refused")

const (
	firstWait = time.Second // before the second try, and twice as long before each one after
	maxWait   = 15 * time.Second
)

// UploadTraces implements otlptrace.Client. It tries again until the collector has
// answered for good or ctx ends.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := c.encode(spans)
	if err != nil {
		return err
	}
	for wait := firstWait; ; wait = min(2*wait, maxWait) {
		last := c.hurried()
		asked, err := c.post(ctx, body)
		var part *rejected
		if err == nil || last || errors.Is(err, errRefused) || errors.As(err, &part) {
			return err
		}
		pause := max(asked, wait/2+time.Duration(c.chance.Int64N(int64(wait/2))))
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
			return err
		}
		select {
		case <-time.After(pause):
		case <-c.closing:
		case <-ctx.Done():
			return err
		}
	}
}

func (c *collector) hurried() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// encode returns the body of a request. On the wire TracesData is what
// collectors call ExportTraceServiceRequest.
func (c *collector) encode(spans []*tracepb.ResourceSpans) ([]byte, error) {
	plain, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil || !c.to.compress {
		return plain, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err = w.Write(plain); err == nil {
		err = w.Close()
	}
	return packed.Bytes(), err
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 64 << 10

// post makes one request. With an error it returns how long the collector asks to
// be left alone.
func (c *collector) post(ctx context.Context, body []byte) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.to.url, bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errRefused, err)
	}
	req.Header.Set("User-Agent", c.agent)
	for name, value := range c.to.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if c.to.compress {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, err := c.client.Do(req)
	if err != nil {
		if about, ok := errors.AsType[*url.Error](err); ok {
			err = about.Err // without the address, which may hold a key
		}
		return 0, err
	}
	answer, readErr := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	_ = res.Body.Close()
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		wait, _ := time.ParseDuration(res.Header.Get("Retry-After") + "s")
		return max(wait, 0), fmt.Errorf("the collector answers %s", res.Status)
	}
	switch {
	case res.StatusCode < 200 || res.StatusCode > 299:
		return 0, fmt.Errorf("%w: the collector answers %s", errRefused, res.Status)
	case readErr != nil:
		return 0, readErr
	case res.Header.Get("Content-Type") == "application/x-protobuf":
		return 0, readAnswer(answer)
	}
	return 0, nil
}

// readAnswer finds out whether the collector took everything: it says so in a
// message (1) with the number of spans that it rejected (1) and why (2). An
// answer that cannot be read counts as yes, as its status says.
func readAnswer(answer []byte) error {
	part := member(answer, 1)
	count, n := protowire.ConsumeVarint(value(part, 1, protowire.VarintType))
	if n < 0 || count == 0 {
		return nil
	}
	return &rejected{spans: int64(count), why: fmt.Sprintf("%.200q", member(part, 2))}
}

// member returns the bytes of a field of a message, nil when there are none.
func member(message []byte, number protowire.Number) []byte {
	b, _ := protowire.ConsumeBytes(value(message, number, protowire.BytesType))
	return b
}

// value returns a message from the value of a field on.
func value(message []byte, number protowire.Number, kind protowire.Type) []byte {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if num == number && typ == kind {
			return message
		}
		if n = protowire.ConsumeFieldValue(num, typ, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}
