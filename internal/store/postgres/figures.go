package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/breakwaterhq/breakwater/internal/stats"
	"github.com/breakwaterhq/breakwater/internal/store/postgres/pipeline"
)

// putFigures stores what a writer has counted of a minute so far.
const putFigures = `
INSERT INTO stats (level, subject, step, at, writer, data)
SELECT r.level, r.subject, 0, r.at, $1, r.data
FROM (SELECT unnest($2::smallint[]) AS level, unnest($3::bigint[]) AS subject, unnest($4::bigint[]) AS at, unnest($5::bytea[]) AS data) r
ON CONFLICT (level, subject, step, at, writer) DO UPDATE SET data = excluded.data`

// storeFigures stores the figures of what the transaction has written, and commits
// it.
func (r *run) storeFigures(ctx context.Context, conn *pgx.Conn) error {
	p := pipeline.New()
	defer p.Release()
	if rows := r.batch.Figures(r.repeated); len(rows) > 0 {
		p.Query(putFigures)
		p.ID(int64(r.batch.Ledger.Writer))
		c := pipeline.Of(p, rows)
		c.Int2s(func(r stats.Row) int { return int(r.Subject.Level) })
		c.Int8s(func(r stats.Row) int64 { return int64(r.Subject.ID) })
		c.Int8s(func(r stats.Row) int64 { return r.Minute.Unix() })
		c.Byteas(func(r stats.Row) []byte { return r.Counts.Append(nil) })
	}
	p.Query("COMMIT")
	if err := p.Prepare(ctx, conn); err != nil {
		return failed("prepare", err)
	}
	return p.Run(ctx, conn)
}
