package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/breakwaterhq/breakwater/internal/policy"
	"github.com/breakwaterhq/breakwater/internal/quantity"
)

// The checks below never put the checked text into their errors: several of
// them see secrets.

func checkPath(s string) error {
	if s == "" || strings.ContainsRune(s, 0) {
		return errors.New("must be the path of a folder")
	}
	return nil
}

func checkDatabaseURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return errors.New("must be a URL that starts with postgres://")
	}
	// A commit that is not on disk would break the promise of the 202.
	if strings.Contains(strings.ReplaceAll(strings.ToLower(u.Query().Encode()), "%3d", "="), "synchronous_commit=off") {
		return errors.New("must not switch synchronous_commit off: accepted events could be lost")
	}
	return nil
}

func checkListen(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return errors.New("must be host:port, such as 127.0.0.1:8080 or :8080")
	}
	return nil
}

func checkLoopback(s string) error {
	if err := checkListen(s); err != nil {
		return err
	}
	if !loopback(s) {
		return errors.New("must be a loopback address such as 127.0.0.1:6060")
	}
	return nil
}

// loopback reports whether the host of an address is this machine only.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func checkNodeName(s string) error {
	if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune("._-", r) }) {
		return errors.New("must be 1 to 64 letters, digits, dots, dashes or underscores")
	}
	return nil
}

func alphanumeric(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
}

// checkAdminKey takes any key of the length that the API accepts: operators may
// bring their own.
func checkAdminKey(s string) error {
	if len(s) < 16 || len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("must be 16 to 256 visible ASCII characters")
	}
	return nil
}

func checkEncryptionKey(s string) (string, error) {
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != 32 {
		return "", errors.New("must be 32 bytes in base64, several of them separated by commas")
	}
	return s, nil
}

func checkReadable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot be read: %w", rootCause(err))
	}
	return f.Close()
}

func checkProxy(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("must be a URL that starts with http:// or https://")
	}
	return nil
}

func checkUserAgent(s string) error {
	if len(s) > 256 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return errors.New("must be up to 256 visible ASCII characters and spaces")
	}
	return nil
}

func checkStripeHeader(s string) error {
	const punctuation = "!#$%&'*+-.^_`|~"
	bad := func(r rune) bool { return !alphanumeric(r) && !strings.ContainsRune(punctuation, r) }
	lower := strings.ToLower(s)
	if s == "" || strings.ContainsFunc(s, bad) {
		return errors.New("must be a header name")
	}
	if strings.HasPrefix(lower, "webhook-") || strings.HasPrefix(lower, "breakwater-") {
		return errors.New("must not be one of the headers every request has (webhook-*, breakwater-*)")
	}
	return nil
}

func checkPreset(s string) error {
	var names []string
	for _, p := range policy.Presets() {
		names = append(names, p.Name)
	}
	if slices.Contains(names, s) {
		return nil
	}
	text := "is not the name of a preset"
	if near := Nearest(s, names); near != "" {
		text += "; did you mean " + near + "?"
	}
	return errors.New(text)
}

// maxBatch is how many events the API takes in one request.
const maxBatch = 1000

// crossCheck applies the rules that tie settings together. It judges only
// settings that are sound in themselves.
func (l *loader) crossCheck(c *Config) {
	o := &c.Options
	bad := map[string]bool{}
	for _, p := range l.problems {
		bad[p.Key] = true
	}
	check := func(broken bool, key, message string, others ...string) {
		for _, k := range append(others, key) {
			if bad[k] {
				return
			}
		}
		if broken {
			l.problem(Problem{Key: key, Origin: l.origin(key), Message: message})
		}
	}
	check(o.LeaseRenew > o.LeaseTTL/3, "lease.renew",
		fmt.Sprintf("must be at most a third of lease.ttl (%s)", quantity.FormatDuration(o.LeaseTTL)), "lease.ttl")
	most := max(o.MaxFanout, o.MaxRequestDeliveries) + maxBatch
	check(o.IngestQueue < most, "ingest.queue",
		fmt.Sprintf("must be at least %d: the greater of ingest.max_fanout and ingest.max_request_deliveries, and %d events", most, maxBatch),
		"ingest.max_fanout", "ingest.max_request_deliveries")
	check(o.IngestQueueBytes < o.MaxBatchBody, "ingest.queue_bytes",
		fmt.Sprintf("must be at least ingest.max_batch_body (%s)", quantity.FormatSize(o.MaxBatchBody)), "ingest.max_batch_body")
	check(o.TLSCertFile != "" && o.TLSKeyFile == "", "tls.cert_file", "needs tls.key_file as well", "tls.key_file")
	check(o.TLSKeyFile != "" && o.TLSCertFile == "", "tls.key_file", "needs tls.cert_file as well", "tls.cert_file")
	check(o.Dev && !loopback(o.Listen), "listen",
		"must be a loopback address with dev, which lets deliveries into private networks", "dev")
	check(len(o.UI.FrameAncestors) > maxAncestors, "ui.frame_ancestors", fmt.Sprintf("must be at most %d origins", maxAncestors))
	l.checkAlerts(c)
}

func (l *loader) origin(key string) string {
	if g, ok := l.given[key]; ok {
		return g.origin
	}
	return "default"
}
