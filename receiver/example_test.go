package receiver_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

// exampleSecret is usually read from the environment or a file.
const exampleSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// exampleRequest is one that Breakwater sent at the start of 2026.
func exampleRequest() *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(
		`{"type":"order.paid","timestamp":"2026-01-01T00:00:00Z","data":{"order":"A-1001","total":4200}}`))
	r.Header.Set("webhook-id", "evt_01JQ8Z6V5T3M9K2X7C4B1N0RAW")
	r.Header.Set("webhook-timestamp", "1767225600")
	r.Header.Set("webhook-signature", "v1,qbNG4se8NEnjXC81w1x8mZUFM7jiRjNaMKYshLZYlMM=")
	return r
}

// newYear stops the clock, so that the old request is still accepted. Leave
// Config.Now out in your own code.
func newYear() time.Time { return time.Unix(1767225600, 0) }

func ExampleNew() {
	_, err := receiver.New(receiver.Config{Secrets: []string{exampleSecret}})
	fmt.Println(err)

	_, err = receiver.New(receiver.Config{}) // unsigned requests are never accepted
	fmt.Println(err)
	// Output:
	// <nil>
	// receiver: at least one secret is required
}

func ExampleVerifier_Verify() {
	v, err := receiver.New(receiver.Config{Secrets: []string{exampleSecret}, Now: newYear})
	if err != nil {
		fmt.Println(err)
		return
	}
	header := exampleRequest().Header
	body := []byte(`{"type":"order.paid","timestamp":"2026-01-01T00:00:00Z","data":{"order":"A-1001","total":4200}}`)

	event, err := v.Verify(header, body)
	fmt.Println(event.ID, event.Type, err)

	_, err = v.Verify(header, []byte(`{"type":"order.paid","data":{"total":1}}`))
	fmt.Println(errors.Is(err, receiver.ErrSignature), err)
	// Output:
	// evt_01JQ8Z6V5T3M9K2X7C4B1N0RAW order.paid <nil>
	// true webhook signature does not match: no signature fits any secret
}

func ExampleVerifier_Middleware() {
	v, err := receiver.New(receiver.Config{Secrets: []string{exampleSecret}, Now: newYear})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("POST /hook", v.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})))

	signed := httptest.NewRecorder()
	mux.ServeHTTP(signed, exampleRequest())
	fmt.Println(signed.Code)

	unsigned := httptest.NewRecorder()
	mux.ServeHTTP(unsigned, httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader("{}")))
	fmt.Println(unsigned.Code, unsigned.Body)
	// Output:
	// 204
	// 401 webhook headers are incomplete: webhook-id is missing
}

func ExampleFromContext() {
	v, err := receiver.New(receiver.Config{Secrets: []string{exampleSecret}, Now: newYear})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := v.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		event, _ := receiver.FromContext(r.Context()) // always there behind Middleware
		fmt.Println(event.ID, event.Type, len(event.Body))
	}))
	handler.ServeHTTP(httptest.NewRecorder(), exampleRequest())
	// Output: evt_01JQ8Z6V5T3M9K2X7C4B1N0RAW order.paid 95
}
