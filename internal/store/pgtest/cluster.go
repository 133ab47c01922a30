package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cluster is a running temporary server. It listens on a unix socket only, so
// that clusters of parallel test processes need no port of their own.
type Cluster struct {
	bin  string // folder of the server's programs
	root string // holds everything; also the folder of the socket
	data string
	attr *syscall.SysProcAttr

	watchdog *exec.Cmd
	leash    io.Closer // the watchdog acts when this is closed
	server   *exec.Cmd
	exited   chan struct{} // closed when server has ended
}

// settings of the server. fsync and synchronous_commit keep their defaults:
// on. The rest keeps a small machine quiet and lets tests open many pools.
var settings = []string{
	"listen_addresses=",
	"max_connections=200",
	"shared_buffers=64MB",
	"max_wal_size=256MB",
	"jit=off",
	"timezone=UTC",
	"log_min_messages=warning",
	"log_checkpoints=off",
}

// start creates a cluster, starts it and waits until it answers.
func start() (*Cluster, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	attr, owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("/tmp", "bwpg") // short: socket paths end at 107 bytes
	if err != nil {
		return nil, fmt.Errorf("make cluster folder: %w", err)
	}
	c := &Cluster{bin: bin, root: root, data: filepath.Join(root, "data"), attr: attr}
	if err := c.create(owner); err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	if err := c.run(); err != nil {
		c.remove()
		return nil, err
	}
	return c, nil
}

// create fills the cluster's folder and posts the watchdog.
func (c *Cluster) create(owner *owner) error {
	if owner != nil {
		if err := os.Chown(c.root, owner.uid, owner.gid); err != nil {
			return fmt.Errorf("hand the cluster folder to %s: %w", owner.name, err)
		}
	}
	initdb := c.command("initdb", "--pgdata", c.data, "--username", "breakwater", "--auth", "trust",
		"--encoding", "UTF8", "--no-locale", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return c.postWatchdog()
}

// watch waits for the end of its input, which comes when the test process
// closes the pipe or dies. It then ends the server at once, waits for it to be
// gone, and removes the folder.
const watch = `
cat >/dev/null
if pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null); then
	kill -QUIT "$pid" 2>/dev/null
	for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
	kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1"`

func (c *Cluster) postWatchdog() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make watchdog pipe: %w", err)
	}
	defer func() { _ = r.Close() }()
	c.watchdog = exec.Command("/bin/sh", "-c", watch, "sh", c.root)
	c.watchdog.SysProcAttr = c.attr
	c.watchdog.Dir = "/"
	c.watchdog.Stdin = r
	if err := c.watchdog.Start(); err != nil {
		return errors.Join(fmt.Errorf("start watchdog: %w", err), w.Close())
	}
	c.leash = w
	return nil
}

// run starts the server process and waits until it answers.
func (c *Cluster) run() error {
	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer func() { _ = log.Close() }()
	args := []string{"-D", c.data, "-k", c.root}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	server, exited := c.command("postgres", args...), make(chan struct{})
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	go func() {
		_ = server.Wait() // how it ended is of no interest; that it ended is
		close(exited)
	}()
	c.server, c.exited = server, exited
	return c.awaitReady(30 * time.Second)
}

// awaitReady polls until the server accepts connections.
func (c *Cluster) awaitReady(limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if c.ping() == nil {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("server ended during its start:\n%s", c.logTail())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("server did not answer within %v:\n%s", limit, c.logTail())
}

func (c *Cluster) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.DSN())
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// DSN returns the address of the cluster's maintenance database.
func (c *Cluster) DSN() string {
	return "postgres://breakwater@/postgres?sslmode=disable&port=5432&host=" + url.QueryEscape(c.root)
}

// Database returns the address of a new, empty database of this cluster.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	return server{dsn: c.DSN(), ours: true}.database(t)
}

// Stop shuts the server down cleanly; its data stays. Stopping a stopped
// server does nothing.
func (c *Cluster) Stop() { c.signal(syscall.SIGINT) }

// Crash ends the server and its backends at once: nothing more is written, and
// the next start has to recover from the log.
func (c *Cluster) Crash() { c.signal(syscall.SIGQUIT) }

// Restart starts a stopped or crashed server again on the same data.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.Stop()
	if err := c.run(); err != nil {
		t.Fatalf("restart PostgreSQL: %v", err)
	}
}

// signal sends sig and waits until the server has ended.
func (c *Cluster) signal(sig syscall.Signal) {
	select {
	case <-c.exited:
		return
	default:
	}
	_ = c.server.Process.Signal(sig) // fails only when it has just ended
	<-c.exited
}

// remove lets the watchdog clean up and waits for it.
func (c *Cluster) remove() {
	_ = c.leash.Close()
	_ = c.watchdog.Wait()
}

// command prepares one of the server's programs. Its working folder is one
// that an unprivileged user can enter.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...)
	cmd.SysProcAttr = c.attr
	cmd.Dir = c.root
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+c.root)
	return cmd
}

func (c *Cluster) logFile() string { return filepath.Join(c.root, "server.log") }

func (c *Cluster) logTail() []byte {
	text, err := os.ReadFile(c.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.TrimSpace(text[max(0, len(text)-4096):])
}

// findBinaries returns the folder of the newest server installed.
func findBinaries() (string, error) {
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/postgres", "/usr/pgsql-*/bin/postgres"} {
		match, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("look for PostgreSQL: %w", err)
		}
		found = append(found, match...)
	}
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return majorOf(a) - majorOf(b) })), nil
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errNoServer
}

// majorOf reads the version number in a path such as
// /usr/lib/postgresql/15/bin/postgres.
func majorOf(path string) int {
	digits := bytes.TrimLeftFunc([]byte(path), func(r rune) bool { return r < '0' || r > '9' })
	if end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	n, _ := strconv.Atoi(string(digits))
	return n
}

// owner is the unprivileged user the server runs as.
type owner struct {
	name     string
	uid, gid int
}

// unprivileged returns how to start children. They get a process group of
// their own, so that an interrupt at the terminal reaches only the test, and
// another user when we are root, whom the server refuses to serve.
func unprivileged() (*syscall.SysProcAttr, *owner, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return attr, nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, nil, fmt.Errorf("ids of user %s: %w", name, err)
		}
		attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return attr, &owner{name, int(uid), int(gid)}, nil
	}
	return nil, nil, errors.New("running as root and neither user postgres nor nobody exists")
}
