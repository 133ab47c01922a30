package pgcluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// statementTimeout bounds a statement of this package. It does not depend on a
// caller's context: that of a test has already ended when its clean-up runs.
const statementTimeout = 3 * time.Minute

// CreateDatabase makes a new, empty database on the server that dsn names. It
// returns its address, and how to drop it again.
func CreateDatabase(dsn, prefix string) (created string, drop func() error, err error) {
	name := prefix + strings.ToLower(rand.Text()[:12])
	if err := Execute(dsn, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8'"); err != nil {
		return "", nil, fmt.Errorf("create database: %w", err)
	}
	created, err = withDatabase(dsn, name)
	if err != nil {
		return "", nil, err
	}
	return created, func() error {
		if err := Execute(dsn, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			return fmt.Errorf("drop database: %w", err)
		}
		return nil
	}, nil
}

// withDatabase returns dsn with another database name, in either of the two
// forms a DSN can have.
func withDatabase(dsn, name string) (string, error) {
	if !strings.Contains(dsn, "://") {
		return dsn + " dbname=" + name, nil // the last setting of a key counts
	}
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("parse DSN: %w", err)
	}
	u.Path = "/" + name
	return u.String(), nil
}

// Execute runs one statement on a connection of its own.
func Execute(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// Query returns the single text that a statement gives.
func Query(dsn, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), statementTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	var text string
	err = conn.QueryRow(ctx, sql).Scan(&text)
	return text, err
}
