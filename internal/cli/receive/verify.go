package receive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/breakwaterhq/breakwater/internal/cli/kit"
	"github.com/breakwaterhq/breakwater/receiver"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	secretFile, headers, body, at, stripeHeader string
	tolerance                                   time.Duration
}

func verifyCommand(s *kit.Session) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use: "verify --secret-file FILE --headers FILE --body FILE", Short: "Check the signature of a request that you have kept, and say what is wrong with it", Args: kit.WantArgs(0, 0),
		Long: "Check a request as a receiver does, with the rules of the receiver library, and name the first one that is broken: exit code 8. A body that was changed on\n" +
			"its way is tried in the ways in which that usually happens: a newline at the end, other line ends, JSON that was parsed and written again.\n" +
			"Needs no server, and sends nothing.",
		Example: "  breakwater verify --secret-file secret.txt --headers headers.txt --body body.json\n" +
			"  breakwater verify --secret-file secret.txt --headers headers.txt --body body.json --at 2026-01-02T15:04:05Z",
		RunE: func(*cobra.Command, []string) error { return verify(s, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secrets of the endpoint (whsec_... or whpk_...), one on each line")
	flags.StringVar(&f.headers, "headers", "", "file with the request's headers, Name: value on each line, or a JSON object; - for stdin")
	flags.StringVar(&f.body, "body", "", "file with the raw bytes of the body; - for stdin")
	flags.StringVar(&f.at, "at", "", "when the request was received: a time, or Unix seconds (default now)")
	flags.DurationVar(&f.tolerance, "tolerance", receiver.DefaultTolerance, "how old, or ahead, a request may be")
	flags.StringVar(&f.stripeHeader, "stripe-header", "", "header with a signature in the style of Stripe, if that is what you check")
	return cmd
}

// request is what is checked.
type request struct {
	secrets []string
	headers http.Header
	body    []byte
	at      time.Time
	flags   *verifyFlags
}

func verify(s *kit.Session, f *verifyFlags) error {
	r, err := readRequest(s, f)
	if err != nil {
		return err
	}
	v, err := r.verifier(r.secrets, r.at)
	if err != nil {
		return kit.Usagef("--secret-file: %s", strings.TrimPrefix(err.Error(), "receiver: "))
	}
	e, err := v.Verify(r.headers, r.body)
	if err != nil {
		rule, why := r.broken(err)
		if err := s.Print(map[string]any{"ok": false, "rule": rule, "detail": why}, rule+"\n", "%s\n", why); err != nil {
			return err
		}
		return errors.Join(kit.ErrSilent, kit.ErrCheckFailed)
	}
	key := r.keyOf(r.body)
	document := map[string]any{"ok": true, "key": key, "keys": len(r.secrets), "id": e.ID, "type": e.Type, "timestamp": e.Timestamp.UTC()}
	return s.Print(document, "ok\n", "ok, key %d of %d\n", key, len(r.secrets))
}

func readRequest(s *kit.Session, f *verifyFlags) (*request, error) {
	if f.headers == "-" && f.body == "-" {
		return nil, kit.Usagef("--body: only one of --headers and --body can be stdin")
	}
	if f.tolerance <= 0 {
		return nil, kit.Usagef("--tolerance: must be more than 0, such as 5m")
	}
	secrets, err := readFile(s, "secret-file", f.secretFile)
	if err != nil {
		return nil, err
	}
	r := &request{flags: f, secrets: strings.Fields(string(secrets))}
	if len(r.secrets) == 0 {
		return nil, kit.Usagef("--secret-file: %s holds no secret; it is what `breakwater endpoints create` printed", f.secretFile)
	}
	if r.at, err = readTime(f.at); err != nil {
		return nil, err
	}
	headers, err := readFile(s, "headers", f.headers)
	if err != nil {
		return nil, err
	}
	if r.headers, err = readHeaders(headers); err != nil {
		return nil, kit.Usagef("--headers: %w", err)
	}
	r.body, err = readFile(s, "body", f.body)
	return r, err
}

func readTime(text string) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	if seconds, err := strconv.ParseUint(text, 10, 40); err == nil {
		return time.Unix(int64(seconds), 0), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, kit.Usagef("--at: %q must be a time such as 2026-01-02T15:04:05Z, or Unix seconds", text)
	}
	return at, nil
}

// readHeaders reads headers as they are usually kept: lines, also of curl -v, or a
// JSON object of strings or lists.
func readHeaders(raw []byte) (http.Header, error) {
	h := http.Header{}
	if text := bytes.TrimSpace(raw); bytes.HasPrefix(text, []byte("{")) {
		var object map[string]any
		if err := json.Unmarshal(text, &object); err != nil {
			return nil, errors.New("the JSON object is not valid")
		}
		for name, value := range object {
			switch value := value.(type) {
			case string:
				h.Add(name, value)
			case []any:
				for _, each := range value {
					h.Add(name, fmt.Sprint(each))
				}
			default:
				h.Add(name, fmt.Sprint(value))
			}
		}
		return h, nil
	}
	for i, line := range strings.Split(string(raw), "\n") {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "<>"))
		name, value, ok := strings.Cut(line, ":")
		switch {
		case line == "", strings.HasPrefix(line, "*"), i == 0 && strings.Contains(line, " HTTP/"):
		case !ok || strings.ContainsAny(name, " \t"):
			return nil, fmt.Errorf("line %d must be Name: value", i+1)
		default:
			h.Add(name, strings.TrimSpace(value))
		}
	}
	if len(h) == 0 {
		return nil, errors.New("the file has no header")
	}
	return h, nil
}

// verifier checks with these secrets at that time.
func (r *request) verifier(secrets []string, at time.Time) (*receiver.Verifier, error) {
	return receiver.New(receiver.Config{
		Secrets: secrets, Tolerance: r.flags.tolerance, StripeHeader: r.flags.stripeHeader, MaxBody: maxFile, Now: func() time.Time { return at },
	})
}

// keyOf returns which secret signed this body, from 1 on; 0: none. The age does not count.
func (r *request) keyOf(body []byte) int {
	at := r.at
	if sent, ok := r.timestamp(); ok {
		at = sent
	}
	for i, secret := range r.secrets {
		v, err := r.verifier([]string{secret}, at)
		if err != nil {
			continue // a public key with the style of Stripe
		}
		if _, err := v.Verify(r.headers, body); err == nil {
			return i + 1
		}
	}
	return 0
}

// timestamp returns the time of the request.
func (r *request) timestamp() (time.Time, bool) {
	text := r.headers.Get("Webhook-Timestamp")
	if text == "" && r.flags.stripeHeader != "" {
		for field := range strings.SplitSeq(r.headers.Get(r.flags.stripeHeader), ",") {
			if value, ok := strings.CutPrefix(strings.TrimSpace(field), "t="); ok {
				text = value
			}
		}
	}
	seconds, err := strconv.ParseUint(text, 10, 40)
	return time.Unix(int64(seconds), 0), err == nil
}
