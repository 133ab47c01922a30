package demo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// retryLoop delivers as it is written in an afternoon: when it fails, wait twice as long
// and try again.
type retryLoop struct {
	url    string
	client *http.Client
	given  atomic.Int64
}

const (
	firstWait = time.Second
	mostWait  = 8 * time.Second
)

func newRetryLoop(url string) *retryLoop {
	return &retryLoop{url: url, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// deliver ends when the event has arrived, or with ctx.
func (l *retryLoop) deliver(ctx context.Context, n int) {
	l.given.Add(1)
	for wait := firstWait; !l.try(ctx, n); wait = min(2*wait, mostWait) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (l *retryLoop) try(ctx context.Context, n int) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(payload(n)))
	if err != nil {
		return false
	}
	req.Header.Set("Webhook-Id", fmt.Sprintf("evt_%d", n))
	res, err := l.client.Do(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, res.Body) // so that the connection can be used again
	_ = res.Body.Close()
	return res.StatusCode/100 == 2
}
