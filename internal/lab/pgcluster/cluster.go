// Package pgcluster starts a temporary PostgreSQL from the programs that are
// installed on the machine: for tests, and for the benchmark.
//
// Durability settings are the server's defaults, so what is seen is what
// production does. It knows nothing of Breakwater's schema, and it never
// touches a server that it did not start.
//
// A cluster never outlives its process, whatever ends it: a watchdog child
// holds the reading end of a pipe, and when the process goes away the child
// stops the server and removes its files.
package pgcluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Config says how the server is run. The zero value is usable.
type Config struct {
	// Parent is the folder in which the cluster's own folder is made. Everybody
	// must be able to enter it: the server may run as another user. Empty: /tmp.
	Parent string
	// Settings are added to the server's defaults, as name=value.
	Settings []string
}

// Cluster is a running temporary server. It listens on a unix socket only, so
// that clusters of parallel processes need no port of their own.
type Cluster struct {
	settings []string
	bin      string // folder of the server's programs
	root     string // holds everything but the socket
	socket   string // folder of the socket
	data     string
	attr     *syscall.SysProcAttr

	watchdog *exec.Cmd
	leash    io.Closer // the watchdog acts when this is closed
	server   *exec.Cmd
	exited   chan struct{} // closed when server has ended
}

// Start creates a cluster, starts it and waits until it answers. Without
// programs the error is ErrNoServer.
func Start(cfg Config) (*Cluster, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	attr, owner, err := unprivileged()
	if err != nil {
		return nil, err
	}
	c := &Cluster{settings: append([]string{"listen_addresses="}, cfg.Settings...), bin: bin, attr: attr}
	if err := c.makeFolders(cmp.Or(cfg.Parent, "/tmp"), owner); err != nil {
		return nil, errors.Join(err, c.removeFolders())
	}
	if err := c.create(); err != nil {
		return nil, errors.Join(err, c.removeFolders())
	}
	if err := c.run(); err != nil {
		c.Remove()
		return nil, err
	}
	return c, nil
}

// makeFolders makes two: paths of sockets end at 107 bytes, so the socket has a
// short one wherever the data is.
func (c *Cluster) makeFolders(parent string, owner *owner) error {
	for _, f := range []struct {
		path   *string
		parent string
	}{{&c.root, parent}, {&c.socket, "/tmp"}} {
		dir, err := os.MkdirTemp(f.parent, "bwpg")
		if err != nil {
			return fmt.Errorf("make cluster folder: %w", err)
		}
		*f.path = dir
		if owner == nil {
			continue
		}
		if err := os.Chown(dir, owner.uid, owner.gid); err != nil {
			return fmt.Errorf("hand the cluster folder to %s: %w", owner.name, err)
		}
	}
	c.data = filepath.Join(c.root, "data")
	return nil
}

func (c *Cluster) removeFolders() error {
	var errs []error
	for _, dir := range []string{c.root, c.socket} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// create fills the cluster's folder and posts the watchdog.
func (c *Cluster) create() error {
	initdb := c.command("initdb", "--pgdata", c.data, "--username", "breakwater", "--auth", "trust",
		"--encoding", "UTF8", "--no-locale", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return c.postWatchdog()
}

// watch waits for the end of its input, which comes when the process closes
// the pipe or dies. It then ends the server at once, waits for it to be gone,
// and removes the folders.
const watch = `
cat >/dev/null
if pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null); then
	kill -QUIT "$pid" 2>/dev/null
	for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
	kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1" "$2"`

func (c *Cluster) postWatchdog() error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make watchdog pipe: %w", err)
	}
	defer func() { _ = r.Close() }()
	c.watchdog = exec.Command("/bin/sh", "-c", watch, "sh", c.root, c.socket) //nolint:gosec,noctx // our own folders; it has to outlive every context
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
	log, err := os.OpenFile(c.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open server log: %w", err)
	}
	defer func() { _ = log.Close() }()
	args := []string{"-D", c.data, "-k", c.socket}
	for _, s := range c.settings {
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
	return c.awaitReady(3 * time.Minute)
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
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.DSN())
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// DSN returns the address of the cluster's maintenance database.
func (c *Cluster) DSN() string {
	return "postgres://breakwater@/postgres?sslmode=disable&port=5432&host=" + url.QueryEscape(c.socket)
}

// PID returns the id of the server's first process, the parent of all others.
func (c *Cluster) PID() int { return c.server.Process.Pid }

// Version returns what the server says of itself, such as "PostgreSQL 15.14".
func (c *Cluster) Version() string {
	out, err := c.command("postgres", "--version").Output()
	if err != nil {
		return "PostgreSQL"
	}
	words := strings.Fields(strings.ReplaceAll(string(out), "postgres (PostgreSQL)", "PostgreSQL"))
	return strings.Join(words[:min(len(words), 2)], " ")
}

// Stop shuts the server down cleanly; its data stays. Stopping a stopped
// server does nothing.
func (c *Cluster) Stop() { c.signal(syscall.SIGINT) }

// Crash ends the server and its backends at once: nothing more is written, and
// the next start has to recover from the log.
func (c *Cluster) Crash() { c.signal(syscall.SIGQUIT) }

// Restart starts a stopped or crashed server again on the same data.
func (c *Cluster) Restart() error {
	c.Stop()
	return c.run()
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

// Remove ends the server at once and removes its files.
func (c *Cluster) Remove() {
	_ = c.leash.Close()
	_ = c.watchdog.Wait()
}

// command prepares one of the server's programs. Its working folder is one
// that an unprivileged user can enter.
func (c *Cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, name), args...) //nolint:gosec,noctx // an installed program; its owner ends it
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
