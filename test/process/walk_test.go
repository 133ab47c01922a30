package process_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The walks are what people do in their first minutes, command by command, in a
// folder that was empty. The commands are those of the documentation; only the
// ports are others.

// walker is a person at a shell.
type walker struct {
	t   *testing.T
	dir string
	env []string
}

// walk begins in an empty folder, with nothing of ours in the environment.
func walk(t *testing.T) *walker {
	t.Helper()
	w := &walker{t: t, dir: t.TempDir()}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "BREAKWATER_") {
			w.env = append(w.env, kv)
		}
	}
	w.env = append(w.env, "PATH="+filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"), "XDG_CONFIG_HOME="+filepath.Join(w.dir, "config"))
	return w
}

// with is the same person with more in the environment.
func (w *walker) with(env ...string) *walker {
	return &walker{t: w.t, dir: w.dir, env: append(slices.Clip(w.env), env...)}
}

// terminal is a command that runs until it is ended, in a terminal of its own.
type terminal struct {
	w              *walker
	name           string
	cmd            *exec.Cmd
	stdout, stderr *tail
	done           chan error
}

// open starts a command in another terminal.
func (w *walker) open(args ...string) *terminal {
	w.t.Helper()
	p := &terminal{w: w, name: strings.Join(args, " "), stdout: &tail{}, stderr: &tail{}, done: make(chan error, 1)}
	p.cmd = exec.Command(binary, args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = w.dir, w.env, p.stdout, p.stderr
	if err := p.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	w.t.Cleanup(func() {
		if p.done != nil {
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		if w.t.Failed() {
			w.t.Logf("%s wrote:\n%s\nand to stderr:\n%s", p.name, p.stdout, p.stderr)
		}
	})
	return p
}

// end presses Ctrl-C and returns the exit code.
func (p *terminal) end() int {
	p.w.t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGINT)
	select {
	case err := <-p.done:
		p.done = nil
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode()
		}
		return 0
	case <-time.After(3 * time.Minute):
		p.w.t.Fatalf("%s does not end", p.name)
		return 0
	}
}

// shows waits until a stream has a match and returns it with its groups.
func (p *terminal) shows(from *tail, pattern string) []string {
	p.w.t.Helper()
	what := regexp.MustCompile(`(?m)` + pattern)
	var found []string
	eventually(p.w.t, time.Minute, p.name+" shows "+pattern, func() bool {
		found = what.FindStringSubmatch(from.String())
		if found == nil && p.over() {
			p.w.t.Fatalf("%s has ended and never showed %s", p.name, pattern)
		}
		return found != nil
	})
	return found
}

// over reports whether the command has ended by itself.
func (p *terminal) over() bool {
	select {
	case err := <-p.done:
		p.done <- err
		return true
	default:
		return false
	}
}

// run runs a command that has to end with the code, and returns what it wrote to
// stdout and to stderr.
func (w *walker) run(code int, args ...string) (stdout, stderr string) {
	w.t.Helper()
	return w.finish(code, exec.CommandContext(w.t.Context(), binary, args...))
}

// shell runs a line of a shell that has to work.
func (w *walker) shell(line string) string {
	w.t.Helper()
	stdout, _ := w.finish(0, exec.CommandContext(w.t.Context(), "sh", "-c", line))
	return stdout
}

func (w *walker) finish(code int, cmd *exec.Cmd) (stdout, stderr string) {
	w.t.Helper()
	var out, errOut bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, w.env, &out, &errOut
	err := cmd.Run()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		w.t.Fatalf("%q: %v, want exit %d\n%s%s", cmd.Args, err, code, &out, &errOut)
	}
	return out.String(), errOut.String()
}

// match fails the test unless a text matches, and returns the groups.
func match(t *testing.T, text, pattern string) []string {
	t.Helper()
	found := regexp.MustCompile(`(?m)` + pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("want %s in:\n%s", pattern, text)
	}
	return found
}

// document reads what --json has printed.
func document[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// serveDev starts the server as a newcomer does, and waits until it works. The walker
// that is returned talks to it.
func (w *walker) serveDev(args ...string) (*walker, *terminal, string) {
	w.t.Helper()
	server := w.open(append([]string{"serve", "--dev", "--listen", "127.0.0.1:0"}, args...)...)
	server.shows(server.stdout, `^try: `)
	url := match(w.t, server.stdout.String(), `listening on (http://127\.0\.0\.1:\d+)$`)[1]
	client := w.with("BREAKWATER_URL=" + url)
	eventually(w.t, time.Minute, "the server is ready", func() bool {
		cmd := exec.CommandContext(w.t.Context(), binary, "health", "--ready")
		cmd.Dir, cmd.Env = client.dir, client.env
		return cmd.Run() == nil
	})
	return client, server, url
}

// sink starts a sink and returns where it listens.
func (w *walker) sink() (*terminal, string) {
	w.t.Helper()
	sink := w.open("sink", "--listen", "127.0.0.1:0")
	return sink, sink.shows(sink.stderr, `^sink listening on (http://127\.0\.0\.1:\d+)/$`)[1]
}

// TestWalkOfANewUser: from nothing to a first delivery, a failure and its retry, with
// nothing but the binary.
func TestWalkOfANewUser(t *testing.T) {
	t.Parallel()
	began := time.Now()
	// 1. The server says where it is, which key it made, and what to try.
	w, server, url := walk(t).serveDev()
	match(t, server.stdout.String(), `^dashboard `+regexp.QuoteMeta(url)+`/ui$`)
	match(t, server.stdout.String(), `^admin key bw_[0-9A-Za-z]{51} \(shown once, kept in breakwater-data/admin\.key\)$`)
	match(t, server.stdout.String(), `^try: breakwater sink, then breakwater endpoints create http://127\.0\.0\.1:9000/$`)
	// 2. A second and a third terminal.
	sink, to := w.sink()
	created, _ := w.run(0, "endpoints", "create", to+"/", "--types", "order.*")
	match(t, created, `\bep_[0-9a-z]{13}\b`)
	secret := match(t, created, `\bwhsec_\S+`)[0]
	w.shell(`curl -sS -f -d '{"secrets":["` + secret + `"]}' ` + to + `/_sink`) // it looks at signatures from now on
	// 3. A first event, and one that meets a failure.
	sent, _ := w.run(0, "send", "order.paid", "-d", `{"order":42}`)
	first := match(t, sent, `^(evt_[0-9a-z]{13}) accepted, 1 delivery$`)[1]
	sink.shows(sink.stdout, ` 200 "/" order\.paid `+first+` signature ok`)
	if took := time.Since(began); timesJudged() && took > time.Minute {
		t.Errorf("the first delivery took %v, want less than a minute", took)
	}
	second := w.sendIntoFailure(sink, url, to)
	// 4. What happened can be watched, and is explained.
	watching, opened := w.open("tail", "-f"), time.Now()
	failed := regexp.MustCompile(`(?m) order\.paid  503  \d+ms  #1  (dlv_[0-9a-z]{13})  next \d\d:\d\d:\d\d$`)
	eventually(t, 3*time.Minute, "tail -f shows a 503 with its next time, then 200", func() bool {
		text := watching.stdout.String()
		if line := failed.FindStringSubmatch(text); line != nil {
			_, after, _ := strings.Cut(text, line[0])
			if regexp.MustCompile(`(?m) 200  \d+ms  #\d+  ` + line[1] + `$`).MatchString(after) {
				return true
			}
		}
		// A stream leaves out what is committed seconds late, as on a machine that has
		// no time; who looks again sees it.
		if !timesJudged() && time.Since(opened) > 2*time.Minute {
			watching.end()
			watching, opened = w.open("tail", "-f"), time.Now()
		}
		return false
	})
	if code := watching.end(); code != 130 {
		t.Errorf("tail -f ended with %d after Ctrl-C, want 130", code)
	}
	story, _ := w.run(0, "inspect", second)
	match(t, story, `^  #1 first \S+ 503 unavailable after \d+ms, lane closed .*; waits \S+, drawn from up to 30s for retry 1$`)
	if failures := strings.Count(story, ": 503 "); failures == 0 || failures != strings.Count(story, "; waits ") {
		t.Errorf("not every wait is explained:\n%s", story)
	}
	match(t, story, `^  #\d+ \w+ \S+ 200 ok after `)
	match(t, story, `^  delivered `)
	totals := document[sinkReport](t, w.shell("curl -sS "+to+"/_sink"))
	if totals.UniqueIDs < 2 || totals.Dup != 0 || totals.BadSig != 0 {
		t.Errorf("the sink has seen %+v, want every event, none twice, all signed", totals)
	}
	if code := sink.end(); code != 0 {
		t.Errorf("the sink ended with %d", code)
	}
	match(t, sink.stdout.String(), `^total \d+ ok \d+ fail \d+ dup 0 badsig 0 unsigned 0 `)
	// 5. A restart forgets nothing.
	if code := server.end(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
	w, server, _ = w.serveDev()
	if strings.Contains(server.stdout.String(), "admin key") {
		t.Errorf("the key is shown again:\n%s", server.stdout)
	}
	again, _ := w.run(0, "inspect", second)
	if again != story {
		t.Errorf("after a restart the story is\n%s, it was\n%s", again, story)
	}
}

// sendIntoFailure makes the sink fail for five seconds and sends an event by HTTP that
// meets it. A machine that has no time may let the five seconds pass; then it is done
// again.
func (w *walker) sendIntoFailure(sink *terminal, url, to string) string {
	w.t.Helper()
	for range 20 {
		w.shell(`curl -sS -f -d '{"fail":503,"for":"5s"}' ` + to + `/_sink`)
		answer := w.shell(`curl -sS -w ' %{http_code}' -H "Authorization: Bearer $(cat breakwater-data/admin.key)" ` +
			`-d '{"type":"order.paid","payload":{"order":43}}' ` + url + `/v1/tenants/default/events`)
		id := match(w.t, answer, `"id":"(evt_\w+)"[^"]*"deliveries":1}\s+202$`)[1]
		if sink.shows(sink.stdout, ` (200|503) "/" order\.paid `+id)[1] == "503" {
			return id
		}
	}
	w.t.Fatal("no event met the failure")
	return ""
}
