// Package openapi_test takes the OpenAPI document from the real binary and does with it
// what its readers do: a linter reads it, and clients in two languages are generated
// from it, compiled and used against the same server.
package openapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/program"
)

// patience is how long any one command may take: on a machine that does ten other
// things, compiling takes minutes.
const patience = 10 * time.Minute

var world struct {
	dir      string
	server   *program.Process
	sink     *program.Sink
	document string // the file that the served document is in
	log      program.Log
}

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "breakwater-openapi")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	world.dir = dir
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer stop()
	return m.Run()
}

// start starts a server and keeps its document.
func start() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	binary, err := program.Build(ctx, world.dir)
	if err != nil {
		return err
	}
	if world.sink, err = program.StartSink(binary); err != nil {
		return err
	}
	world.server, err = program.Serve(&program.Options{
		Binary: binary, Dir: filepath.Join(world.dir, "data"), Listen: "127.0.0.1:0", Log: &world.log,
	})
	if err != nil {
		world.sink.Stop()
		return fmt.Errorf("start server: %w\n%s", err, world.log.String())
	}
	doc, err := get(ctx, "/openapi.json")
	if err == nil {
		world.document = filepath.Join(world.dir, "openapi.json")
		err = os.WriteFile(world.document, doc, 0o600)
	}
	if err != nil {
		stop()
	}
	return err
}

func stop() {
	_ = world.server.Cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-world.server.Done:
	case <-time.After(time.Minute):
		_ = world.server.Cmd.Process.Kill()
	}
	world.sink.Stop()
}

// get reads a path of the server, without any client.
func get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, world.server.URL+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+program.AdminKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s = %s %s", path, resp.Status, body)
	}
	return body, err
}

// run runs a command in a folder and returns what it printed. wrong tells that it
// ended with another status than 0.
func run(t *testing.T, dir, name string, args ...string) (stdout, stderr string, wrong bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, &out, &errs, time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) {
		t.Fatalf("%s: %v\n%s", name, err, errs.String())
	}
	return out.String(), errs.String(), err != nil
}

// must runs a command that has to succeed.
func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	stdout, stderr, wrong := run(t, dir, name, args...)
	if wrong {
		t.Fatalf("%s %v failed\n%s%s", name, args, stdout, stderr)
	}
	return stdout
}

// copyFiles copies files of this folder.
func copyFiles(t *testing.T, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

var npm struct {
	once sync.Once
	dir  string
	why  string // it is not there
}

// node returns a folder with the packages of package.json, which are installed once.
// Without Node or the packages the test is skipped, or failed in CI and with
// BREAKWATER_REQUIRE_NODE=1.
func node(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	npm.once.Do(func() {
		for _, tool := range []string{"node", "npm"} {
			if _, err := exec.LookPath(tool); err != nil {
				npm.why = tool + " is not installed"
				return
			}
		}
		npm.dir = filepath.Join(world.dir, "npm")
		if err := os.Mkdir(npm.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		copyFiles(t, npm.dir, "package.json", "package-lock.json")
		if stdout, stderr, wrong := run(t, npm.dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"); wrong {
			npm.why = fmt.Sprintf("npm cannot install the packages:\n%s%s", stdout, stderr)
		}
	})
	if npm.why != "" {
		ci, _ := strconv.ParseBool(os.Getenv("CI"))
		if os.Getenv("BREAKWATER_REQUIRE_NODE") == "1" || ci {
			t.Fatalf("the document must be checked here, but %s", npm.why)
		}
		t.Skipf("NOT CHECKED: %s", npm.why)
	}
	return npm.dir
}

// tool is a program of an npm package.
func tool(dir, name string) string { return filepath.Join(dir, "node_modules", ".bin", name) }

// readDocument returns the served document.
func readDocument(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(world.document)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}
