package torture_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/test/program"
)

const (
	adminKey      = "torture-admin-key-0123456789abcdef"
	encryptionKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	// maxInFlight bounds what a server may have sent and not yet stored, and so
	// what may arrive again after a fault.
	maxInFlight = 32
	startLimit  = 2 * time.Minute // generous: the machine may be starved
)

// server is one `breakwater serve` that can be hurt and started again.
type server struct {
	name   string // in the User-Agent of what it sends
	binary string
	dir    string
	args   []string
	env    []string
	trace  *recorder // writes down what it does to its folder; nil: nobody does

	url    string
	log    string // file
	starts int
	proc   *os.Process
	gone   chan struct{} // closed when the process has ended
}

// source is the User-Agent of the present process.
func (s *server) source() string { return fmt.Sprintf("torture/%s.%d", s.name, s.starts) }

// launch starts the process and does not wait for it.
func (s *server) launch() (stdout io.ReadCloser, err error) {
	listen := strings.TrimPrefix(s.url, "http://") // publishers know where it is
	if listen == "" {
		listen = program.Address()
	}
	s.starts++
	s.log = s.dir + ".log"
	logFile, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	cmd := exec.Command(s.binary, append([]string{
		"serve", "--json", "--listen", listen, "--data-dir", s.dir, "--allow-cidr", "127.0.0.0/8", "--log-format", "text",
		"--dispatch-max-in-flight", fmt.Sprint(maxInFlight), "--egress-user-agent", s.source(),
	}, s.args...)...)
	cmd.Env = append(os.Environ(), "BREAKWATER_ADMIN_KEY="+adminKey, "BREAKWATER_ENCRYPTION_KEY="+encryptionKey)
	cmd.Env = append(cmd.Env, s.env...)
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	cmd.Stdout, cmd.Stderr = write, logFile
	gone := make(chan struct{})
	if s.trace != nil {
		err = s.trace.start(cmd, s.dir, gone)
	} else if err = cmd.Start(); err == nil {
		go func() {
			_ = cmd.Wait()
			close(gone)
		}()
	}
	if err != nil {
		return nil, errors.Join(err, read.Close())
	}
	s.proc, s.gone = cmd.Process, gone
	return read, nil
}

// start runs the process and returns when it serves. Like a supervisor it tries
// again when someone else has the address for a moment.
func (s *server) start() (err error) {
	for deadline := time.Now().Add(startLimit); ; time.Sleep(200 * time.Millisecond) {
		err = s.startOnce()
		if err == nil || !strings.Contains(err.Error(), "address already in use") || time.Now().After(deadline) {
			return err
		}
	}
}

func (s *server) startOnce() error {
	stdout, err := s.launch()
	if err != nil {
		return err
	}
	line := make(chan []byte, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadBytes('\n')
		line <- text
		_, _ = io.Copy(io.Discard, stdout)
		_ = stdout.Close()
	}()
	var banner struct{ URL string }
	select {
	case text := <-line:
		if json.Unmarshal(text, &banner) != nil || banner.URL == "" {
			s.kill()
			return fmt.Errorf("%s did not start: %s", s.name, s.lastLines(3))
		}
	case <-time.After(startLimit):
		s.kill()
		return fmt.Errorf("%s did not start within %v: %s", s.name, startLimit, s.lastLines(3))
	}
	if s.url == "" {
		s.url = banner.URL
	}
	return nil
}

// startAndKill kills the process in the middle of its start.
func (s *server) startAndKill(after time.Duration) error {
	stdout, err := s.launch()
	if err != nil {
		return err
	}
	defer stdout.Close()
	time.Sleep(after)
	s.kill()
	return nil
}

func (s *server) signal(sig os.Signal) {
	if s.proc != nil {
		_ = s.proc.Signal(sig)
	}
}

// kill ends the process as a crash would.
func (s *server) kill() {
	if s.proc == nil {
		return
	}
	s.signal(syscall.SIGKILL)
	<-s.gone
	s.proc = nil
}

// died reports whether the process ended by itself.
func (s *server) died() bool {
	select {
	case <-s.gone:
		return s.proc != nil
	default:
		return false
	}
}

func (s *server) lastLines(n int) string {
	data, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// newServer returns a server that is ended with the test. Its folder does not
// exist yet.
func newServer(t *testing.T, name, binary, dir string, args ...string) *server {
	t.Helper()
	s := &server{name: name, binary: binary, dir: dir, args: args}
	t.Cleanup(func() {
		s.signal(syscall.SIGCONT)
		s.kill()
		if _, err := os.Stat(s.log); t.Failed() && err == nil {
			t.Logf("log of %s:\n%s", s.name, s.lastLines(25))
		}
	})
	return s
}

var client = &http.Client{
	Timeout:   20 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// errAnswer is an answer that was not 2xx.
type errAnswer struct {
	status int
	body   string
}

func (e *errAnswer) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// call makes one API request and decodes the answer into out.
func call(ctx context.Context, method, url string, body []byte, out any, header ...string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return &errAnswer{res.StatusCode, string(data)}
	}
	return json.Unmarshal(data, out)
}

const tenant = "/v1/tenants/default"
