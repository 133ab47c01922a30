package egress_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/internal/egress"
)

// BenchmarkSend measures attempts on kept connections against a server that
// does next to nothing: one after the other, and 64 at once, where there is
// always something to do. "floor" is the same exchange without a client: what
// the sockets, the server and the scheduler cost. So what a carrier costs is the
// difference to it, of cpu-ns/op rather than of the time, which includes waiting.
func BenchmarkSend(b *testing.B) {
	e := newEvil(b, leanServer)
	for name, open := range map[string]func(egress.Config) (*egress.Client, error){
		"lean": egress.New, "standard": egress.NewStandard,
	} {
		client, err := open(egress.Config{AllowCIDR: []netip.Prefix{loopbackNet}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(client.CloseIdle)
		req := benchRequest(e.url())
		measure(b, name, func() func() error {
			return func() error { return client.Send(b.Context(), req).Err }
		})
	}
	measure(b, "floor", func() func() error {
		c, err := net.Dial("tcp", e.addr.String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		request := slices.Concat([]byte("POST /hook HTTP/1.1\r\nX: "), make([]byte, 330), []byte("\r\n\r\n"), make([]byte, benchBody))
		answer := make([]byte, 1024)
		return func() error {
			_, err := c.Write(request)
			if err == nil {
				_, err = c.Read(answer)
			}
			return err
		}
	})
}

const benchBody = 256

func benchRequest(url string) *egress.Request {
	return &egress.Request{
		URL:  url,
		Body: make([]byte, benchBody),
		Header: []egress.Field{
			{"Breakwater-Attempt", "1"},
			{"Breakwater-Delivery", "dlv_1"},
			{"Content-Type", "application/json"},
			{"Webhook-Id", "evt_1"},
			{"Webhook-Signature", "v1,qbNG4se8NEnjXC81w1x8mZUFM7jiRjNaMKYshLZYlMM="},
			{"Webhook-Timestamp", "1767225600"},
		},
		Connect: 5 * time.Second,
		Total:   10 * time.Second,
	}
}

// measure runs what open returns, in one and in many goroutines, and reports
// the processor time of the whole process.
func measure(b *testing.B, name string, open func() func() error) {
	b.Helper()
	for _, many := range []int{1, 64} {
		b.Run(fmt.Sprintf("%s/%d", name, many), func(b *testing.B) {
			var (
				all  sync.WaitGroup
				left atomic.Int64
			)
			left.Store(int64(b.N))
			b.ReportAllocs()
			before := cpuTime(b)
			for range many {
				all.Go(func() {
					for once := open(); left.Add(-1) >= 0; {
						if err := once(); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// leanServer answers each request of the benchmark with one write.
func leanServer(c net.Conn) {
	answer := []byte("HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok")
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
		if _, err := r.Discard(benchBody); err != nil {
			return
		}
		if _, err := c.Write(answer); err != nil && !errors.Is(err, io.EOF) {
			return
		}
	}
}
