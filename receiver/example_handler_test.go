package receiver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

func ExampleVerifier_Handler() {
	v, err := receiver.New(receiver.Config{Secrets: []string{exampleSecret}, Now: newYear})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler := v.Handler(receiver.HandlerOptions{Dedupe: receiver.NewMemory(0, 0)}, func(_ context.Context, e receiver.Event) error {
		fmt.Println("working on", e.Type)
		return nil
	})
	for range 2 { // the second is a copy
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, exampleRequest())
		fmt.Println(w.Code)
	}
	// Output:
	// working on order.paid
	// 204
	// 204
}

func ExampleNewMemory() {
	seen := receiver.NewMemory(24*time.Hour, 10_000)
	for range 2 {
		ran, err := seen.Once(context.Background(), "evt_1", func(context.Context) error { return nil })
		fmt.Println(ran, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleMemory_Once() {
	seen := receiver.NewMemory(0, 0)
	for _, result := range []error{errors.New("no connection"), nil, nil} {
		ran, err := seen.Once(context.Background(), "evt_1", func(context.Context) error { return result })
		fmt.Println(ran, err)
	}
	// Output:
	// true no connection
	// true <nil>
	// false <nil>
}

func ExamplePermanent() {
	err := receiver.Permanent(errors.New("an order without a number"))
	code, _ := receiver.Status(err)
	fmt.Println(code, err)
	// Output: 422 permanent: an order without a number
}

func ExampleLater() {
	err := receiver.Later(errors.New("maintenance"), 10*time.Minute)
	code, after := receiver.Status(err)
	fmt.Println(code, after, err)
	// Output: 503 10m0s later, again in 10m0s: maintenance
}

func ExampleTooMany() {
	code, after := receiver.Status(receiver.TooMany(1500 * time.Millisecond))
	fmt.Println(code, after)
	// Output: 429 2s
}

// An endpoint that was given up says so, and gets nothing any more.
func ExampleGone() {
	code, _ := receiver.Status(receiver.Gone())
	fmt.Println(code, http.StatusText(code))
	// Output: 410 Gone
}

func ExampleStatus() {
	for _, err := range []error{
		nil,
		errors.New("no connection"),
		fmt.Errorf("order 42: %w", receiver.Permanent(errors.New("no such customer"))),
		receiver.ErrBusy,
	} {
		fmt.Println(receiver.Status(err))
	}
	// Output:
	// 204 0s
	// 500 0s
	// 422 0s
	// 503 5s
}
