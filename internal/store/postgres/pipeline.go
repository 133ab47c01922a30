package postgres

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

// pipeline is a list of statements that run as one transaction in one round
// trip. Their parameters are encoded as they are added, all into one buffer
// that the next batch uses again: on the way of every event, encoding values
// one by one behind interfaces costs more than everything else in the client.
type pipeline struct {
	calls []call
	buf   []byte // all parameters in the binary format, one after the other
	ends  []int  // where each parameter ends in buf
}

// call is one statement. Each returns at most one row of one array of ids.
type call struct {
	sql        string
	parameters int
	result     *[]int64 // may be nil
}

var pipelines = sync.Pool{New: func() any { return new(pipeline) }}

// maxKeptBuffer bounds what an idle pipeline holds on to.
const maxKeptBuffer = 4 << 20

// release gives the pipeline back for the next batch.
func (p *pipeline) release() {
	if cap(p.buf) > maxKeptBuffer {
		return
	}
	clear(p.calls)
	p.calls, p.buf, p.ends = p.calls[:0], p.buf[:0], p.ends[:0]
	pipelines.Put(p)
}

// query adds a statement. The parameters that are added next belong to it.
func (p *pipeline) query(sql string, result *[]int64) {
	p.calls = append(p.calls, call{sql: sql, result: result})
}

// run sends everything and waits for the commit. The single sync at the end is
// what makes the statements one transaction.
func (p *pipeline) run(ctx context.Context, conn *pgx.Conn) error {
	statements := make([]*pgconn.StatementDescription, len(p.calls))
	for i, c := range p.calls {
		var err error
		if statements[i], err = conn.Prepare(ctx, c.sql, c.sql); err != nil { // once per connection
			return failed("prepare", err)
		}
	}
	values, binaryFormat := p.values(), []int16{pgx.BinaryFormatCode}
	wire := conn.PgConn().StartPipeline(ctx)
	for i, c := range p.calls {
		wire.SendQueryStatement(statements[i], values[:c.parameters:c.parameters], binaryFormat, binaryFormat)
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
func (p *pipeline) values() [][]byte {
	values, from := make([][]byte, len(p.ends)), 0
	for i, to := range p.ends {
		values[i] = p.buf[from:to:to]
		from = to
	}
	return values
}

// read takes the results and then the answer to the sync, which is the
// server's word that the transaction is committed.
func (p *pipeline) read(wire *pgconn.Pipeline, types *pgtype.Map) error {
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
func (p *pipeline) end() {
	p.ends = append(p.ends, len(p.buf))
	p.calls[len(p.calls)-1].parameters++
}

// id adds a bigint parameter.
func (p *pipeline) id(v int64) {
	p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(v))
	p.end()
}

// number adds an integer parameter.
func (p *pipeline) number(v int32) {
	p.buf = binary.BigEndian.AppendUint32(p.buf, uint32(v))
	p.end()
}

// time adds a timestamptz parameter.
func (p *pipeline) time(t time.Time) {
	p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(microseconds(t)))
	p.end()
}

// microseconds is how the server counts time: from the year 2000.
func microseconds(t time.Time) int64 { return t.UnixMicro() - 946_684_800_000_000 }

// array begins an array parameter of n elements.
func (p *pipeline) array(element uint32, n int) {
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

// columns adds rows to a pipeline column by column: each method takes what one
// column holds of a row and adds the array of it.
type columns[R any] struct {
	*pipeline
	rows []R
}

func (c columns[R]) int8s(of func(R) int64) {
	c.array(pgtype.Int8OID, len(c.rows))
	for _, r := range c.rows {
		c.buf = binary.BigEndian.AppendUint32(c.buf, 8)
		c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(of(r)))
	}
	c.end()
}

func (c columns[R]) int4s(of func(R) int) {
	c.array(pgtype.Int4OID, len(c.rows))
	for _, r := range c.rows {
		c.buf = appendUint32s(c.buf, 4, uint32(clamp(int64(of(r)))))
	}
	c.end()
}

// int2s adds small numbers; a negative one is NULL.
func (c columns[R]) int2s(of func(R) int) {
	c.array(pgtype.Int2OID, len(c.rows))
	for _, r := range c.rows {
		v := of(r)
		if v < 0 {
			c.buf = binary.BigEndian.AppendUint32(c.buf, null)
			continue
		}
		c.buf = binary.BigEndian.AppendUint32(c.buf, 2)
		c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(min(v, math.MaxInt16)))
	}
	c.end()
}

func (c columns[R]) float8s(of func(R) float64) {
	c.array(pgtype.Float8OID, len(c.rows))
	for _, r := range c.rows {
		c.buf = binary.BigEndian.AppendUint32(c.buf, 8)
		c.buf = binary.BigEndian.AppendUint64(c.buf, math.Float64bits(of(r)))
	}
	c.end()
}

func (c columns[R]) bools(of func(R) bool) {
	c.array(pgtype.BoolOID, len(c.rows))
	for _, r := range c.rows {
		var v byte
		if of(r) {
			v = 1
		}
		c.buf = append(binary.BigEndian.AppendUint32(c.buf, 1), v)
	}
	c.end()
}

// times adds moments; the zero time is NULL.
func (c columns[R]) times(of func(R) time.Time) {
	c.array(pgtype.TimestamptzOID, len(c.rows))
	for _, r := range c.rows {
		t := of(r)
		if t.IsZero() {
			c.buf = binary.BigEndian.AppendUint32(c.buf, null)
			continue
		}
		c.buf = binary.BigEndian.AppendUint32(c.buf, 8)
		c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(microseconds(t)))
	}
	c.end()
}

func (c columns[R]) texts(of func(R) string) {
	c.array(pgtype.TextOID, len(c.rows))
	for _, r := range c.rows {
		v := of(r)
		c.buf = append(binary.BigEndian.AppendUint32(c.buf, uint32(len(v))), v...)
	}
	c.end()
}

// byteas adds bytes; nil is NULL.
func (c columns[R]) byteas(of func(R) []byte) {
	c.array(pgtype.ByteaOID, len(c.rows))
	for _, r := range c.rows {
		v := of(r)
		if v == nil {
			c.buf = binary.BigEndian.AppendUint32(c.buf, null)
			continue
		}
		c.buf = append(binary.BigEndian.AppendUint32(c.buf, uint32(len(v))), v...)
	}
	c.end()
}

// jsons adds documents, each appended to the buffer in place; none is NULL.
func (c columns[R]) jsons(appendTo func([]byte, R) []byte) { c.appended(pgtype.JSONOID, appendTo) }

// appended adds elements of the given type, each appended to the buffer in
// place; none is NULL.
func (c columns[R]) appended(element uint32, appendTo func([]byte, R) []byte) {
	c.array(element, len(c.rows))
	for _, r := range c.rows {
		length := len(c.buf)
		c.buf = binary.BigEndian.AppendUint32(c.buf, null)
		document := len(c.buf)
		c.buf = appendTo(c.buf, r)
		if n := len(c.buf) - document; n > 0 {
			binary.BigEndian.PutUint32(c.buf[length:], uint32(n))
		}
	}
	c.end()
}
