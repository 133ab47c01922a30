package receiver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/breakwaterhq/breakwater/receiver"
)

// exampleDB opens an empty database in memory, with a table for orders. Open yours
// with a file, WAL and a busy_timeout.
func exampleDB() *sql.DB {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	if _, err := db.Exec("CREATE TABLE orders (body TEXT)"); err != nil {
		panic(err)
	}
	return db
}

// exampleSQL is exampleDB with the tables of the package.
func exampleSQL(onError func(receiver.Event, error)) (*sql.DB, *receiver.SQL) {
	db := exampleDB()
	s, err := receiver.NewSQL(db, receiver.SQLOptions{Dialect: receiver.SQLite, OnError: onError})
	if err != nil {
		panic(err)
	}
	if _, err := db.Exec(s.Schema()); err != nil {
		panic(err)
	}
	return db, s
}

func ExampleNewSQL() {
	db := exampleDB()
	defer db.Close()
	_, err := receiver.NewSQL(db, receiver.SQLOptions{Dialect: receiver.SQLite, Table: "hooks", Scope: "billing"})
	fmt.Println(err)

	_, err = receiver.NewSQL(db, receiver.SQLOptions{Dialect: receiver.SQLite, Table: "hooks; DROP TABLE orders"})
	fmt.Println(err)
	// Output:
	// <nil>
	// receiver: Table must be a name or schema.name of a-z, 0-9 and _, not beginning with a digit, each at most 40 characters
}

func ExampleSQL_Schema() {
	db := exampleDB()
	defer db.Close()
	s, err := receiver.NewSQL(db, receiver.SQLOptions{Dialect: receiver.SQLite})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = db.Exec(s.Schema()) // or put it into your migrations
	fmt.Println(strings.Count(s.Schema(), "CREATE TABLE"), err)
	// Output: 2 <nil>
}

func ExampleSQL_Once() {
	db, s := exampleSQL(nil)
	defer db.Close()
	for range 2 {
		ran, err := s.Once(context.Background(), "evt_1", func(ctx context.Context) error {
			tx, _ := receiver.TxFrom(ctx)
			_, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ('A-1001')")
			return err
		})
		fmt.Println(ran, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

// What was written in the transaction goes when the work fails.
func ExampleTxFrom() {
	db, s := exampleSQL(nil)
	defer db.Close()
	_, err := s.Once(context.Background(), "evt_1", func(ctx context.Context) error {
		tx, _ := receiver.TxFrom(ctx)
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ('A-1001')"); err != nil {
			return err
		}
		return errors.New("out of stock")
	})
	var orders int
	_ = db.QueryRow("SELECT COUNT(*) FROM orders").Scan(&orders)
	fmt.Println(err, orders)
	// Output: out of stock 0
}

func ExampleSQL_Purge() {
	db, s := exampleSQL(nil)
	defer db.Close()
	if _, err := db.Exec("INSERT INTO webhook_seen VALUES ('', 'evt_old', 0)"); err != nil { // in 1970
		fmt.Println(err)
	}
	fmt.Println(s.Purge(context.Background())) // call it hourly
	// Output: 1 <nil>
}

func ExampleSQL_Accept() {
	db, s := exampleSQL(nil)
	defer db.Close()
	for range 2 { // in the function of a Handler, which answers 204 to both
		fmt.Println(s.Accept(context.Background(), receiver.Event{ID: "evt_1", Body: []byte(`{"order":"A-1001"}`)}))
	}
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleSQL_Work() {
	db, s := exampleSQL(nil)
	defer db.Close()
	if _, err := s.Accept(context.Background(), receiver.Event{ID: "evt_1", Body: []byte(`{"order":"A-1001"}`)}); err != nil {
		fmt.Println(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	err := s.Work(ctx, 4, func(ctx context.Context, tx *sql.Tx, e receiver.Event) error {
		defer stop() // a server works until it ends
		_, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?)", e.Body)
		return err
	})
	var orders int
	_ = db.QueryRow("SELECT COUNT(*) FROM orders").Scan(&orders)
	fmt.Println(err, orders)
	// Output: <nil> 1
}

// setAside lets the work on one event fail for good.
func setAside(s *receiver.SQL) {
	if _, err := s.Accept(context.Background(), receiver.Event{ID: "evt_1", Type: "order.paid"}); err != nil {
		fmt.Println(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	if err := s.Work(ctx, 1, func(context.Context, *sql.Tx, receiver.Event) error {
		stop()
		return receiver.Permanent(errors.New("no such customer"))
	}); err != nil {
		fmt.Println(err)
	}
}

func ExampleSQL_SetAside() {
	db, s := exampleSQL(func(e receiver.Event, err error) { fmt.Println("told:", e.ID, err) })
	defer db.Close()
	setAside(s)
	aside, err := s.SetAside(context.Background(), 100)
	for _, a := range aside {
		fmt.Println(a.Event.ID, a.Event.Type, a.Tries, a.Reason, err)
	}
	// Output:
	// told: evt_1 permanent: no such customer
	// evt_1 order.paid 1 permanent: no such customer <nil>
}

func ExampleSQL_Retry() {
	db, s := exampleSQL(func(receiver.Event, error) {})
	defer db.Close()
	setAside(s)
	fmt.Println(s.Retry(context.Background(), "evt_1"))
	fmt.Println(s.Retry(context.Background(), "evt_2"))
	// Output:
	// true <nil>
	// false <nil>
}
