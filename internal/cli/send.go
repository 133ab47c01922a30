package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/internal/cli/watch"
	"github.com/breakwaterhq/breakwater/internal/lab/sink"
	"github.com/breakwaterhq/breakwater/internal/pause"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// sendFlags are the flags of send.
type sendFlags struct {
	data           string
	contentType    string
	count          int
	rate           string
	delay          string
	idempotencyKey string
	wait           string
}

func (s *session) sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use: "send TYPE", Short: "Send an event", Args: kit.WantArgs(1, 1),
		Example: `  breakwater send order.paid -d '{"order":42}' --wait
  breakwater send order.paid -d @order.json --count 1000 --rate 50/s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := s.eventBody(args[0], &f)
			if err != nil {
				return err
			}
			c, err := s.Client()
			if err != nil {
				return err
			}
			if f.count == 1 {
				return s.sendOne(cmd.Context(), c, body, &f)
			}
			return s.sendMany(cmd.Context(), c, body, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.data, "data", "d", "{}", "payload: JSON, @file, or - for stdin")
	flags.StringVar(&f.contentType, "content-type", "", "type of a payload that is not JSON")
	flags.IntVar(&f.count, "count", 1, "how many events to send")
	flags.StringVar(&f.rate, "rate", "", "events per second with --count, such as 50/s (default as fast as they are accepted)")
	flags.StringVar(&f.delay, "delay", "", "deliver this much later, such as 15m")
	flags.StringVar(&f.idempotencyKey, "idempotency-key", "", "the same key is accepted once; with --count, -1, -2, … is added")
	flags.StringVar(&f.wait, "wait", "", "tell every attempt until all deliveries have ended, at most this long if a limit such as --wait=2m is given; fails unless all are delivered")
	flags.Lookup("wait").NoOptDefVal = noLimit
	return cmd
}

// eventBody builds the request by hand: the payload's bytes are what gets
// signed and delivered, and encoding/json would reformat them.
func (s *session) eventBody(eventType string, f *sendFlags) ([]byte, error) {
	if f.count < 1 {
		return nil, kit.Usagef("--count: must be at least 1")
	}
	payload, err := s.readData(f.data)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(eventType)
	if err != nil {
		return nil, fmt.Errorf("write request: %w", err)
	}
	body := append([]byte(`{"type":`), name...)
	if f.delay != "" {
		d, err := quantity.ParseDuration(f.delay)
		if err != nil {
			return nil, kit.Usagef("--delay: %w", err)
		}
		body = fmt.Appendf(body, `,"delay":%q`, quantity.FormatDuration(d))
	}
	switch {
	case f.contentType != "":
		contentType, err := json.Marshal(f.contentType)
		if err != nil {
			return nil, fmt.Errorf("write request: %w", err)
		}
		body = fmt.Appendf(body, `,"content_type":%s,"payload_base64":%q`, contentType, base64.StdEncoding.EncodeToString(payload))
	case json.Valid(payload):
		body = append(append(body, `,"payload":`...), payload...)
	default:
		return nil, kit.Usagef("-d: payload is not valid JSON; name its type with --content-type to send it as it is")
	}
	return append(body, '}'), nil
}

// maxData bounds a payload before it is sent; the server has its own limit.
const maxData = 64 << 20

func (s *session) readData(data string) ([]byte, error) {
	name, isFile := strings.CutPrefix(data, "@")
	if data != "-" && !isFile {
		return []byte(data), nil
	}
	source := s.Stdin
	if isFile {
		f, err := os.Open(name)
		if err != nil {
			return nil, kit.Usagef("-d: %w", err)
		}
		defer f.Close()
		source = f
	}
	raw, err := io.ReadAll(io.LimitReader(source, maxData))
	if err != nil {
		return nil, kit.Usagef("-d: %w", err)
	}
	return raw, nil
}

// receipt is the answer to an accepted event.
type receipt struct {
	ID         string `json:"id"`
	Deliveries int    `json:"deliveries"`
}

func postEvent(ctx context.Context, c *kit.Client, body []byte, key string) (receipt, error) {
	var r receipt
	err := c.Call(ctx, kit.Request{Method: http.MethodPost, Path: "T/events", Body: body, IdempotencyKey: key}, &r)
	return r, err
}

func (s *session) sendOne(ctx context.Context, c *kit.Client, body []byte, f *sendFlags) error {
	began := time.Now()
	limit, err := f.waitLimit()
	if err != nil {
		return err
	}
	r, err := postEvent(ctx, c, body, f.idempotencyKey)
	if err != nil {
		return err
	}
	err = s.Print(r, r.ID+"\n", "%s accepted, %s\n", r.ID, kit.Plural(r.Deliveries, "delivery", "deliveries"))
	switch {
	case err != nil:
		return err
	case r.Deliveries == 0 && f.wait != "":
		return fmt.Errorf("no endpoint of tenant %s takes this type of event; see: breakwater --tenant %s endpoints list", s.Tenant, s.Tenant)
	case f.wait == "":
		return nil
	}
	return watch.Follow(ctx, s.Session, c, r.ID, began, limit)
}

// noLimit is --wait without a value.
const noLimit = "until the end"

// maxWait bounds --wait.
const maxWait = 30 * 24 * time.Hour

// waitLimit reads --wait; 0: no limit.
func (f *sendFlags) waitLimit() (time.Duration, error) {
	if f.wait == "" || f.wait == noLimit {
		return 0, nil
	}
	d, err := quantity.ParseDuration(f.wait)
	if err != nil {
		return 0, kit.Usagef("--wait: %w", err)
	}
	if d <= 0 || d > maxWait {
		return 0, kit.Usagef("--wait: must be more than 0 and at most 30d")
	}
	return d, nil
}

// sendMany sends one after the other, at --rate if there is one. Failures are
// counted; the first one is told.
func (s *session) sendMany(ctx context.Context, c *kit.Client, body []byte, f *sendFlags) error {
	rate, err := readFlag("rate", f.rate, sink.ParseRate)
	if err != nil {
		return kit.Usage(err)
	}
	if f.wait != "" {
		return kit.Usagef("--wait: works with one event only")
	}
	start := time.Now()
	var first error
	accepted, deliveries := 0, 0
	progress := s.NewProgress("sending events", f.count)
	for i := range f.count {
		progress.Set(i)
		if rate > 0 {
			pause.For(ctx, time.Until(start.Add(time.Duration(float64(i)/rate*float64(time.Second)))))
		}
		if ctx.Err() != nil {
			break
		}
		key := f.idempotencyKey
		if key != "" {
			key += "-" + strconv.Itoa(i+1)
		}
		r, err := postEvent(ctx, c, body, key)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		accepted++
		deliveries += r.Deliveries
		if s.JSON {
			if err := s.PrintJSON(r); err != nil {
				return err
			}
		}
	}
	progress.End()
	if !s.JSON && !s.Quiet {
		err = s.Printf("%d of %d accepted, %s, in %v\n", accepted, f.count,
			kit.Plural(deliveries, "delivery", "deliveries"), time.Since(start).Round(time.Millisecond))
	}
	return errors.Join(err, ctx.Err(), sentError(accepted, first))
}

func sentError(accepted int, first error) error {
	if first != nil && accepted > 0 {
		return fmt.Errorf("%w, first: %w", kit.ErrPartly, first)
	}
	return first
}
