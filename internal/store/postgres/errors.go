package postgres

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/breakwaterhq/breakwater/internal/hook"
	"github.com/breakwaterhq/breakwater/internal/store"
)

// The conditions that are treated apart. All of them mean that the server has
// rolled the transaction back.
const (
	codeSerialization   = "40001"
	codeDeadlock        = "40P01"
	codeDiskFull        = "53100"
	codeForeignKey      = "23503"
	codeUniqueViolation = "23505"
	codeCheckViolation  = "23514"
	codeLockTimeout     = "55P03"
	codeUndefinedTable  = "42P01"
	codeStatementEnded  = "57014" // by statement_timeout
	codeIdleInTx        = "25P03" // idle_in_transaction_session_timeout
)

// codeOf returns the SQLSTATE of an error that the server reported, else "".
func codeOf(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

func isCode(err error, code string) bool { return err != nil && codeOf(err) == code }

// violates reports whether err is a duplicate under the named index.
func violates(err error, index string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == codeUniqueViolation && pg.ConstraintName == index
}

// refusedForGood reports whether the server turned the data itself down: a
// value it cannot hold (class 22) or a constraint (class 23), an id that is
// taken among them. The same rows would be refused again.
func refusedForGood(err error) bool {
	code := codeOf(err)
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "23")
}

// commitError puts the error of a commit into the terms of store.Committer.
func commitError(err error) error {
	switch {
	case isCode(err, codeDiskFull):
		return fmt.Errorf("commit batch: %w: %w", hook.ErrStoreFull, err)
	case refusedForGood(err):
		return fmt.Errorf("commit batch: %w: %w", store.ErrRefused, err)
	default:
		return fmt.Errorf("commit batch: %w", err)
	}
}

// failed names what was being done and puts the error into the terms of the
// store's roles: a row that is not there, a server that cannot be reached, one
// that had no time.
func failed(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("%s: %w", doing, hook.ErrNotFound)
	case unreachable(err) && !errors.Is(err, hook.ErrStoreUnavailable):
		return fmt.Errorf("%s: %w: %w", doing, hook.ErrStoreUnavailable, err)
	case Slow(err) && !errors.Is(err, hook.ErrOverloaded):
		return fmt.Errorf("%s: %w: %w", doing, hook.ErrOverloaded, err)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// Away reports whether an error says that the server cannot be reached: the same
// may work later, and nothing but its absence is to blame.
func Away(err error) bool { return unreachable(err) }

// Slow reports whether an error says that the server, or this process, had no time
// for what was asked: the same may work later.
func Slow(err error) bool {
	switch codeOf(err) {
	case codeStatementEnded, codeLockTimeout, codeIdleInTx:
		return true
	default:
		return false
	}
}

// unreachable reports whether the server is away, stopping, starting or out of
// connections: the same request may work later.
func unreachable(err error) bool {
	if code := codeOf(err); code != "" {
		return strings.HasPrefix(code, "08") || strings.HasPrefix(code, "57P") || strings.HasPrefix(code, "53")
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.Timeout(err) || pgconn.SafeToRetry(err)
}
