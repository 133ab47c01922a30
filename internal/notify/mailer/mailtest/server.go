// Package mailtest is an SMTP server for tests: it speaks STARTTLS, TLS from the
// first byte and AUTH, keeps what it is sent, and misbehaves on demand. It relays
// nothing.
package mailtest

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
)

// Hang and Drop are answers that are none: the server says nothing more, or
// closes the connection.
const (
	Hang = "hang"
	Drop = "drop"
)

// Options say what the server offers. The zero value is a relay in the clear
// that takes everything.
type Options struct {
	TLS      *tls.Config // offers STARTTLS; nil: no TLS at all
	Implicit bool        // TLS from the first byte instead
	Username string      // wants AUTH with this name and Password before MAIL
	Password string
	// Answer replaces the answer to a command; "" leaves it. The greeting is asked
	// for as "CONNECT", the end of a message as "DATA END". It is called once at a
	// time. May be nil.
	Answer func(command string) string
}

// Mail is a message that was accepted.
type Mail struct {
	From string
	To   []string
	Data string // with line ends of \n
	TLS  bool
	User string
}

// Server is a running server.
type Server struct {
	o  Options
	mu sync.Mutex

	mails    []Mail
	commands []string
	sessions int
}

// New returns a server that serves the connections it is handed.
func New(o Options) *Server { return &Server{o: o} }

// Start serves on a port of the loopback until the test ends, and returns the
// port.
func Start(t testing.TB, o Options) (s *Server, port int) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = New(o)
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			wg.Go(func() { s.Serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s, listener.Addr().(*net.TCPAddr).Port
}

// Mails returns what was accepted so far.
func (s *Server) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Mail(nil), s.mails...)
}

// Commands returns every command of all sessions, credentials left out.
func (s *Server) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}

// Sessions returns how many connections there were, and so how many tries.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

// Serve speaks with one client until the connection ends.
func (s *Server) Serve(conn net.Conn) {
	s.mu.Lock()
	s.sessions++
	s.mu.Unlock()
	defer conn.Close()
	c := &session{s: s}
	c.use(conn)
	if s.o.Implicit {
		c.secure()
	}
	if !c.say("CONNECT", "220 mailtest ready") {
		return
	}
	for {
		line, err := c.in.ReadLine()
		if err != nil || !c.command(line) {
			return
		}
	}
}

type session struct {
	s    *Server
	conn net.Conn
	in   *textproto.Reader
	tls  bool
	user string
	mail Mail
}

func (c *session) use(conn net.Conn) {
	c.conn, c.in = conn, textproto.NewReader(bufio.NewReader(conn))
}

func (c *session) secure() {
	c.use(tls.Server(c.conn, c.s.o.TLS))
	c.tls = true
}

// answer asks what to say to a command.
func (c *session) answer(command, usual string) string {
	if c.s.o.Answer == nil {
		return usual
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if other := c.s.o.Answer(command); other != "" {
		return other
	}
	return usual
}

// say answers a command; false ends the session.
func (c *session) say(command, usual string) bool { return c.write(c.answer(command, usual)) }

func (c *session) write(answer string) bool {
	switch answer {
	case Hang:
		_, _ = io.Copy(io.Discard, c.conn) // until the client gives up
		return false
	case Drop:
		return false
	}
	_, err := io.WriteString(c.conn, strings.ReplaceAll(answer, "\n", "\r\n")+"\r\n")
	return err == nil
}

func (c *session) command(line string) bool {
	verb, arg, _ := strings.Cut(line, " ")
	verb = strings.ToUpper(verb)
	if verb == "AUTH" {
		return c.auth(arg)
	}
	c.s.mu.Lock()
	c.s.commands = append(c.s.commands, line)
	c.s.mu.Unlock()
	switch verb {
	case "EHLO", "HELO":
		return c.say(line, c.features())
	case "STARTTLS":
		if !c.say(line, "220 go ahead") {
			return false
		}
		c.secure()
		return true
	case "MAIL":
		if c.s.o.Username != "" && c.user == "" {
			return c.say(line, "530 authentication required")
		}
		c.mail = Mail{From: path(arg), TLS: c.tls, User: c.user}
		return c.say(line, "250 ok")
	case "RCPT":
		return c.recipient(line, arg)
	case "DATA":
		return c.data(line)
	case "QUIT":
		c.say(line, "221 bye")
		return false
	case "NOOP", "RSET":
		return c.say(line, "250 ok")
	default:
		return c.say(line, "502 not implemented")
	}
}

func (c *session) features() string {
	lines := []string{"mailtest", "8BITMIME", "SMTPUTF8"}
	if c.s.o.TLS != nil && !c.tls {
		lines = append(lines, "STARTTLS")
	}
	if c.s.o.Username != "" {
		lines = append(lines, "AUTH PLAIN LOGIN")
	}
	lines = append(lines, "SIZE 1000000")
	for i := range lines {
		sep := "-"
		if i == len(lines)-1 {
			sep = " "
		}
		lines[i] = "250" + sep + lines[i]
	}
	return strings.Join(lines, "\n")
}

func (c *session) auth(arg string) bool {
	mechanism, initial, _ := strings.Cut(arg, " ")
	if mechanism != "PLAIN" {
		return c.say("AUTH", "504 unknown mechanism")
	}
	text, err := base64.StdEncoding.DecodeString(initial)
	parts := strings.Split(string(text), "\x00")
	if err != nil || len(parts) != 3 || parts[1] != c.s.o.Username || parts[2] != c.s.o.Password {
		return c.say("AUTH", "535 5.7.8 wrong name or password")
	}
	c.user = parts[1]
	return c.say("AUTH", "235 welcome")
}

func (c *session) recipient(line, arg string) bool {
	answer := c.answer(line, "250 ok")
	if strings.HasPrefix(answer, "2") {
		c.mail.To = append(c.mail.To, path(arg))
	}
	return c.write(answer)
}

func (c *session) data(line string) bool {
	if len(c.mail.To) == 0 {
		return c.say(line, "503 no recipient")
	}
	answer := c.answer(line, "354 go on")
	if !c.write(answer) {
		return false
	}
	if !strings.HasPrefix(answer, "354") {
		return true
	}
	body, err := c.in.ReadDotBytes()
	if err != nil {
		return false
	}
	answer = c.answer("DATA END", "250 taken")
	if strings.HasPrefix(answer, "2") {
		c.mail.Data = string(body)
		c.s.mu.Lock()
		c.s.mails = append(c.s.mails, c.mail)
		c.s.mu.Unlock()
	}
	return c.write(answer)
}

// path takes the address out of FROM:<a@b> and TO:<a@b>, parameters left out.
func path(arg string) string {
	_, rest, _ := strings.Cut(arg, "<")
	address, _, _ := strings.Cut(rest, ">")
	return address
}
