package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	driver "modernc.org/sqlite"
)

// Settings of the connections, as parameters of the driver. It applies
// _busy_timeout first, then every _pragma, then the journal mode and the rest:
// the page size counts only when the file is made, and the journal mode makes
// it. temp_store keeps statement journals out of the file system: there may be
// no room, or no directory, for them.
var (
	writerSettings = url.Values{
		"_busy_timeout": {"5000"}, "_foreign_keys": {"1"}, "_journal_mode": {"WAL"}, "_synchronous": {synchronous},
		"_pragma": {
			"page_size(8192)", "mmap_size(0)", "temp_store(MEMORY)", "cache_size(-16384)",
			"wal_autocheckpoint(0)", "journal_size_limit(" + strconv.Itoa(logKeep) + ")",
		},
	}
	// Readers share the machine's memory with each other and lean on the file
	// system's cache. The file is in WAL mode when they come.
	readerSettings = url.Values{
		"_busy_timeout": {"5000"}, "_foreign_keys": {"1"}, "_synchronous": {"FULL"}, "_query_only": {"1"},
		"_pragma": {"mmap_size(0)", "temp_store(MEMORY)", "cache_size(-4096)"},
	}
)

// sourceName names a file and the settings of its connection to the driver.
func sourceName(path string, settings url.Values) string {
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + settings.Encode()
}

// openPool returns a pool of connections to the file with the given settings.
func openPool(path string, conns int, settings url.Values) (*sql.DB, error) {
	connector, err := driver.NewConnector(sourceName(path, settings))
	if err != nil {
		return nil, fmt.Errorf("read path: %w", err)
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	return pool, nil
}

func openReaders(ctx context.Context, path string, conns int) (*sql.DB, error) {
	pool, err := openPool(path, conns, readerSettings)
	if err != nil {
		return nil, err
	}
	if err := pool.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open for reading: %w", err), pool.Close())
	}
	return pool, nil
}

// errNotDurable means that a commit would not survive a power cut.
var errNotDurable = errors.New("store would not be durable")

// checkDurable refuses a connection whose effective settings lose confirmed
// writes, whatever was asked for: a file system without shared memory, for
// one, silently keeps another journal mode.
func checkDurable(ctx context.Context, conn *sql.Conn) error {
	for _, want := range []struct{ pragma, value string }{
		{"journal_mode", "wal"}, {"synchronous", synchronousLevel}, {"foreign_keys", "1"},
	} {
		var got string
		if err := conn.QueryRowContext(ctx, "PRAGMA "+want.pragma).Scan(&got); err != nil {
			return fmt.Errorf("read pragma %s: %w", want.pragma, err)
		}
		if got != want.value {
			return fmt.Errorf("%w: %s is %s, must be %s", errNotDurable, want.pragma, got, want.value)
		}
	}
	return nil
}
