// Package pipeline sends the statements of a batch as one transaction in one round
// trip, with their parameters as arrays in the binary format.
//
// It knows neither tables nor what a batch is.
package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Pipeline is a list of statements that run as one transaction in one round
// trip. Their parameters are encoded as they are added, all into one buffer
// that the next batch uses again: on the way of every event, encoding values
// one by one behind interfaces costs more than everything else in the client.
type Pipeline struct {
	calls []call
	buf   []byte // all parameters in the binary format, one after the other
	ends  []int  // where each parameter ends in buf
}

// call is one statement. Each returns at most one row of one array of ids.
type call struct {
	sql        string
	parameters int
	result     *[]int64 // may be nil
	prepared   *pgconn.StatementDescription
}

var pipelines = sync.Pool{New: func() any { return new(Pipeline) }}

// New returns an empty pipeline, to be released.
func New() *Pipeline { return pipelines.Get().(*Pipeline) }

// maxKeptBuffer bounds what an idle pipeline holds on to.
const maxKeptBuffer = 4 << 20

// Release gives the pipeline back for the next batch.
func (p *Pipeline) Release() {
	if cap(p.buf) > maxKeptBuffer {
		return
	}
	clear(p.calls)
	p.calls, p.buf, p.ends = p.calls[:0], p.buf[:0], p.ends[:0]
	pipelines.Put(p)
}

// Len returns how many statements there are.
func (p *Pipeline) Len() int { return len(p.calls) }

// Query adds a statement. The parameters that are added next belong to it.
func (p *Pipeline) Query(sql string, result *[]int64) {
	p.calls = append(p.calls, call{sql: sql, result: result})
}

// Prepare prepares the statements, each once per connection.
func (p *Pipeline) Prepare(ctx context.Context, conn *pgx.Conn) (err error) {
	for i := range p.calls {
		c := &p.calls[i]
		if c.prepared, err = conn.Prepare(ctx, c.sql, c.sql); err != nil {
			return err
		}
	}
	return nil
}

// Run sends everything, which is prepared, and waits for the commit. The single
// sync at the end is what makes the statements one transaction.
func (p *Pipeline) Run(ctx context.Context, conn *pgx.Conn) error {
	values, binaryFormat := p.values(), []int16{pgx.BinaryFormatCode}
	wire := conn.PgConn().StartPipeline(ctx)
	for _, c := range p.calls {
		wire.SendQueryStatement(c.prepared, values[:c.parameters:c.parameters], binaryFormat, binaryFormat)
		values = values[c.parameters:]
	}
	err := wire.Sync()
	if err == nil {
		err = p.read(wire, conn.TypeMap())
	}
	if closeErr := wire.Close(); err == nil {
		err = closeErr
	}
	return err
}

// values cuts the buffer into parameters.
func (p *Pipeline) values() [][]byte {
	values, from := make([][]byte, len(p.ends)), 0
	for i, to := range p.ends {
		values[i] = p.buf[from:to:to]
		from = to
	}
	return values
}

// read takes the results and then the answer to the sync, which is the
// server's word that the transaction is committed.
func (p *Pipeline) read(wire *pgconn.Pipeline, types *pgtype.Map) error {
	for _, c := range p.calls {
		answer, err := wire.GetResults()
		if err != nil {
			return err
		}
		rows, ok := answer.(*pgconn.ResultReader)
		if !ok {
			return fmt.Errorf("unexpected answer %T", answer)
		}
		var scanErr error
		for rows.NextRow() {
			if c.result != nil {
				scanErr = types.Scan(pgtype.Int8ArrayOID, pgx.BinaryFormatCode, rows.Values()[0], c.result)
			}
		}
		if _, err := rows.Close(); err != nil || scanErr != nil {
			return errors.Join(err, scanErr)
		}
	}
	answer, err := wire.GetResults()
	if err != nil {
		return err
	}
	if _, ok := answer.(*pgconn.PipelineSync); !ok {
		return fmt.Errorf("unexpected answer %T to the sync", answer)
	}
	return nil
}

// end closes the parameter that was appended to buf.
func (p *Pipeline) end() {
	p.ends = append(p.ends, len(p.buf))
	p.calls[len(p.calls)-1].parameters++
}

// ID adds a bigint parameter.
func (p *Pipeline) ID(v int64) {
	p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(v))
	p.end()
}

// Number adds an integer parameter.
func (p *Pipeline) Number(v int32) {
	p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(v))
	p.end()
}

// Bytes adds a bytea parameter.
func (p *Pipeline) Bytes(b []byte) {
	p.buf = append(p.buf, b...)
	p.end()
}

// Time adds a timestamptz parameter.
func (p *Pipeline) Time(t time.Time) {
	p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(microseconds(t)))
	p.end()
}

// microseconds is how the server counts time: from the year 2000.
func microseconds(t time.Time) int64 { return t.UnixMicro() - 946_684_800_000_000 }

// array begins an array parameter of n elements.
func (p *Pipeline) array(element uint32, n int) {
	if n == 0 {
		p.buf = appendUint32s(p.buf, 0, 0, element)
		return
	}
	const dimensions, mayHoldNull, lowerBound = 1, 1, 1
	p.buf = appendUint32s(p.buf, dimensions, mayHoldNull, element, uint32(n), lowerBound)
}

func appendUint32s(b []byte, values ...uint32) []byte {
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// null is the length of an element that is NULL.
const null = math.MaxUint32

// Columns adds rows to a pipeline column by column: each method takes what one
// column holds of a row and adds the array of it.
type Columns[R any] struct {
	p    *Pipeline
	rows []R
}

// Of returns what adds the columns of rows.
func Of[R any](p *Pipeline, rows []R) Columns[R] { return Columns[R]{p, rows} }

// Int8s adds bigints.
func (c Columns[R]) Int8s(of func(R) int64) {
	c.Appended(pgtype.Int8OID, func(dst []byte, r R) []byte { return binary.BigEndian.AppendUint64(dst, uint64(of(r))) })
}

// Int4s adds integers; one that does not fit is the nearest that does.
func (c Columns[R]) Int4s(of func(R) int) {
	c.Appended(pgtype.Int4OID, func(dst []byte, r R) []byte {
		return appendUint32s(dst, uint32(int32(min(max(of(r), math.MinInt32), math.MaxInt32))))
	})
}

// Int2s adds small numbers; a negative one is NULL.
func (c Columns[R]) Int2s(of func(R) int) {
	c.Appended(pgtype.Int2OID, func(dst []byte, r R) []byte {
		v := of(r)
		if v < 0 {
			return dst
		}
		return binary.BigEndian.AppendUint16(dst, uint16(min(v, math.MaxInt16)))
	})
}

// Float8s adds numbers.
func (c Columns[R]) Float8s(of func(R) float64) {
	c.Appended(pgtype.Float8OID, func(dst []byte, r R) []byte { return binary.BigEndian.AppendUint64(dst, math.Float64bits(of(r))) })
}

// Bools adds truth values.
func (c Columns[R]) Bools(of func(R) bool) {
	c.Appended(pgtype.BoolOID, func(dst []byte, r R) []byte {
		if of(r) {
			return append(dst, 1)
		}
		return append(dst, 0)
	})
}

// Times adds moments; the zero time is NULL.
func (c Columns[R]) Times(of func(R) time.Time) {
	c.Appended(pgtype.TimestamptzOID, func(dst []byte, r R) []byte {
		t := of(r)
		if t.IsZero() {
			return dst
		}
		return binary.BigEndian.AppendUint64(dst, uint64(microseconds(t)))
	})
}

// Texts adds texts, of which none is NULL.
func (c Columns[R]) Texts(of func(R) string) {
	c.p.array(pgtype.TextOID, len(c.rows))
	for _, r := range c.rows {
		v := of(r)
		c.p.buf = append(binary.BigEndian.AppendUint32(c.p.buf, uint32(len(v))), v...)
	}
	c.p.end()
}

// Byteas adds bytes; nil is NULL, and no bytes are not.
func (c Columns[R]) Byteas(of func(R) []byte) {
	c.p.array(pgtype.ByteaOID, len(c.rows))
	for _, r := range c.rows {
		v := of(r)
		if v == nil {
			c.p.buf = binary.BigEndian.AppendUint32(c.p.buf, null)
			continue
		}
		c.p.buf = append(binary.BigEndian.AppendUint32(c.p.buf, uint32(len(v))), v...)
	}
	c.p.end()
}

// JSONs adds documents, each appended to the buffer in place; none is NULL.
func (c Columns[R]) JSONs(appendTo func([]byte, R) []byte) { c.Appended(pgtype.JSONOID, appendTo) }

// Appended adds elements of the given type, each appended to the buffer in
// place; none is NULL.
func (c Columns[R]) Appended(element uint32, appendTo func([]byte, R) []byte) {
	c.p.array(element, len(c.rows))
	for _, r := range c.rows {
		length := len(c.p.buf)
		c.p.buf = binary.BigEndian.AppendUint32(c.p.buf, null)
		document := len(c.p.buf)
		c.p.buf = appendTo(c.p.buf, r)
		if n := len(c.p.buf) - document; n > 0 {
			binary.BigEndian.PutUint32(c.p.buf[length:], uint32(n))
		}
	}
	c.p.end()
}
