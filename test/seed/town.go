package seed

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Town is where all destinations of the story live: a proxy that deliveries go
// through, and behind it one TLS server that answers for every host. So endpoints can
// have the addresses that endpoints have, and nothing leaves the machine.
type Town struct {
	Proxy  string // URL
	CAFile string

	listener net.Listener
	servers  []*http.Server

	mu    sync.Mutex
	moods map[string]Mood // by host
	free  map[string]time.Time
	rng   *mathrand.Rand
}

// Mood is how a host answers.
type Mood struct {
	Status  int           // 0: 200
	Rejects float64       // share of 422
	Pace    time.Duration // least time between two that are accepted, others get 429
	Took    time.Duration
}

// OpenTown starts the town. Files go into dir.
func OpenTown(ctx context.Context, dir string) (*Town, error) {
	t := &Town{moods: map[string]Mood{}, free: map[string]time.Time{}, rng: mathrand.New(mathrand.NewPCG(5, 6))}
	_, all := cast()
	for _, d := range all {
		m := Mood{Took: d.took}
		switch d.plot {
		case outage:
			m.Status = http.StatusServiceUnavailable
		case throttled:
			m.Pace = 650 * time.Millisecond
		case rejecting:
			m.Rejects = 0.12
		case gone:
			m.Status = http.StatusGone
		case calm, draining, paused: // it answers
		}
		t.moods[host(d.url)] = m
	}
	cert, err := t.certificate(dir)
	if err != nil {
		return nil, err
	}
	inner, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t.listener = inner
	houses := &http.Server{Handler: http.HandlerFunc(t.answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = houses.Serve(tls.NewListener(inner, &tls.Config{Certificates: []tls.Certificate{cert}})) }()
	outer, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	gate := &http.Server{Handler: http.HandlerFunc(t.connect), ReadHeaderTimeout: time.Minute}
	go func() { _ = gate.Serve(outer) }()
	t.Proxy, t.servers = "http://"+outer.Addr().String(), []*http.Server{houses, gate}
	return t, nil
}

// Close ends the town.
func (t *Town) Close() {
	for _, s := range t.servers {
		_ = s.Close()
	}
}

// Tell changes the mood of a host, and returns the one it was in.
func (t *Town) Tell(host string, m Mood) Mood {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.moods[host]
	t.moods[host] = m
	return was
}

func host(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// connect leads every tunnel to the one server.
func (t *Town) connect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "only tunnels", http.StatusMethodNotAllowed)
		return
	}
	out, err := new(net.Dialer).DialContext(r.Context(), "tcp", t.listener.Addr().String())
	if err != nil {
		http.Error(w, "closed", http.StatusBadGateway)
		return
	}
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = out.Close()
		return
	}
	_, _ = io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n")
	go pipe(out, in, buffered)
	go pipe(in, out, nil)
}

// pipe copies until one side ends, then ends both.
func pipe(to, from net.Conn, early *bufio.ReadWriter) {
	var source io.Reader = from
	if early != nil {
		source = early
	}
	_, _ = io.Copy(to, source)
	_ = to.Close()
	_ = from.Close()
}

// answer is what a destination says.
func (t *Town) answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	t.mu.Lock()
	m := t.moods[r.Host]
	status := m.Status
	if m.Pace > 0 {
		if now := time.Now(); now.Before(t.free[r.Host]) {
			status = http.StatusTooManyRequests
		} else {
			t.free[r.Host] = now.Add(m.Pace)
		}
	}
	rejected := m.Rejects > 0 && t.rng.Float64() < m.Rejects
	t.mu.Unlock()
	if rejected {
		status = http.StatusUnprocessableEntity
	}
	if status == 0 {
		status = http.StatusOK
	}
	if status < 400 {
		time.Sleep(m.Took)
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "30")
	}
	body := answers[status].body
	if body == "" {
		body = fmt.Sprintf(`{"error":%q}`, http.StatusText(status))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Server", "nginx/1.25.4")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// certificate makes one for all hosts and writes it where the server finds it.
func (t *Town) certificate(dir string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	plan := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "town"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for name := range t.moods {
		plan.DNSNames = append(plan.DNSNames, name)
	}
	der, err := x509.CreateCertificate(rand.Reader, plan, plan, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	t.CAFile = filepath.Join(dir, "town.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(t.CAFile, text, 0o600); err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
