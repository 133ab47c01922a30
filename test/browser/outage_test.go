package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/breakwaterhq/breakwater/test/program"
)

// sink is a destination of which every path is one of its own.
type sink struct {
	t *testing.T
	*program.Sink
}

func newSink(t *testing.T) *sink {
	t.Helper()
	s, err := program.StartSink(binary, "--per-path")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return &sink{t, s}
}

// tell changes how a path behaves.
func (s *sink) tell(path, behaviour string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.URL+"/_sink"+path, strings.NewReader(behaviour))
	if err != nil {
		s.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(answer.Body)
		s.t.Fatalf("POST /_sink%s = %d %s", path, answer.StatusCode, text)
	}
}

// tally is what came to a path.
type tally struct {
	Requests int64 `json:"requests"`
	OK       int64 `json:"ok"`
}

func (s *sink) of(path string) (got tally) {
	s.t.Helper()
	answer, err := http.Get(s.URL + "/_sink" + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		s.t.Fatal(err)
	}
	return got
}

// traffic publishes 50 events per second until the test stops it, and tells how many were accepted.
func (h *house) traffic() (stop func() int64) {
	ctx, cancel := context.WithCancel(h.t.Context())
	var accepted atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		every := time.NewTicker(time.Second / 50)
		defer every.Stop()
		for ctx.Err() == nil {
			<-every.C
			r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.url+"/v1/tenants/default/events", bytes.NewReader([]byte(`{"type":"order.paid","payload":{"order":42}}`)))
			if err != nil {
				continue
			}
			r.Header.Set("Authorization", "Bearer "+program.AdminKey)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				continue
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode == http.StatusAccepted {
				accepted.Add(1)
			}
		}
	}()
	return func() int64 {
		cancel()
		<-done
		return accepted.Load()
	}
}

// TestOutageOfOneEndpointAsItsOperatorSeesIt breaks one of two endpoints under load: its
// page tells what is wrong and when it is asked again, the other's page shows nothing of
// it, and the recovery is drawn.
func TestOutageOfOneEndpointAsItsOperatorSeesIt(t *testing.T) {
	t.Parallel()
	h, s := newHouse(t), newSink(t)
	var ill, well struct{ ID string }
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/default/endpoints", map[string]any{
		"url": s.URL + "/ill", "uid": "ill", "policy": probing("6s"), // long enough to be counted down between two looks of the page
	}, &ill)
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/default/endpoints", map[string]any{"url": s.URL + "/well", "uid": "well"}, &well)
	stop := h.traffic()
	b, other := open(t, h.url, desk), open(t, h.url, desk)
	b.login(program.AdminKey)
	other.login(program.AdminKey)
	other.visit("/ui/endpoints/" + well.ID)
	s.tell("/ill", `{"fail":503}`)

	b.eventually("the overview tells of the open breaker", func() bool {
		return b.has(".banner.bad") && strings.Contains(b.text(".banner"), "1 breaker is open")
	})
	b.follow("[data-live=overview-attention] tr[data-row='" + ill.ID + "'] a.url")
	b.eventually("the page says what is wrong", func() bool {
		say := b.text(".lanebox .say")
		return strings.Contains(say, "503") && strings.Contains(say, "next probe in") && strings.Contains(b.text("main .sub"), "Holding")
	})
	first := b.held()
	b.eventually("what is held grows", func() bool { return b.held() > first })
	probe := ""
	b.eventually("the page says when it is asked again", func() bool { probe = b.nextProbe(); return probe != "" })
	b.eventually("the time to the next probe is counted down", func() bool {
		return get(b, "watch the countdown", chromedp.Evaluate[bool](countsDown, chromedp.EvalAwaitPromise))
	})
	b.eventually("the probe fails, and the next one is planned", func() bool { return b.nextProbe() > probe })
	if text := b.text("main"); strings.Contains(text, "Retry storm") {
		t.Errorf("an outage is no storm: %q", text)
	}

	if text := other.text("main"); !strings.Contains(text, "The breaker has never opened.") || strings.Contains(other.text("main .sub"), "Holding") {
		t.Errorf("the page of the other endpoint says %q", text)
	}
	b.follow("form[action*='/probe'] button") // while it is ill: once it is well its next probe may come first
	s.tell("/ill", `{"heal":true}`)
	b.eventually("the endpoint recovers on the open page", func() bool { return !b.has(".head form[action*='/probe']") })
	b.eventually("the course has the outage and the recovery", func() bool {
		return strings.Contains(b.text("#charts"), "Outage and recovery") && b.has(".multi svg rect.band") && b.has(".multi svg rect.f-ok")
	})
	b.eventually("the limit grows from one request at a time", func() bool {
		_, after, found := strings.Cut(b.text(".lanebox"), "of limit ")
		limit, _, _ := strings.Cut(after, " ")
		return found && limit != "1"
	})
	sent := stop()
	await(t, "everything has arrived at both", func() bool { return s.of("/ill").OK >= sent && s.of("/well").OK >= sent })
	if got := s.of("/well"); got.Requests != sent {
		t.Errorf("%d requests for %d events came to the endpoint that was well", got.Requests, sent)
	}
	b.eventually("the page says since when all is well", func() bool { return strings.Contains(b.text(".lanebox .say"), "Delivering since") })
	b.visit("/ui")
	b.eventually("the banner is gone", func() bool { return !b.has(".banner") })
	b.says("breaker.closed")
}

// probing is a policy that lets an endpoint be asked again so often.
func probing(every string) map[string]any {
	return map[string]any{"breaker": map[string]any{"probe": map[string]any{"min": every, "max": "10s"}}}
}

// countsDown watches the countdown to a probe for as long as one page is kept.
const countsDown = `new Promise(done => {
	const left = () => parseInt(document.querySelector(".lanebox .say time[data-count=in]")?.textContent.replace(/\D/g, ""))
	const at = document.querySelector(".lanebox .say time[data-count=in]")?.dateTime, first = left()
	const look = () => {
		if (document.querySelector(".lanebox .say time[data-count=in]")?.dateTime !== at) done(false)
		else if (left() < first) done(true)
		else setTimeout(look, 100)
	}
	look()
})`

// held returns how many deliveries the page says are held.
func (b *tab) held() int {
	b.t.Helper()
	for word := range strings.SplitSeq(b.text(".lanebox .say"), ". ") {
		n, _, found := strings.Cut(word, " deliveries are held")
		if number, err := strconv.Atoi(strings.ReplaceAll(strings.TrimPrefix(strings.TrimPrefix(n, "At least "), "at least "), ",", "")); found && err == nil {
			return number
		}
	}
	return 0
}

// nextProbe returns when the page says that the endpoint is asked again; empty: it does not.
func (b *tab) nextProbe() string {
	b.t.Helper()
	return get(b, "read the next probe", chromedp.Evaluate[string](`document.querySelector(".lanebox .say time[data-count=in]")?.dateTime ?? ""`))
}

// TestReplayWaitsForAnOutageAndGoesOn starts a replay from the page of dead letters into an
// outage: its page says that it is paused, why, and that it goes on by itself a minute later.
// Whoever sees there that the endpoint is well need not wait for that.
func TestReplayWaitsForAnOutageAndGoesOn(t *testing.T) {
	t.Parallel()
	const total = 30
	h := newHouse(t)
	var endpoint struct{ ID string }
	h.call(http.StatusCreated, http.MethodPost, "/v1/tenants/default/endpoints", map[string]any{"url": h.to + "/hook", "policy": probing("1s")}, &endpoint)
	h.status.Store(http.StatusUnprocessableEntity) // not tried again
	for range total {
		h.publish("order.paid")
	}
	h.dead(total)
	b := open(t, h.url, desk)
	b.login(program.AdminKey)
	b.visit("/ui/dead-letters?endpoint=" + endpoint.ID)
	b.follow(".selbar a[href*='group=all']")
	b.says(strconv.Itoa(total) + " selected")
	b.follow(".selbar a.btn.primary")
	if title := b.text("h1"); !strings.Contains(title, "Replay "+strconv.Itoa(total)) {
		t.Errorf("the preview is of %q", title)
	}
	h.status.Store(http.StatusServiceUnavailable)
	b.fill("#per_minute", "600")
	b.fill("#pause_error_percent", "100")
	b.follow("button[value=start]")
	page, _, _ := strings.Cut(b.path(), "?")

	b.follow("form[action$='/pause'] button")
	b.eventually("it is paused by hand", func() bool { return strings.Contains(b.text("main"), "Resume it to go on.") })
	b.follow("form[action$='/resume'] button")
	b.eventually("the page says that the replay waits for the endpoint", func() bool {
		say := b.text("[data-live=deadletters-replay-body]")
		return strings.Contains(b.text("main .sub"), "Paused") && strings.Contains(say, "breaker") && strings.Contains(say, "It goes on by itself")
	})
	b.visit("/ui/dead-letters")
	b.eventually("the page of dead letters shows it too", func() bool { return b.has("[data-live=deadletters-running] a[href^='" + page + "']") })
	b.visit(page)
	h.status.Store(http.StatusOK)
	b.eventually("the page shows that the endpoint is well", func() bool { return strings.Contains(b.text(".tiles"), "Endpoint Delivering") })
	b.follow("form[action$='/resume'] button")
	b.eventually("it comes to its end on the open page", func() bool { return strings.Contains(b.text("main .sub"), "Done") })
	b.says("delivered " + strconv.Itoa(total) + " failed 0")
	b.says("100 % ended")
	h.dead(0)
}
