// Package hints tells the nodes of a database what they might like to know, by
// NOTIFY. A hint may be lost: whoever needs what it says finds it by polling.
package hints

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// channel is where all nodes of a database listen.
const channel = "breakwater_hints"

// maxHint is below the 8000 bytes that a notification may have.
const maxHint = 7900

// sendHint runs by itself: inside a transaction, NOTIFY would make the commits
// of all notifying transactions queue behind one lock.
const sendHint = `SELECT pg_notify('breakwater_hints', $1)`

// everybody sends what this process is to hear, too.
const everybody = "*"

// Channel is a node's end of the channel. It implements store.Hints.
type Channel struct {
	cfg    Config
	sender string // tells this process's hints from those of others
}

// Config is what a channel needs.
type Config struct {
	Pool *pgxpool.Pool // to send by
	// Alone runs a function on a connection of its own: to listen by.
	Alone func(context.Context, func(*pgx.Conn) error) error
	Log   *slog.Logger
}

// New returns a channel.
func New(cfg Config) *Channel { return &Channel{cfg, rand.Text()[:8]} }

// Hint tells the other nodes.
func (c *Channel) Hint(ctx context.Context, h store.Hint) error { return c.hint(ctx, c.sender, h) }

// tellWait is how long whoever has inserted rows may take to tell of them.
const tellWait = time.Second

// TellAll tells all nodes, this one included, that endpoints have got rows. It does
// so even when nobody waits for the caller any more: the rows are there.
func (c *Channel) TellAll(ctx context.Context, endpoints []hook.ID) {
	if len(endpoints) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellWait)
	defer cancel()
	slices.Sort(endpoints)
	if err := c.hint(ctx, everybody, store.Hint{Kind: store.HintDue, IDs: slices.Compact(endpoints)}); err != nil {
		c.cfg.Log.Debug("hint was not sent", "error", err)
	}
}

// hint sends as many notifications as the hint needs.
func (c *Channel) hint(ctx context.Context, sender string, h store.Hint) error {
	for _, text := range encode(sender, h) {
		if _, err := c.cfg.Pool.Exec(ctx, sendHint, text); err != nil {
			return fmt.Errorf("send hint: %w", err)
		}
	}
	return nil
}

// encode writes sender, kind and ids with blanks between, ids in base 36, at
// least one text and each within bounds. A new delivery is three ids, the last
// of them counted from the one before.
func encode(sender string, h store.Hint) []string {
	head := sender + " " + strconv.Itoa(int(h.Kind))
	var texts []string
	text := []byte(head)
	add := func(ids ...hook.ID) {
		if len(text) > maxHint-14*len(ids) { // a blank and 13 digits each
			texts = append(texts, string(text))
			text = append(text[:0], head...)
		}
		for _, id := range ids {
			text = append(text, ' ')
			text = strconv.AppendInt(text, int64(id), 36)
		}
	}
	for _, id := range h.IDs {
		add(id)
	}
	for _, n := range h.Announced {
		add(n.Endpoint, n.Event, n.Delivery-n.Event)
	}
	return append(texts, string(text))
}

// decode reads what encode wrote; false for anything else, which a
// later version may send.
func decode(text string) (sender string, h store.Hint, ok bool) {
	fields := strings.Fields(text)
	if len(fields) < 2 {
		return "", h, false
	}
	kind, err := strconv.ParseUint(fields[1], 10, 8)
	if err != nil {
		return "", h, false
	}
	h.Kind = store.HintKind(kind)
	for _, f := range fields[2:] {
		id, err := strconv.ParseInt(f, 36, 64)
		if err != nil {
			return "", h, false
		}
		h.IDs = append(h.IDs, hook.ID(id))
	}
	if h.Kind == store.HintAnnounced {
		if len(h.IDs)%3 != 0 {
			return "", store.Hint{}, false
		}
		for ids := range slices.Chunk(h.IDs, 3) {
			h.Announced = append(h.Announced, store.Announced{Endpoint: ids[0], Event: ids[1], Delivery: ids[1] + ids[2]})
		}
		h.IDs = nil
	}
	return fields[0], h, true
}

// The waits of a listener.
const (
	listenRetryFirst = 100 * time.Millisecond
	listenRetryMax   = 5 * time.Second
	listenIdle       = 30 * time.Second // then the connection is tried
)

// Listen calls fn for every hint of another node until ctx ends, then returns
// nil. It connects again by itself; what was sent meanwhile is lost, which a
// hint may be.
func (c *Channel) Listen(ctx context.Context, fn func(store.Hint)) error {
	wait := listenRetryFirst
	for ctx.Err() == nil {
		heard, err := c.listenOnce(ctx, fn)
		if ctx.Err() != nil {
			break
		}
		if heard {
			wait = listenRetryFirst
		}
		c.cfg.Log.Warn("lost the connection that listens for hints; new work of other nodes is found by polling", "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, listenRetryMax)
	}
	return nil //nolint:nilerr // ctx has ended: that is what was asked for
}

// listenOnce listens on one connection until it fails; heard tells whether the
// connection worked at first.
func (c *Channel) listenOnce(ctx context.Context, fn func(store.Hint)) (heard bool, err error) {
	err = c.cfg.Alone(ctx, func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		heard = true
		for {
			if err := c.nextHint(ctx, conn, fn); err != nil {
				return err
			}
		}
	})
	return heard, err
}

// nextHint waits for one notification. After a long silence it asks the server
// for a sign of life: a cut network looks like silence.
func (c *Channel) nextHint(ctx context.Context, conn *pgx.Conn, fn func(store.Hint)) error {
	quiet, cancel := context.WithTimeout(ctx, listenIdle)
	defer cancel()
	n, err := conn.WaitForNotification(quiet)
	switch {
	case err == nil:
		if sender, h, ok := decode(n.Payload); ok && sender != c.sender {
			fn(h)
		}
		return nil
	case quiet.Err() != nil && ctx.Err() == nil && !conn.IsClosed():
		ping, cancel := context.WithTimeout(ctx, listenRetryMax)
		defer cancel()
		return conn.Ping(ping)
	default:
		return fmt.Errorf("wait for hints: %w", err)
	}
}
