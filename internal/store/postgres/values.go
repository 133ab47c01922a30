package postgres

import (
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// at returns t as a parameter, NULL when zero. The server keeps microseconds
// and would round, so the rest is cut here.
func at(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t.Truncate(time.Microsecond), Valid: !t.IsZero()}
}

// clean makes text storable: the server refuses zero bytes and broken UTF-8,
// and what a hostile endpoint answers must not fail a batch.
func clean(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
