package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// place is a temporary folder and the processes that work in it. Neither
// outlives this process: a watchdog holds the reading end of a pipe, and when
// this process goes away, however that happens, it ends the others and removes
// the folder.
type place struct {
	program  []string
	environ  []string
	dir      string
	watchdog *exec.Cmd
	leash    io.Closer
	made     int // folders and logs so far
}

// watch is in the same process group as all subjects. SIGQUIT ends them at
// once; nobody in the group catches it. Postgres, which has a watchdog of its
// own, may take a moment longer.
const watch = `
trap '' QUIT
cat >/dev/null
kill -QUIT 0
for _ in $(seq 50); do sleep 0.1; rm -rf "$1" && break; done`

func newPlace(cfg *Config) (*place, error) {
	dir, err := os.MkdirTemp(cfg.Dir, "breakwater-bench-")
	if err != nil {
		return nil, fmt.Errorf("make folder for the data: %w", err)
	}
	// Postgres may run as another user, who has to get through here.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // holds made-up events only
		return nil, errors.Join(fmt.Errorf("open folder for the data: %w", err), os.RemoveAll(dir))
	}
	p := &place{program: cfg.Program, dir: dir}
	p.environ = slices.DeleteFunc(slices.Clone(cfg.Environ), func(kv string) bool {
		return strings.HasPrefix(kv, "BREAKWATER_")
	})
	r, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make watchdog pipe: %w", err), os.RemoveAll(dir))
	}
	defer func() { _ = r.Close() }()
	p.leash = w
	p.watchdog = exec.Command("/bin/sh", "-c", watch, "sh", dir) //nolint:gosec,noctx // our own folder; it has to outlive every context
	p.watchdog.Stdin = r
	p.watchdog.Dir = "/"
	p.watchdog.SysProcAttr = inGroup(0)
	if err := p.watchdog.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start watchdog: %w", err), w.Close(), os.RemoveAll(dir))
	}
	return p, nil
}

// close ends what is left and removes the folder.
func (p *place) close() {
	_ = p.leash.Close()
	_ = p.watchdog.Wait()
}

// folder makes a new folder.
func (p *place) folder() (string, error) {
	p.made++
	dir := filepath.Join(p.dir, strconv.Itoa(p.made))
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // holds made-up events only
		return "", fmt.Errorf("make folder for the data: %w", err)
	}
	return dir, nil
}

// child is one running subject.
type child struct {
	cmd    *exec.Cmd
	extra  []string // environment and
	args   []string // arguments, for a restart
	log    string   // file
	done   chan struct{}
	banner banner
}

// banner is what a subject says when it is up.
type banner struct {
	URL      string `json:"url"`
	AdminKey string `json:"admin_key"`
}

// startLimit is how long a subject may take to be up.
const startLimit = 2 * time.Minute

// start runs Breakwater with arguments and waits until it is up. extra is added
// to the environment.
func (p *place) start(ctx context.Context, extra []string, args ...string) (*child, error) {
	p.made++
	c := &child{
		extra: extra, args: args,
		log: filepath.Join(p.dir, strconv.Itoa(p.made)+".log"), done: make(chan struct{}),
	}
	log, err := os.Create(c.log)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	defer func() { _ = log.Close() }()
	args = append(slices.Clone(p.program[1:]), args...)
	c.cmd = exec.Command(p.program[0], args...) //nolint:gosec,noctx // our own program; its owner ends it
	c.cmd.Env = append(slices.Clone(p.environ), extra...)
	c.cmd.Dir = p.dir
	c.cmd.Stderr = log
	c.cmd.SysProcAttr = inGroup(p.watchdog.Process.Pid)
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.program[0], err)
	}
	if err := c.await(ctx, stdout); err != nil {
		c.kill()
		return nil, fmt.Errorf("start %s %s: %w\n%s", p.program[0], strings.Join(args, " "), err, c.logTail())
	}
	return c, nil
}

// await reads the banner, and goes on reading so that the pipe never fills.
func (c *child) await(ctx context.Context, stdout io.Reader) error {
	first := make(chan error, 1)
	go func() {
		defer close(c.done)
		in := bufio.NewReader(stdout)
		line, err := in.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &c.banner)
		} else if errors.Is(err, io.EOF) {
			err = errors.New("it ended at once")
		}
		first <- err
		_, _ = io.Copy(io.Discard, in)
		_ = c.cmd.Wait() // how it ended is of no interest
	}()
	select {
	case err := <-first:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(startLimit):
		return errors.New("it is not up yet")
	}
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends the process at once.
func (c *child) kill() { c.end(syscall.SIGKILL) }

// stop lets the process finish its work.
func (c *child) stop() { c.end(syscall.SIGTERM) }

func (c *child) end(sig syscall.Signal) {
	_ = c.cmd.Process.Signal(sig) // fails only when it has ended
	<-c.done
}

func (c *child) logTail() []byte {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return nil
	}
	return bytes.TrimSpace(text[max(0, len(text)-2048):])
}
