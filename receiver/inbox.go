package receiver

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The states of an event in the inbox. Statements have them as literals, so that
// planners know them.
const (
	stateWaiting = 0
	stateDone    = 1 // due_at is when it was done; it stays as a mark until the TTL ends
	stateAside   = 2 // due_at is when it was set aside
)

// selectState takes no lock: a copy need not wait for the worker that has the
// event in hand.
const selectState = `SELECT state, due_at FROM {inbox} WHERE scope = ? AND id = ?`

// insertEvent decides among several that saw nothing.
const insertEvent = `INSERT {ignore}INTO {inbox}
	(type, delivery_id, attempt, sent_at, body, due_at, accepted_at, scope, id, state, tries, reason)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ''){or nothing}`

// renewEvent takes an event again that was done longer than the TTL ago.
const renewEvent = `UPDATE {inbox}
	SET type = ?, delivery_id = ?, attempt = ?, sent_at = ?, body = ?, due_at = ?, accepted_at = ?, state = 0, tries = 0, reason = ''
	WHERE scope = ? AND id = ? AND state = 1 AND due_at <= ?`

// Accept stores the event in the inbox: answer 204 at once, work later with
// [SQL.Work], lose nothing. first is false when the event is there already,
// waiting, set aside, or done within the TTL; it is then left as it is.
//
// Within the work of [SQL.Once] or [SQL.Work] on the same database, Accept is part of
// that transaction.
func (s *SQL) Accept(ctx context.Context, e Event) (first bool, err error) {
	if err := checkID(e.ID); err != nil {
		return false, err
	}
	if outer, ok := ctx.Value(txKey{}).(txValue); ok && outer.db == s.db {
		first, err = s.accept(ctx, outer.tx, e)
	} else {
		first, err = s.acceptAlone(ctx, e)
	}
	if err != nil {
		return false, fmt.Errorf("receiver: accept: %w", err)
	}
	if first {
		select {
		case s.accepted <- struct{}{}:
		default: // somebody is being woken
		}
	}
	return first, nil
}

func (s *SQL) acceptAlone(ctx context.Context, e Event) (first bool, err error) {
	release, err := s.queue(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	err = s.patiently(ctx, func() error {
		first, err = s.accept(ctx, s.db, e)
		return err
	})
	return first, err
}

func (s *SQL) accept(ctx context.Context, on execer, e Event) (first bool, err error) {
	now := time.Now()
	cutoff := now.Add(-s.o.TTL).UnixMilli()
	values := []any{
		storable(e.Type, math.MaxInt), storable(e.DeliveryID, maxID), e.Attempt, e.Timestamp.UnixMilli(),
		append([]byte{}, e.Body...), now.UnixMilli(), now.UnixMilli(), s.o.Scope, e.ID,
	}
	return settle(func() (first, known bool, err error) {
		var state int
		var at int64
		err = on.QueryRowContext(ctx, s.statements[selectState], s.o.Scope, e.ID).Scan(&state, &at)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			first, err = s.exec(ctx, on, insertEvent, values...)
		case err != nil:
			return false, false, fmt.Errorf("look for the event: %w", err)
		case state != stateDone || at > cutoff:
			return false, true, nil
		default:
			first, err = s.exec(ctx, on, renewEvent, append(slices.Clip(values), cutoff)...)
		}
		return first, first, err // else another copy, or a purge, came in between
	})
}

// Aside is an event that Work has set aside, because its function said [Permanent] or
// [Gone].
type Aside struct {
	Event  Event
	Tries  int       // how often the function ran
	At     time.Time // when it was set aside
	Reason string    // the function's error
}

// maxAside bounds what SetAside returns at a time.
const maxAside = 1000

const selectAside = `SELECT id, type, delivery_id, attempt, sent_at, body, tries, due_at, reason FROM {inbox}
	WHERE scope = ? AND state = 2 ORDER BY due_at LIMIT ?`

// SetAside returns up to limit events that Work has set aside, the oldest first.
// They stay until [SQL.Retry], or until you delete them. limit is 1 to 1000.
func (s *SQL) SetAside(ctx context.Context, limit int) ([]Aside, error) {
	if limit < 1 || limit > maxAside {
		return nil, fmt.Errorf("receiver: limit must be 1 to %d", maxAside)
	}
	rows, err := s.db.QueryContext(ctx, s.statements[selectAside], s.o.Scope, limit)
	if err != nil {
		return nil, fmt.Errorf("receiver: read what was set aside: %w", err)
	}
	defer rows.Close()
	var all []Aside
	for rows.Next() {
		var a Aside
		var sent, at int64
		if err := rows.Scan(&a.Event.ID, &a.Event.Type, &a.Event.DeliveryID, &a.Event.Attempt, &sent, &a.Event.Body, &a.Tries, &at, &a.Reason); err != nil {
			return nil, fmt.Errorf("receiver: read what was set aside: %w", err)
		}
		a.Event.Timestamp, a.At = time.UnixMilli(sent), time.UnixMilli(at)
		all = append(all, a)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("receiver: read what was set aside: %w", err)
	}
	return all, nil
}

const retryAside = `UPDATE {inbox} SET state = 0, due_at = ?, tries = 0 WHERE scope = ? AND id = ? AND state = 2`

// Retry gives an event that was set aside back to Work, and reports whether there
// was one with this id.
func (s *SQL) Retry(ctx context.Context, id string) (found bool, err error) {
	release, err := s.queue(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	err = s.patiently(ctx, func() error {
		found, err = s.exec(ctx, s.db, retryAside, time.Now().UnixMilli(), s.o.Scope, id)
		return err
	})
	return found, err
}

// storable makes text that every database takes: UTF-8 without zero bytes, at
// most n bytes long.
func storable(s string, n int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// jitter draws a time from 0 to most.
func jitter(most time.Duration) time.Duration {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	u := float64(binary.LittleEndian.Uint64(b[:])>>11) / (1 << 53)
	return time.Duration(u * float64(most))
}

// sleep reports whether it slept all that time.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
