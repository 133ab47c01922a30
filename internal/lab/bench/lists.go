package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// lists are what people look at while a backlog waits. {dead} is the endpoint
// it waits for.
var lists = []string{
	"/events",
	"/events?type=bench.*",
	"/deliveries",
	"/deliveries?status=pending",
	"/deliveries?status=delivered",
	"/deliveries?status=retrying",
	"/deliveries?status=held",
	"/deliveries?endpoint={dead}",
	"/deliveries?endpoint={dead}&status=pending",
	"/deliveries?endpoint={dead}&status=delivered",
	"/deliveries?status=cancelled",
	"/deliveries?type=nothing.*",
	"/deliveries?type=bench.*&status=delivered",
	"/deliveries/count",
	"/deliveries/count?endpoint={dead}",
	"/deliveries/count?endpoint={dead}&status=delivered",
	"/deliveries/count?status=pending",
	"/deliveries/count?status=retrying",
	"/deliveries/count?status=held",
	"/deliveries/count?type=nothing.*",
	"/dead-letters",
	"/dead-letters/count",
	"/lanes",
	"/endpoints/{dead}/lane",
}

// looks is how often each list is asked for; the median counts.
const looks = 5

// slowestList returns the list that takes longest to answer, and how long.
func (st *site) slowestList(ctx context.Context, dead string) (slowest string, took time.Duration, err error) {
	for _, list := range lists {
		path := "/v1/tenants/default" + strings.ReplaceAll(list, "{dead}", dead)
		times := make([]time.Duration, looks)
		for i := range times {
			if times[i], err = st.get(ctx, path); err != nil {
				return "", 0, err
			}
		}
		slices.Sort(times)
		if median := times[looks/2]; median > took {
			slowest, took = list, median
		}
	}
	return slowest, took, nil
}

// get reads a page of the first node and returns how long that took.
func (st *site) get(ctx context.Context, path string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, st.nodes[0].banner.URL+path, http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+st.admin)
	begin := time.Now()
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("get %s: %w", path, err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	took := time.Since(begin)
	if err != nil {
		return 0, fmt.Errorf("read answer of %s: %w", path, err)
	}
	// A list that the store gave up on took as long as it took.
	if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusServiceUnavailable {
		return 0, fmt.Errorf("get %s: status %d: %s", path, answer.StatusCode, text)
	}
	return took, nil
}
