// Package session is who a browser is logged in as: a sealed cookie that names an
// API key, or a portal link, with its times. It decides whether a session still
// holds and which form posts belong to it.
//
// It stores nothing, reads no clock, and knows neither pages nor keys: whether the
// key still lives is asked at every request by whoever serves it.
package session

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/portal"
)

// How long a session lasts: without a request, and at all.
const (
	Idle     = 12 * time.Hour
	Absolute = 7 * 24 * time.Hour

	// renewEvery is how old a cookie may get before an answer carries a new one.
	renewEvery = 5 * time.Minute
	// ahead is how far another node's clock may be ahead of this one's.
	ahead = time.Minute
)

// Errors of Open and Check.
var (
	ErrInvalid = errors.New("the session is not valid")
	ErrExpired = errors.New("the session has expired")
)

// Session is a login.
type Session struct {
	ID     [16]byte    `json:"id"`
	Key    [32]byte    `json:"key,omitzero"`  // hash of the API key; zero: a portal link
	Link   portal.Link `json:"link,omitzero"` // by which the visitor came; zero: with a key
	Issued time.Time   `json:"issued"`
	Seen   time.Time   `json:"seen"`
}

// New begins a session of a key.
func New(key [32]byte, now time.Time) Session {
	s := Session{Key: key, Issued: now.UTC(), Seen: now.UTC()}
	_, _ = rand.Read(s.ID[:]) // never fails
	return s
}

// NewPortal begins a session of a portal link, which ends with the link.
func NewPortal(link portal.Link, now time.Time) Session {
	s := New([32]byte{}, now)
	s.Link = link
	return s
}

// OfKey reports whether the session is that of an API key.
func (s *Session) OfKey() bool { return s.Key != [32]byte{} }

// Ends is when the session ends if nobody is heard of any more.
func (s *Session) Ends() time.Time {
	ends := s.Seen.Add(Idle)
	if most := s.Issued.Add(Absolute); most.Before(ends) {
		ends = most
	}
	if until := s.Link.Until; !until.IsZero() && until.Before(ends) {
		ends = until
	}
	return ends
}

// Check tells whether the session holds.
func (s *Session) Check(now time.Time) error {
	switch {
	case !s.OfKey() && (s.Link.Tenant == 0 || s.Link.Until.IsZero()), s.ID == [16]byte{}:
		return ErrInvalid
	case s.Seen.Before(s.Issued), s.Seen.After(now.Add(ahead)):
		return ErrInvalid
	case !now.Before(s.Ends()):
		return ErrExpired
	}
	return nil
}

// Touch notes a request. It reports whether the cookie must be written anew.
func (s *Session) Touch(now time.Time) bool {
	if now.Sub(s.Seen) < renewEvery {
		return false
	}
	s.Seen = now.UTC()
	return true
}

// FormToken is what every form of the session carries. It tells nothing about the
// cookie, and another session's does not fit.
func (s *Session) FormToken() string {
	mac := hmac.New(sha256.New, s.ID[:])
	mac.Write([]byte("form"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:18])
}

// Owns reports whether a form that was posted with this token is the session's.
func (s *Session) Owns(token string) bool {
	return hmac.Equal([]byte(token), []byte(s.FormToken()))
}

// Sealer keeps cookies from being read or made by others.
type Sealer interface {
	Seal(tenant, endpoint hook.ID, purpose string, plain []byte) (keyID string, sealed []byte, err error)
	Open(tenant, endpoint hook.ID, purpose string, sealed []byte) ([]byte, error)
}

const (
	purpose = "dashboard session"
	// maxCookie bounds what is looked at of a cookie.
	maxCookie = 1024
)

// Seal returns the value of the cookie.
func (s *Session) Seal(v Sealer) (string, error) {
	plain, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("encode session: %w", err)
	}
	_, sealed, err := v.Seal(0, 0, purpose, plain)
	if err != nil {
		return "", fmt.Errorf("seal session: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Open reads the value of a cookie and checks it.
func Open(v Sealer, cookie string, now time.Time) (s Session, err error) {
	if len(cookie) > maxCookie {
		return Session{}, ErrInvalid
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cookie)
	if err != nil {
		return Session{}, ErrInvalid
	}
	plain, err := v.Open(0, 0, purpose, sealed)
	if err != nil {
		return Session{}, ErrInvalid
	}
	if err := json.Unmarshal(plain, &s); err != nil {
		return Session{}, ErrInvalid
	}
	if err := s.Check(now); err != nil {
		return Session{}, err
	}
	return s, nil
}
