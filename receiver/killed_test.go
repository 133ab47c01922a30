package receiver_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/breakwaterhq/breakwater/receiver"
)

// envNode makes TestNode a process that works until it is killed: driver, dialect
// and address of its database.
const envNode = "RECEIVER_TEST_NODE"

// TestNode is no test: TestKilledWorkersLoseNothing starts it as a process.
func TestNode(t *testing.T) { //nolint:paralleltest // runs alone in its process
	if os.Getenv(envNode) == "" {
		return
	}
	part := strings.SplitN(os.Getenv(envNode), " ", 3)
	dialect, err := strconv.Atoi(part[1])
	if err != nil {
		t.Fatal(err)
	}
	d := database{part[0], part[2], receiver.Dialect(dialect)}
	err = d.on(t, d.open(t), receiver.SQLOptions{}).Work(t.Context(), 3, slowEffect(func(id string) {
		fmt.Println("in hand", id)
	}))
	t.Fatal("Work ended: ", err)
}

// slowEffect does half of the work, tells so, and takes its time for the rest.
func slowEffect(tell func(id string)) func(context.Context, *sql.Tx, receiver.Event) error {
	return func(ctx context.Context, _ *sql.Tx, e receiver.Event) error {
		if err := effect(ctx, e.ID); err != nil {
			return err
		}
		tell(e.ID)
		time.Sleep(20 * time.Millisecond)
		return nil
	}
}

// TestKilledWorkersLoseNothing: of two nodes one is killed in the middle of its
// work, again and again; every event is done once.
func TestKilledWorkersLoseNothing(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT TESTED with -short: starts processes")
	}
	onEach(t, func(t *testing.T, d database) {
		db, s := d.prepare(t, receiver.SQLOptions{})
		const events, kills = 60, 4
		for n := range events {
			accept(t, s, receiver.Event{ID: fmt.Sprint("evt_", n), Body: []byte(body)}, true)
		}
		for range kills {
			d.killAtWork(t, db)
		}
		if n := count(t, db, "webhook_seen_inbox WHERE state = 0"); n == 0 {
			t.Error("nothing was left to do: no node was killed in the middle")
		}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		var all sync.WaitGroup
		all.Go(func() {
			if err := s.Work(ctx, 3, slowEffect(func(string) {})); err != nil {
				t.Errorf("Work: %v", err)
			}
		})
		d.killAtWork(t, db) // beside the one that survives
		for count(t, db, "webhook_seen_inbox WHERE state = 1") < events && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		stop()
		all.Wait()
		eachOnce(t, db, events)
	})
}

// killAtWork starts a node, and kills it while it has an event in hand, or when nothing
// is left for it.
func (d database) killAtWork(t *testing.T, db *sql.DB) {
	t.Helper()
	node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNode$", "-test.v")
	node.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", envNode, d.driver, d.dialect, d.dsn))
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for count(t, db, "webhook_seen_inbox WHERE state = 0") > 0 {
			select {
			case <-read:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
		_ = node.Process.Kill()
	})
	lines, inHand := bufio.NewScanner(out), 0
	for inHand < 5 && lines.Scan() {
		if strings.Contains(lines.Text(), "in hand") {
			inHand++
		}
	}
	close(read)
	_ = node.Process.Kill()
	_ = node.Wait()
	watch.Wait()
	if inHand == 0 {
		t.Log("the node got nothing to do")
	}
}
