package kit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Client speaks to the API of one server.
type Client struct {
	base    *url.URL
	key     string
	tenant  string
	timeout time.Duration
	version string
	http    *http.Client
}

// Client prepares the connection that the global flags ask for.
func (s *Session) Client() (*Client, error) { return s.ClientOf(defaultURL) }

// Named reports whether a flag or the environment names the server.
func (s *Session) Named() bool { return cmp.Or(s.url, s.Variable("BREAKWATER_URL")) != "" }

// ClientOf is Client of the server at address unless another one is named.
func (s *Session) ClientOf(address string) (*Client, error) {
	base, err := s.serverURL(address)
	if err != nil {
		return nil, err
	}
	if s.Timeout <= 0 {
		return nil, Usagef("--timeout: must be more than 0, such as 30s")
	}
	key, err := s.apiKey(base)
	if err != nil {
		return nil, err
	}
	return &Client{
		base: base, key: key, tenant: s.Tenant, timeout: s.Timeout, version: s.Version,
		http: &http.Client{
			// A redirect would take the key to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func (s *Session) serverURL(usual string) (*url.URL, error) {
	text := cmp.Or(s.url, s.Variable("BREAKWATER_URL"), usual)
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, Usagef("--url: %q must be a URL that starts with http:// or https://", text)
	}
	return u, nil
}

// maxKeyFile bounds the file of an API key.
const maxKeyFile = 4 << 10

// apiKey finds the key: flag, then environment, then, for a server on this
// machine only, the file that the server itself wrote.
func (s *Session) apiKey(server *url.URL) (string, error) {
	key, file := s.Variable("BREAKWATER_API_KEY"), s.Variable("BREAKWATER_API_KEY_FILE")
	switch {
	case s.apiKeyFile != "":
		return readAPIKey("--api-key-file", s.apiKeyFile)
	case key != "" && file != "":
		return "", Usagef("BREAKWATER_API_KEY, BREAKWATER_API_KEY_FILE: set one of them, not both")
	case key != "":
		return key, nil
	case file != "":
		return readAPIKey("BREAKWATER_API_KEY_FILE", file)
	case !isLoopback(server.Hostname()):
		return "", nil
	}
	dataDir := cmp.Or(s.Variable("BREAKWATER_DATA_DIR"), "breakwater-data")
	key, err := ReadKey(filepath.Join(dataDir, "admin.key"))
	if err != nil {
		return "", nil //nolint:nilerr // only tried; the server will say that a key is needed
	}
	return key, nil
}

// readAPIKey reads the file that a flag or a variable names. An empty one is a
// mistake: the server would only say that a key is needed.
func readAPIKey(from, path string) (string, error) {
	key, err := ReadKey(path)
	switch {
	case err != nil:
		return "", Usagef("%s: read API key: %w", from, err)
	case key == "":
		return "", Usagef("%s: %s is empty; put a key into it: breakwater keys create > %s", from, path, path)
	}
	return key, nil
}

// ReadKey reads a key from a file.
func ReadKey(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(raw)), nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// Address is that of the server.
func (c *Client) Address() string { return c.base.String() }

// WithoutKey is the client of a caller that shows no key.
func (c *Client) WithoutKey() *Client {
	anonymous := *c
	anonymous.key = ""
	return &anonymous
}

// Request is one call of the API.
type Request struct {
	Method         string
	Path           string // below the base, or below the tenant when it starts with "T/"
	Query          url.Values
	Body           any // marshalled, unless it is []byte
	IdempotencyKey string
	Header         http.Header // what else to send
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// Call sends r and decodes a 2xx answer into out, which may be nil or a
// *json.RawMessage. Any other answer becomes a *Problem.
func (c *Client) Call(ctx context.Context, r Request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.Do(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := readAnswer(resp)
	if err != nil || out == nil || len(answer) == 0 {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("understand answer: %w", err)
	}
	return nil
}

// Do sends r. The body of a 2xx answer is the caller's to read and to close.
func (c *Client) Do(ctx context.Context, r Request) (*http.Response, error) {
	req, err := c.newRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.notReached(err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	answer, err := readAnswer(resp)
	if err != nil {
		return nil, err
	}
	return nil, newProblem(resp, answer, subject{path: r.Path, method: r.Method, signed: r.Query.Has("sign"), tenant: c.tenant})
}

// notReached says what to do when no server answers.
func (c *Client) notReached(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		if isLoopback(c.base.Hostname()) {
			return Unreachable(fmt.Errorf("reach server: %w%w", err, Next("start one with: breakwater serve --dev, or name another with --url")))
		}
		return Unreachable(fmt.Errorf("reach server: %w%w", err, Next("is %s right? Name another server with --url", c.base)))
	}
	var slow interface{ Timeout() bool }
	if errors.As(err, &slow) && slow.Timeout() {
		return Unreachable(fmt.Errorf("reach server: %w%w", err, Next("give it longer with --timeout, which is %s", c.timeout)))
	}
	return Unreachable(fmt.Errorf("reach server: %w%w", err, Next("is %s right? Name another server with --url or BREAKWATER_URL", c.base)))
}

func readAnswer(resp *http.Response) ([]byte, error) {
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, Unreachable(fmt.Errorf("read answer: %w", err))
	}
	return answer, nil
}

func (c *Client) newRequest(ctx context.Context, r Request) (*http.Request, error) {
	path, err := c.path(r.Path)
	if err != nil {
		return nil, err
	}
	address := c.base.JoinPath(path)
	address.RawQuery = r.Query.Encode()
	body, ok := r.Body.([]byte)
	if !ok && r.Body != nil {
		var err error
		if body, err = json.Marshal(r.Body); err != nil {
			return nil, fmt.Errorf("write request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(req.Header, r.Header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if r.IdempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.IdempotencyKey)
	}
	req.Header.Set("User-Agent", "breakwater-cli/"+c.version)
	return req, nil
}

// path puts the tenant into a path. What is no name within a path would lead to
// another object, which may be the one above.
func (c *Client) path(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "T/"); ok {
		if !isSegment(c.tenant) {
			return "", Usagef("--tenant: %q must be an id, a uid, or - for all; see: breakwater tenants list", c.tenant)
		}
		path = "v1/tenants/" + url.PathEscape(c.tenant) + "/" + rest
	}
	for segment := range strings.SplitSeq(path, "/") {
		if !isSegment(segment) {
			return "", Usagef("%q must be an id or a name", segment)
		}
	}
	return path, nil
}

func isSegment(text string) bool { return text != "" && text != "." && text != ".." }

// Page is the answer to a list request.
type Page struct {
	Data []json.RawMessage `json:"data"`
	Next *string           `json:"next_cursor"`
}

// maxPage is the most that the server gives at once.
const maxPage = 250

// List follows cursors until limit items are there or the list ends. A page may
// be empty and not the last.
func (c *Client) List(ctx context.Context, path string, query url.Values, limit int) (Page, error) {
	var all Page
	for {
		if limit != Unpaged {
			query.Set("limit", strconv.Itoa(min(limit-len(all.Data), maxPage)))
		}
		var next Page
		if err := c.Call(ctx, Request{Method: http.MethodGet, Path: path, Query: query}, &next); err != nil {
			return Page{}, err
		}
		all.Data = append(all.Data, next.Data...)
		all.Next = next.Next
		if next.Next == nil || *next.Next == "" || len(all.Data) >= limit {
			return all, nil
		}
		query.Set("cursor", *next.Next)
	}
}

// Each runs do for every id and tells about failures as they come. It is
// partly done when some, but not all, failed.
func (s *Session) Each(ids []string, do func(id string) error) error {
	var last error
	failed := 0
	for _, id := range ids {
		if err := do(id); err != nil {
			if len(ids) == 1 {
				return err
			}
			s.TellFailure(id, err)
			last = err
			failed++
		}
	}
	switch failed {
	case 0:
		return nil
	case len(ids):
		return errors.Join(ErrSilent, last)
	default:
		return fmt.Errorf("%d of %d: %w", failed, len(ids), ErrPartly)
	}
}
