// Package program builds the product and runs it as processes of its own, as its
// users do. Tests that drive the real binary share it.
package program

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// What every server that is started here is told.
const (
	AdminKey      = "process-test-admin-key-0123456789"
	EncryptionKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

// Build builds the product into a folder and returns the path of the binary.
func Build(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "breakwater")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "github.com/breakwaterhq/breakwater/cmd/breakwater") //nolint:gosec // a folder that the test names
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return binary, nil
}

// Main builds the product for the tests of a package, runs them, and ends the
// process. binary is where they find its path.
func Main(tests func() int, binary *string) {
	dir, err := os.MkdirTemp("", "breakwater-test")
	if err != nil {
		panic(err)
	}
	if *binary, err = Build(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := tests()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// Options say how a server is started.
type Options struct {
	Binary      string
	Dir         string    // its data
	Listen      string    // host:port
	Args        []string  // after `serve` and what is common to all
	Env         []string  // beside ours
	Descriptors int       // how many the process may have; 0: as many as we
	Log         io.Writer // what it writes to stderr
}

// Process is a running server.
type Process struct {
	URL  string
	Cmd  *exec.Cmd
	Done chan error // gets the end of the process
}

// Serve starts a server and returns when it serves.
func Serve(o *Options) (*Process, error) {
	args := append([]string{
		"serve", "--json", "--listen", o.Listen, "--data-dir", o.Dir, "--allow-cidr", "127.0.0.0/8", "--log-format", "text",
	}, o.Args...)
	cmd := exec.Command(o.Binary, args...) //nolint:gosec,noctx // the product itself; whoever starts it ends it
	if o.Descriptors > 0 {
		limited := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, o.Descriptors)
		cmd = exec.Command("sh", append([]string{"-c", limited, o.Binary}, args...)...) //nolint:gosec,noctx // as above
	}
	cmd.Env = append(os.Environ(), "BREAKWATER_ADMIN_KEY="+AdminKey, "BREAKWATER_ENCRYPTION_KEY="+EncryptionKey)
	cmd.Env = append(cmd.Env, o.Env...)
	cmd.Stderr = o.Log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	var banner struct{ URL string }
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	go func() { done <- cmd.Wait() }()
	if err == nil {
		err = json.Unmarshal(line, &banner)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("%w, %w: %q", err, <-done, line)
	}
	return &Process{URL: banner.URL, Cmd: cmd, Done: done}, nil
}

// Sink is a running `breakwater sink`.
type Sink struct {
	URL string
	cmd *exec.Cmd
}

// StartSink starts a destination that misbehaves as told.
func StartSink(binary string, args ...string) (*Sink, error) {
	cmd := exec.Command(binary, append([]string{"sink", "--listen", "127.0.0.1:0"}, args...)...) //nolint:gosec,noctx // the product itself; Stop ends it
	stderr, err := cmd.StderrPipe()                                                              // its counts go to stdout
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	out := bufio.NewReader(stderr)
	line, err := out.ReadString('\n')
	_, address, found := strings.Cut(line, "http://")
	if err != nil || !found {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("sink did not start: %w, it said %q", err, line)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return &Sink{URL: "http://" + strings.TrimSuffix(strings.TrimSpace(address), "/"), cmd: cmd}, nil
}

// Stop ends the sink.
func (s *Sink) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Wait()
}
