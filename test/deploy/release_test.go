package deploy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/release"
)

var update = flag.Bool("update", false, "rewrite the rules in the chart")

const version = "v1.2.3-test"

// TestReleaseOfThisMachine makes a release, as its own program does for people,
// and tries out what is in it. Packages have a test of their own.
func TestReleaseOfThisMachine(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles the product")
	}
	const downloads = "https://downloads.example/breakwater/"
	dist, key := filepath.Join(t.TempDir(), "dist"), signKey(t)
	program := exec.Command("go", "run", "./internal/release/make", "-version", version, "-time", "1700000000", "-targets", "host",
		"-out", dist, "-downloads", downloads, "-sign-key", key)
	program.Dir = root
	if out, err := program.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made := contents(t, dist)
	base := fmt.Sprintf("breakwater_%s_%s_%s", version, release.Host().OS, release.Host().Arch)
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xzf", filepath.Join(dist, base+".tar.gz"), "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary := filepath.Join(dir, base, "breakwater")
	t.Run("checksums", func(t *testing.T) {
		t.Parallel()
		checkSums(t, made)
	})
	t.Run("signature", func(t *testing.T) {
		t.Parallel()
		checkSignature(t, dist, key)
	})
	t.Run("archive", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{
			"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "breakwater.example.yaml", "systemd/breakwater.service", "systemd/postgres.conf",
			"prometheus/breakwater.rules.yaml", "grafana/breakwater-dashboard.json", "man/breakwater.1", "man/breakwater-serve.1",
			"completions/breakwater.bash", "completions/_breakwater", "completions/breakwater.fish", "completions/breakwater.ps1",
		} {
			if info, err := os.Stat(filepath.Join(dir, base, name)); err != nil || info.Size() < 100 {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("formula", func(t *testing.T) {
		t.Parallel()
		text := string(made["breakwater.rb"])
		want := fmt.Sprintf("url %q\n      sha256 \"%x\"\n", downloads+base+".tar.gz", sha256.Sum256(made[base+".tar.gz"]))
		if strings.Count(text, "sha256 ") != 1 || !strings.Contains(text, want) {
			t.Errorf("the formula does not have %s\n%s", want, text)
		}
	})
	t.Run("bill of materials", func(t *testing.T) {
		t.Parallel()
		checkBill(t, made[base+".cdx.json"])
	})
	t.Run("binary", func(t *testing.T) {
		t.Parallel()
		serveAsInTheImage(t, binary)
	})
	t.Run("binary from another folder", func(t *testing.T) {
		t.Parallel()
		again := filepath.Join(t.TempDir(), "breakwater")
		cfg := release.Config{Root: copied(t), Version: version}
		if err := cfg.Compile(t.Context(), release.Host(), again); err != nil {
			t.Fatal(err)
		}
		first, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(again)
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("it is another one: %d bytes, then %d, %v", len(first), len(second), err)
		}
	})
}

func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if found[entry.Name()], err = os.ReadFile(filepath.Join(dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// copied is the source in another folder, without its history.
func copied(t *testing.T) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "elsewhere")
	for _, name := range []string{"cmd", "internal", "receiver", "go.mod", "go.sum"} {
		source := filepath.Join(root, name)
		info, err := os.Stat(source)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			err = os.CopyFS(filepath.Join(to, name), os.DirFS(source))
		} else {
			var content []byte
			if content, err = os.ReadFile(source); err == nil {
				err = os.WriteFile(filepath.Join(to, name), content, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// serveAsInTheImage runs the binary where there is nothing but what the image
// holds: no other program, no folder to write to but /data, and, if we may, no
// way out and no rights.
func serveAsInTheImage(t *testing.T, binary string) {
	t.Helper()
	out, err := exec.Command(binary, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "breakwater "+version+" ") {
		t.Fatalf("version: %v, %q", err, out)
	}
	image := t.TempDir()
	content, err := os.ReadFile(binary)
	data := filepath.Join(image, "data")
	err = errors.Join(err, os.Chmod(image, 0o755), os.Mkdir(data, 0o700), os.WriteFile(filepath.Join(image, "breakwater"), content, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	inside := func(ctx context.Context, environ []string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(image, "breakwater"), args...)
		cmd.Dir = data
		cmd.Env = append([]string{"BREAKWATER_DATA_DIR=" + data}, environ...)
		if os.Geteuid() == 0 {
			cmd.Path, cmd.Dir = "/breakwater", "/data"
			cmd.Env[0] = "BREAKWATER_DATA_DIR=/data"
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		}
		return cmd
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(data, 65532, 65532); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	server := inside(t.Context(), []string{"BREAKWATER_LISTEN=127.0.0.1:0"}, "serve", "--json")
	server.Stderr = &log
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var banner struct{ URL, Version string }
	if err := json.NewDecoder(stdout).Decode(&banner); err != nil {
		_ = server.Process.Kill()
		t.Fatalf("no banner: %v, %v\n%s", err, server.Wait(), &log)
	}
	environ := []string{"BREAKWATER_URL=" + banner.URL}
	ready, err := inside(t.Context(), environ, "health", "--ready").CombinedOutput()
	for limit := time.Now().Add(2 * time.Minute); err != nil && time.Now().Before(limit); { // until it has its leases
		time.Sleep(200 * time.Millisecond)
		ready, err = inside(t.Context(), environ, "health", "--ready").CombinedOutput()
	}
	if string(ready) != "ok\n" {
		t.Errorf("health: %v, %q", err, ready)
	}
	_ = server.Process.Signal(syscall.SIGTERM)
	_, _ = io.Copy(io.Discard, stdout)
	if err := server.Wait(); err != nil {
		t.Errorf("stop: %v\n%s", err, &log)
	}
}
