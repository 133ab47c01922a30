// Package promtest gives tests Prometheus's own judge, promtool: of rules, of what
// rules do with given series, and of metrics as they are served.
//
// It starts no Prometheus and knows nothing of Breakwater.
package promtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Tool is promtool.
type Tool struct{ path string }

// runTime is far more than any run takes, on any machine.
const runTime = 10 * time.Minute

// Find returns promtool. Without one the test is skipped, or fails where CI=true
// says that nothing may be left out; with -short it is skipped, too.
func Find(t testing.TB) *Tool {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED with promtool with -short: starts processes")
	}
	path, err := exec.LookPath("promtool")
	if err == nil {
		return &Tool{path}
	}
	const how = "install it with scripts/install-promtool"
	if os.Getenv("CI") == "true" {
		t.Fatalf("promtool is required: %v; %s", err, how)
	}
	t.Skipf("NOT TESTED with promtool: %v; %s", err, how)
	return nil
}

// CheckRules returns what is wrong with a file of rules.
func (p *Tool) CheckRules(rules []byte) error {
	dir, err := os.MkdirTemp("", "promtest")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "rules.yml")
	if err := os.WriteFile(path, rules, 0o600); err != nil {
		return err
	}
	return p.run(nil, "check", "rules", path)
}

// TestRules returns what a file of rules does otherwise than tests expect. The tests
// name the file rules.yml.
func (p *Tool) TestRules(rules, tests []byte) error {
	dir, err := os.MkdirTemp("", "promtest")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, text := range map[string][]byte{"rules.yml": rules, "tests.yml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return p.run(nil, "test", "rules", filepath.Join(dir, "tests.yml"))
}

// CheckMetrics returns what is wrong with metrics as they are served.
func (p *Tool) CheckMetrics(text []byte) error { return p.run(text, "check", "metrics") }

func (p *Tool) run(stdin []byte, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, args...) //nolint:gosec // found on the path, asked by tests
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("run promtool: %w", err)
	}
	if err != nil {
		return fmt.Errorf("promtool %s: %w:\n%s", strings.Join(args[:2], " "), err, out)
	}
	return nil
}
