package receive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/api/view"
	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/sign"
)

func listenCommand(s *kit.Session) *cobra.Command {
	l := &listener{Session: s}
	var types []string
	var path, secretFile string
	last := 0
	cmd := &cobra.Command{
		Use: "listen PORT|URL", Short: "Copy events to a server on this machine, signed, while you write it", Args: kit.WantArgs(1, 1),
		Long: "Copy every event that is accepted from now on to a server on this machine, as a signed webhook, until Ctrl-C. A key that may read is enough; no endpoint is\n" +
			"made, and deliveries go on as they do. It is a tap: what your server answers is shown, and nothing is sent again.\n" +
			"The secret is made once and kept in a file of yours, so that it stays the same.",
		Example: "  breakwater listen 3000 --path /hook --types 'order.*'\n  breakwater listen http://127.0.0.1:3000/hook --last 5",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if l.to, err = target(args[0], path); err != nil {
				return err
			}
			if last < 0 || last > maxLast {
				return kit.Usagef("--last: must be between 0 and %d", maxLast)
			}
			for _, pattern := range types {
				if err := hook.CheckPattern(pattern); err != nil {
					return kit.Usagef("--types: %q: %w", pattern, err)
				}
			}
			l.query = url.Values{}
			if len(types) > 0 {
				l.query["type"] = types
			}
			return l.run(cmd.Context(), secretFile, last)
		},
	}
	cmd.Flags().StringSliceVar(&types, "types", nil, "event types such as order.paid or 'order.*' (default all)")
	cmd.Flags().StringVar(&path, "path", "", "path of your server that takes webhooks, such as /hook (default /)")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file with the secret; made if it is not there (default one in your configuration folder)")
	cmd.Flags().IntVar(&last, "last", 0, "begin with so many of the latest events")
	return cmd
}

// maxLast bounds --last.
const maxLast = 100

// target reads the argument: a port of this machine, or an address.
func target(text, path string) (*url.URL, error) {
	if path != "" && !strings.HasPrefix(path, "/") {
		return nil, kit.Usagef("--path: %q must begin with /", path)
	}
	if port, err := strconv.ParseUint(text, 10, 16); err == nil && port > 0 {
		return &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", text), Path: cmp.Or(path, "/")}, nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, kit.Usagef("PORT|URL: %q must be a port such as 3000, or a URL such as http://127.0.0.1:3000/hook", text)
	case path != "" && strings.Trim(u.Path, "/") != "":
		return nil, kit.Usagef("--path: the URL has a path already; use one of them")
	}
	u.Path = cmp.Or(path, u.Path, "/")
	return u, nil
}

// listener copies events.
type listener struct {
	*kit.Session

	to     *url.URL
	query  url.Values
	api    *kit.Client
	http   *http.Client
	signer *sign.Signer
	hinted bool
}

func (l *listener) run(ctx context.Context, secretFile string, last int) error {
	secret, file, err := l.secret(secretFile)
	if err != nil {
		return err
	}
	if l.signer, err = sign.NewSigner([]hook.Signature{{Scheme: hook.SchemeStandard}}, []sign.Secret{secret}); err != nil {
		return kit.Usagef("--secret-file: %w", err)
	}
	if l.api, err = l.Client(); err != nil {
		return err
	}
	// A redirect is an answer, as it is for a delivery.
	l.http = &http.Client{
		Timeout:       l.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	st := &kit.Stream{Path: "T/events/stream", Query: l.query, Each: func(name, _, data string) error { return l.hear(ctx, name, data) }}
	latest, err := l.latest(ctx, last)
	if err != nil {
		return err
	}
	st.Open = func() error {
		if !l.Quiet {
			l.Note("events of tenant %s go to %s from now on; secret from %s; end with Ctrl-C", l.Tenant, l.to, file)
		}
		return nil
	}
	began := map[string]string{"url": l.to.String(), "secret": secret.Reveal()}
	if err := l.Print(began, secret.Reveal()+"\n", "secret %s\n", secret.Reveal()); err != nil {
		return err
	}
	for _, e := range latest {
		if err := l.copy(ctx, &e); err != nil {
			return err
		}
		if time.Since(time.Time(e.AcceptedAt)) < kit.Resumable {
			st.Last = e.ID
		}
	}
	return l.Follow(ctx, l.api, st)
}

// latest returns the last events, the oldest first.
func (l *listener) latest(ctx context.Context, n int) (events []view.Event, err error) {
	if n == 0 {
		return nil, nil
	}
	p, err := l.api.List(ctx, "T/events", url.Values{"type": l.query["type"]}, n)
	if err != nil {
		return nil, err
	}
	for _, raw := range slices.Backward(p.Data) {
		e, err := kit.Understand[view.Event](raw)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// hear takes what the stream brings.
func (l *listener) hear(ctx context.Context, name, data string) error {
	switch name {
	case "event":
		e, err := kit.Understand[view.Event](json.RawMessage(data))
		if err != nil {
			return err
		}
		return l.copy(ctx, &e)
	case "lagged":
		l.Note("some events were skipped: more came than could be copied")
	}
	return nil
}

// copied is what is told of an event with --json.
type copied struct {
	ID        string  `json:"id"`
	Type      string  `json:"type"`
	Status    int     `json:"status,omitempty"`
	Error     string  `json:"error,omitempty"`
	LatencyMS float64 `json:"latency_ms"`
}

// copy sends one event to the server on this machine and tells what it answered.
func (l *listener) copy(ctx context.Context, e *view.Event) error {
	body, err := l.payload(ctx, e)
	if err != nil {
		return err
	}
	began := time.Now()
	status, err := l.post(ctx, e, body)
	took := time.Since(began)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	told := copied{ID: e.ID, Type: e.Type, Status: status, LatencyMS: float64(took.Microseconds()) / 1000}
	result := strconv.Itoa(status)
	if err != nil {
		told.Error = l.trouble(err)
		result = told.Error
	}
	if err := l.Print(told, e.ID+"\n", "→ %s %s %dms %s\n", e.Type, result, took.Milliseconds(), e.ID); err != nil {
		return err
	}
	if errors.Is(err, syscall.ECONNREFUSED) && !l.hinted && !l.Quiet {
		l.hinted = true
		l.Note("nothing listens at %s: start your server, or name another port", l.to.Host)
	}
	return nil
}

// payload returns the bytes that a delivery would carry. The stream has them unless
// JSON in JSON has lost white space on the way.
func (l *listener) payload(ctx context.Context, e *view.Event) ([]byte, error) {
	for _, body := range [][]byte{e.Payload, e.PayloadBase64} {
		if len(body) == e.Size {
			return body, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	resp, err := l.api.Do(ctx, kit.Request{Method: http.MethodGet, Path: kit.At("T/events/ID/payload", e.ID)})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err != nil {
		return nil, kit.Unreachable(fmt.Errorf("read payload: %w", err))
	}
	return body, nil
}

func (l *listener) post(ctx context.Context, e *view.Event, body []byte) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.to.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", e.ContentType)
	req.Header.Set("User-Agent", "Breakwater/"+l.Version+" listen")
	req.Header.Set("Webhook-Type", e.Type)
	l.signer.Sign(req.Header.Set, e.ID, time.Now(), body)
	resp, err := l.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // lets the connection be used again
	return resp.StatusCode, nil
}

// trouble says in a few words why there was no answer.
func (l *listener) trouble(err error) string {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer within " + l.Timeout.String()
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "closed without an answer"
	default:
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			err = inner
		}
		return "failed: " + err.Error()
	}
}
