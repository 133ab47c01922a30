package egress_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
)

// BenchmarkSend measures one attempt on a kept connection against a server
// that does next to nothing, so that what shows is the client.
func BenchmarkSend(b *testing.B) {
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	e := newEvil(b, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			for {
				line, err := r.ReadSlice('\n')
				if err != nil {
					return
				}
				if len(line) == 2 {
					break
				}
			}
			if _, err := r.Discard(256); err != nil {
				return
			}
			if _, err := c.Write(answer); err != nil && !errors.Is(err, io.EOF) {
				return
			}
		}
	})
	client := newClient(b, nil)
	req := &egress.Request{
		URL:  e.url(),
		Body: make([]byte, 256),
		Header: http.Header{
			"Content-Type": {"application/json"}, "Webhook-Id": {"evt_1"}, "Webhook-Timestamp": {"1767225600"},
			"Webhook-Signature": {"v1,qbNG4se8NEnjXC81w1x8mZUFM7jiRjNaMKYshLZYlMM="},
		},
		Connect: 5 * time.Second,
		Total:   10 * time.Second,
	}
	b.ReportAllocs()
	for b.Loop() {
		if res := client.Send(b.Context(), req); res.Status != 200 {
			b.Fatal(res.Err)
		}
	}
}
