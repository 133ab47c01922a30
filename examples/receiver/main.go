// Command receiver is a server that receives webhooks, as an example to begin
// with: it verifies them, works on each event once, and answers what it means.
//
//	WEBHOOK_SECRET=whsec_... go run ./examples/receiver --listen 127.0.0.1:9000
//
// POST /hook does the work before it answers; POST /inbox stores the event, answers at once, and
// works later. Both write orders to a SQLite database. It does not do what every
// server needs besides: TLS, or a proxy with it, in front.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // driver sqlite

	"github.com/breakwaterhq/breakwater/receiver"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9000", "address to listen on")
	file := flag.String("db", "orders.db", "database file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *file, os.Getenv("WEBHOOK_SECRET")); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listen, file, secret string) error {
	v, err := receiver.New(receiver.Config{Secrets: []string{secret}})
	if err != nil {
		return err
	}
	// WAL and a time to wait for locks: SQLite has one writer at a time.
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	hooks, err := receiver.NewSQL(db, receiver.SQLOptions{Dialect: receiver.SQLite, TTL: 30 * 24 * time.Hour})
	if err != nil {
		return err
	}
	const orders = "CREATE TABLE IF NOT EXISTS orders (event TEXT NOT NULL, number TEXT NOT NULL)"
	if _, err := db.ExecContext(ctx, orders+";"+hooks.Schema()); err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("POST /hook", v.Handler(receiver.HandlerOptions{Dedupe: hooks}, func(ctx context.Context, e receiver.Event) error {
		tx, _ := receiver.TxFrom(ctx) // the order and the mark are committed together
		return takeOrder(ctx, tx, e)
	}))
	mux.Handle("POST /inbox", v.Handler(receiver.HandlerOptions{}, func(ctx context.Context, e receiver.Event) error {
		_, err := hooks.Accept(ctx, e)
		return err
	}))
	return serve(ctx, listen, mux, hooks)
}

// takeOrder is the work. What it cannot read now it will never be able to read.
func takeOrder(ctx context.Context, tx *sql.Tx, e receiver.Event) error {
	var payload struct{ Order json.Number }
	if err := json.Unmarshal(e.Body, &payload); err != nil {
		return receiver.Permanent(err)
	}
	if payload.Order == "" {
		return receiver.Permanent(errors.New("an order without a number"))
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (event, number) VALUES (?, ?)", e.ID, payload.Order.String()); err != nil {
		return err
	}
	log.Printf("order %s: event %s, attempt %d", payload.Order, e.ID, e.Attempt)
	return nil
}

// serve answers requests, works on the inbox and forgets old ids, until ctx
// ends. Then each of them finishes what it has in hand.
func serve(ctx context.Context, listen string, handler http.Handler, hooks *receiver.SQL) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var others sync.WaitGroup
	others.Go(func() {
		if err := hooks.Work(ctx, 2, takeOrder); err != nil {
			log.Print(err)
			stop()
		}
	})
	others.Go(func() {
		for hourly := time.NewTicker(time.Hour); ; {
			if _, err := hooks.Purge(ctx); err != nil && ctx.Err() == nil {
				log.Print(err)
			}
			select {
			case <-hourly.C:
			case <-ctx.Done():
				return
			}
		}
	})
	others.Go(func() {
		<-ctx.Done()
		if err := server.Shutdown(context.WithoutCancel(ctx)); err != nil {
			log.Print(err)
		}
	})
	log.Printf("listening on http://%s", listener.Addr())
	err = server.Serve(listener)
	stop()
	others.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
