package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// call posts to the API of the first node and returns one field of the answer.
func (st *site) call(ctx context.Context, path string, body any, field string) (string, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("encode request: %w", err)
	}
	url := st.nodes[0].banner.URL + path
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return "", fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+st.admin)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("post to %s: %w", path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", fmt.Errorf("read answer of %s: %w", path, err)
	}
	fields := map[string]any{}
	if answer.StatusCode/100 != 2 || json.Unmarshal(text, &fields) != nil {
		return "", fmt.Errorf("post to %s: status %d: %s", path, answer.StatusCode, text)
	}
	value, _ := fields[field].(string)
	return value, nil
}

// profiling returns the arguments that switch the profiler on, when profiles
// are wanted, on a port that is free.
func (b *Bench) profiling(ctx context.Context, st *site) ([]string, error) {
	if b.cfg.ProfileDir == "" {
		return nil, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a port for the profiler: %w", err)
	}
	st.profiler = listener.Addr().String()
	return []string{"--pprof-listen", st.profiler}, listener.Close()
}

// profile takes a CPU profile for some time and writes it to a file.
func (b *Bench) profile(ctx context.Context, st *site, name string, length time.Duration) error {
	seconds := strconv.Itoa(max(int(length/time.Second), 1))
	url := "http://" + st.profiler + "/debug/pprof/profile?seconds=" + seconds
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("take profile: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("take profile: status %d: %w", answer.StatusCode, err)
	}
	if err := os.MkdirAll(b.cfg.ProfileDir, 0o755); err != nil { //nolint:gosec // no secrets in it
		return fmt.Errorf("write profile: %w", err)
	}
	path := filepath.Join(b.cfg.ProfileDir, strings.ReplaceAll(name, "/", "-"))
	if err := os.WriteFile(path, raw, 0o644); err != nil { //nolint:gosec // no secrets in it
		return fmt.Errorf("write profile: %w", err)
	}
	return nil
}
