package hook

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ID is a 63-bit time-ordered number: 41 bits of milliseconds since
// 2024-01-01 UTC, 10 bits of node slot, 12 bits of sequence. Integers are the
// cheapest keys in both stores, and a time filter becomes a key range. Ids are
// not secrets.
type ID int64

const (
	slotBits = 10
	seqBits  = 12
	timeBits = slotBits + seqBits

	// MaxSlot is the greatest node slot.
	MaxSlot = 1<<slotBits - 1
)

// idEpoch is 2024-01-01T00:00:00Z in Unix milliseconds.
const idEpoch = 1704067200000

// Time returns the moment the id was drawn, to the millisecond.
func (id ID) Time() time.Time { return time.UnixMilli(int64(id)>>timeBits + idEpoch).UTC() }

// IDFloor returns the smallest id that could have been drawn at t, so that
// "since t" is id >= IDFloor(t). Times outside the range of ids are clamped.
func IDFloor(t time.Time) ID {
	ms := min(max(t.UnixMilli()-idEpoch, 0), 1<<41-1)
	return ID(ms << timeBits)
}

// DayOfIDs is the width of the id range of one day: the bounds of the
// Postgres partitions are its multiples.
const DayOfIDs = ID(24*60*60*1000) << timeBits

// IDSource draws ids for one node slot. It never goes backwards: when the
// clock stands still or is set back it counts on from the last id. Safe for
// concurrent use.
type IDSource struct {
	slot int64
	last atomic.Int64 // milliseconds << seqBits | sequence
}

// NewIDSource returns a source for slot whose ids are all greater in time than
// after, the greatest id already stored (0 when unknown).
func NewIDSource(slot int, after ID) (*IDSource, error) {
	if slot < 0 || slot > MaxSlot {
		return nil, fmt.Errorf("node slot %d: must be between 0 and %d", slot, MaxSlot)
	}
	s := &IDSource{slot: int64(slot)}
	s.last.Store((int64(after)>>timeBits)<<seqBits | (1<<seqBits - 1))
	return s, nil
}

// Next draws the next id at now.
func (s *IDSource) Next(now time.Time) ID {
	floor := max(now.UnixMilli()-idEpoch, 0) << seqBits
	for {
		last := s.last.Load()
		next := max(last+1, floor)
		if s.last.CompareAndSwap(last, next) {
			return ID((next>>seqBits)<<timeBits | s.slot<<seqBits | next&(1<<seqBits-1))
		}
	}
}

// Prefix names the kind of object an id belongs to when it is shown.
type Prefix string

// The prefixes of shown ids.
const (
	TenantPrefix   Prefix = "ten_"
	EndpointPrefix Prefix = "ep_"
	EventPrefix    Prefix = "evt_"
	DeliveryPrefix Prefix = "dlv_"
	AttemptPrefix  Prefix = "att_"
	ReplayPrefix   Prefix = "rpl_"
	KeyPrefix      Prefix = "key_"
	RequestPrefix  Prefix = "req_"
	NodePrefix     Prefix = "node_"
	AuditPrefix    Prefix = "aud_"
)

// crockford is Crockford's base32 alphabet in lower case; its order is that of
// the digits, so shown ids sort like the numbers.
const crockford = "0123456789abcdefghjkmnpqrstvwxyz"

const idDigits = 13

// ErrBadID is wrapped by every error of Prefix.Parse.
var ErrBadID = errors.New("malformed id")

// Append appends the shown form of id to dst.
func (p Prefix) Append(dst []byte, id ID) []byte {
	dst = append(dst, p...)
	for shift := 5 * (idDigits - 1); shift >= 0; shift -= 5 {
		dst = append(dst, crockford[uint64(id)>>shift&31])
	}
	return dst
}

// Format returns the shown form of id: the prefix and 13 base32 characters.
func (p Prefix) Format(id ID) string {
	return string(p.Append(make([]byte, 0, len(p)+idDigits), id))
}

// Parse reads the shown form back. Upper case is accepted.
func (p Prefix) Parse(s string) (ID, error) {
	if len(s) != len(p)+idDigits || s[:len(p)] != string(p) {
		return 0, fmt.Errorf("%w: want %s followed by %d characters", ErrBadID, p, idDigits)
	}
	var v uint64
	for i := len(p); i < len(s); i++ {
		d := crockfordValue[s[i]]
		if d < 0 || v>>58 != 0 {
			return 0, fmt.Errorf("%w: want %s followed by %d base32 characters", ErrBadID, p, idDigits)
		}
		v = v<<5 | uint64(d)
	}
	return ID(v), nil
}

var crockfordValue = func() (t [256]int8) {
	for i := range t {
		t[i] = -1
	}
	for i := range crockford {
		c := crockford[i]
		t[c] = int8(i)
		if c >= 'a' {
			t[c-'a'+'A'] = int8(i)
		}
	}
	return t
}()
