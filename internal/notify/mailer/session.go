package mailer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strconv"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

const (
	// MaxSession bounds a session without a deadline in its context.
	MaxSession = 2 * time.Minute

	connectTimeout = 10 * time.Second
	quitTimeout    = 2 * time.Second
	// maxAnswers bounds what the server may say in one session, TLS included: the
	// library reads answers into memory without a bound.
	maxAnswers = 256 << 10
	maxShown   = 200 // characters of an answer that are repeated
)

// Error is a failed step of a session. Its text holds no address of the network
// and no control character.
type Error struct {
	Step      string // "connect to the mail server", "recipient ops@example.com"
	Text      string
	Permanent bool // the server says that it would refuse again
	err       error
}

func (e *Error) Error() string { return e.Step + ": " + e.Text }
func (e *Error) Unwrap() error { return e.err }

// Send hands a message over for those recipients in to, in one transaction. The
// server may take it for some and not for others: what it said about those is in
// refused. err is nil when it took the message for at least one.
func (m *Mailer) Send(ctx context.Context, msg Message, to []string) (refused map[string]*Error, err error) {
	mail, err := m.compose(&msg)
	if err != nil {
		return nil, &Error{Step: "compose", Text: err.Error(), Permanent: true, err: err}
	}
	for _, address := range to {
		if err := CheckAddress(address); err != nil {
			return nil, &Error{Step: "recipient", Text: err.Error(), Permanent: true, err: err}
		}
	}
	ctx, cancel := context.WithTimeout(ctx, MaxSession)
	defer cancel()
	s := &session{mailer: m}
	// Closing is the only thing that ends a read of the library's, and it leaves
	// connections open on which the handshake or the authentication failed.
	defer s.close()
	if err := s.open(ctx); err != nil {
		return nil, explain(ctx, "connect to the mail server", err)
	}
	return s.transact(ctx, mail, to)
}

// session is one connection.
type session struct {
	mailer *Mailer
	conn   net.Conn
	client *smtp.Client
	stop   func() bool // does not close on the end of the context any more
}

func (s *session) open(ctx context.Context) error {
	// The library's own context for dialling ends when the session begins.
	client, err := s.mailer.newClient(func(_ context.Context, network, _ string) (net.Conn, error) { return s.dial(ctx, network) })
	if err != nil {
		return err
	}
	s.client, err = client.DialToSMTPClientWithContext(ctx)
	return err
}

// newClient returns the library's client for one session: it is not safe for
// more.
func (m *Mailer) newClient(dial gomail.DialContextFunc) (*gomail.Client, error) {
	policy := gomail.NoTLS // or dial has seen to it
	if m.cfg.TLS == StartTLS {
		policy = gomail.TLSMandatory
	}
	options := []gomail.Option{
		gomail.WithPort(m.cfg.Port), gomail.WithDialContextFunc(dial), gomail.WithTimeout(MaxSession),
		gomail.WithTLSPolicy(policy), gomail.WithTLSConfig(m.tlsConfig()), gomail.WithHELO(m.domain()),
		// Our addresses are ASCII: a relay must not look for a next one that knows more.
		gomail.WithoutSMTPUTF8(),
	}
	if m.cfg.Username != "" {
		// By name: left to choose, the library would not send a password over the TLS
		// that dial has made, of which it does not know.
		options = append(options,
			gomail.WithUsername(m.cfg.Username), gomail.WithPassword(m.cfg.Password),
			gomail.WithOpportunisticSMTPAuth(gomail.SMTPAuthSCRAMSHA256, gomail.SMTPAuthSCRAMSHA1,
				gomail.SMTPAuthPlain, gomail.SMTPAuthLogin, gomail.SMTPAuthCramMD5))
	}
	return gomail.NewClient(m.cfg.Host, options...)
}

func (m *Mailer) tlsConfig() *tls.Config {
	return &tls.Config{ServerName: m.cfg.Host, RootCAs: m.cfg.RootCAs, MinVersion: tls.VersionTLS12}
}

// dial opens a connection that ends with ctx.
func (s *session) dial(ctx context.Context, network string) (net.Conn, error) {
	m := s.mailer
	dialCtx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	raw, err := m.cfg.Dial(dialCtx, network, net.JoinHostPort(m.cfg.Host, strconv.Itoa(m.cfg.Port)))
	if err != nil {
		return nil, err
	}
	s.conn = &boundedConn{Conn: raw, left: maxAnswers}
	s.stop = context.AfterFunc(ctx, func() { raw.Close() })
	if m.cfg.TLS != ImplicitTLS {
		return s.conn, nil
	}
	secure := tls.Client(s.conn, m.tlsConfig())
	if err := secure.HandshakeContext(dialCtx); err != nil {
		return nil, err
	}
	return secure, nil
}

func (s *session) close() {
	if s.conn == nil {
		return
	}
	s.stop()
	s.conn.Close()
}

// boundedConn lets only so much in.
type boundedConn struct {
	net.Conn
	left int
}

var errTooMuch = errors.New("the mail server says too much")

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// transact sends one message over an open session.
func (s *session) transact(ctx context.Context, mail io.WriterTo, to []string) (map[string]*Error, error) {
	if err := s.client.Mail("<" + s.mailer.from.Address + ">"); err != nil {
		return nil, explain(ctx, "sender "+s.mailer.from.Address, err)
	}
	refused := map[string]*Error{}
	var last *Error
	for _, address := range to {
		err := s.client.Rcpt("<" + address + ">")
		if err == nil {
			continue
		}
		last = explain(ctx, "recipient "+address, err)
		if !isAnswer(err) {
			return nil, last // the connection is broken
		}
		refused[address] = last
	}
	if len(refused) == len(to) {
		return refused, last
	}
	if err := s.data(mail); err != nil {
		return nil, explain(ctx, "message", err)
	}
	s.quit()
	return refused, nil
}

func (s *session) data(mail io.WriterTo) error {
	w, err := s.client.Data()
	if err != nil {
		return err
	}
	// An early end must not look like the end of the message: the connection is
	// closed without the final dot.
	if _, err := mail.WriteTo(w); err != nil {
		return err
	}
	return w.Close()
}

// quit says goodbye. The server has the message: what it says now, or whether,
// changes nothing.
func (s *session) quit() {
	t := time.AfterFunc(quitTimeout, func() { s.conn.Close() })
	defer t.Stop()
	_ = s.client.Quit()
}

func isAnswer(err error) bool {
	var answer *textproto.Error
	return errors.As(err, &answer)
}

// explain turns an error into one for people. An answer of 5xx is final, by RFC
// 5321; whatever else goes wrong may be well at the next try.
func explain(ctx context.Context, step string, err error) *Error {
	e := &Error{Step: step, err: err}
	var (
		answer      *textproto.Error
		dns         *net.DNSError
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		op          *net.OpError
	)
	switch {
	case errors.As(err, &answer):
		e.Text = fmt.Sprintf("answered %d %s", answer.Code, shown(answer.Msg))
		e.Permanent = answer.Code >= 500 && answer.Code <= 599
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		e.Text = "no answer in time"
	case ctx.Err() != nil:
		e.Text, e.err = "interrupted", ctx.Err()
	case errors.As(err, &dns):
		e.Text = "its name cannot be resolved"
	case errors.As(err, &certificate):
		e.Text = "its certificate is not valid: " + shown(certificate.Err.Error())
	case errors.As(err, &authority):
		e.Text = "its certificate is not valid: " + shown(authority.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Text = "the connection was closed"
	case errors.As(err, &op):
		e.Text = shown(op.Err.Error()) // without the addresses
	default:
		e.Text = shown(err.Error())
	}
	return e
}

// shown makes one short line out of what somebody else wrote.
func shown(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)), " ")
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown-1]) + "…"
	}
	return s
}
