// Package mailer hands e-mails to the operator's SMTP server: over STARTTLS,
// over TLS from the first byte, or in the clear to a relay nearby.
//
// A session ends with its context, whatever the server does, and what the
// server says is bounded. Errors say whether another try makes sense. It queues
// and repeats nothing, and does not pass the address guard: the server is the
// operator's choice, not a stranger's, and often a neighbour.
package mailer

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"strings"
)

// The ways to protect the connection to the server.
const (
	StartTLS    = "starttls" // begins in the clear and must change to TLS before anything is sent
	ImplicitTLS = "implicit" // TLS from the first byte
	NoTLS       = "none"
)

const (
	defaultPort   = 587
	maxCredential = 1024
	maxFromName   = 100
)

// Config names the server. Errors of New name its fields as settings.
type Config struct {
	Host     string
	Port     int    // 0: 587; 1 to 65535
	Username string // empty: no authentication
	Password string
	From     string // name@domain, or Name <name@domain>
	TLS      string // empty: starttls

	RootCAs *x509.CertPool // nil: the system's authorities

	// Dial opens connections. nil: TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Mailer sends messages. It is safe for concurrent use; each message has a
// session of its own.
type Mailer struct {
	cfg  Config
	from *mail.Address
}

// New checks cfg, fills in defaults, and opens no connection.
func New(cfg Config) (*Mailer, error) {
	cfg.Port = cmp.Or(cfg.Port, defaultPort)
	cfg.TLS = cmp.Or(cfg.TLS, StartTLS)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	from, err := parseFrom(cfg.From)
	if err != nil {
		return nil, err
	}
	return &Mailer{cfg, from}, nil
}

func (cfg *Config) check() error {
	switch {
	case checkDomain(cfg.Host) != nil && net.ParseIP(cfg.Host) == nil:
		return errors.New("smtp.host must be a host name or an IP address")
	case cfg.Port < 1 || cfg.Port > 65535:
		return errors.New("smtp.port must be 1 to 65535")
	case cfg.TLS != StartTLS && cfg.TLS != ImplicitTLS && cfg.TLS != NoTLS:
		return errors.New("smtp.tls must be starttls, implicit or none")
	case cfg.Username == "" && cfg.Password != "":
		return errors.New("smtp.username must not be empty when smtp.password is given")
	case cfg.Username != "" && cfg.Password == "":
		return errors.New("smtp.password must not be empty when smtp.username is given")
	case badCredential(cfg.Username):
		return fmt.Errorf("smtp.username must be at most %d bytes without control characters", maxCredential)
	case badCredential(cfg.Password):
		return fmt.Errorf("smtp.password must be at most %d bytes without control characters", maxCredential)
	case cfg.Username != "" && cfg.TLS == NoTLS && !isThisMachine(cfg.Host):
		return errors.New("smtp.tls must not be none with smtp.username, unless smtp.host is localhost: the password would travel in the clear")
	}
	return nil
}

// parseFrom reads the sender: its address obeys the rules of recipients, and a
// name may stand before it.
func parseFrom(s string) (*mail.Address, error) {
	if s == "" {
		return nil, errors.New("smtp.from must not be empty")
	}
	if CheckAddress(s) == nil {
		return &mail.Address{Address: s}, nil
	}
	a, err := mail.ParseAddress(s)
	if err != nil {
		return nil, errors.New("smtp.from must have the form name@domain or Name <name@domain>")
	}
	if err := CheckAddress(a.Address); err != nil {
		return nil, fmt.Errorf("smtp.from: the address %w", err)
	}
	if a.Name != "" {
		if err := CheckLine(a.Name, maxFromName); err != nil {
			return nil, fmt.Errorf("smtp.from: the name %w", err)
		}
	}
	return a, nil
}

func badCredential(s string) bool {
	return len(s) > maxCredential || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// isThisMachine knows the same names as the library, which refuses to send a
// password in the clear to others.
func isThisMachine(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// domain is that of the sender: message ids and greetings belong to it.
func (m *Mailer) domain() string {
	_, domain, _ := strings.Cut(m.from.Address, "@")
	return domain
}
