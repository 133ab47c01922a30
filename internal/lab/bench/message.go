package bench

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"
)

// The events of the benchmark look like this, with the numbers written over
// for every request:
//
//	{"type":"bench.g000003","payload":{"n":"0000000000000042","t":"0000000123456789","items":[…],"pad":"…"}}
//
// n is the number of the event, t when it was sent, and the items are what an
// order would have, so that a server that checks JSON has something to check.
// Everything has a fixed width, and the texts are random, so that no store can
// press them together.
const (
	typePrefix  = "bench.g"
	groupDigits = 6
	stampDigits = 16
	stampStart  = `{"n":"`
	stampMiddle = `","t":"`
	itemsStart  = `","items":[`
	itemForm    = `{"sku":"%s","count":%d,"price":"%02d.%02d"},`
	itemsEnd    = `],"pad":"`
	payloadEnd  = `"}`

	// minPayload is the size of a payload without items and padding.
	minPayload = len(stampStart) + len(stampMiddle) + 2*stampDigits + len(itemsStart) + len(itemsEnd) + len(payloadEnd)
)

func tenantOf(n int) string { return fmt.Sprintf("t%0*d", groupDigits, n) }

func typeOf(group int) string { return fmt.Sprintf("%s%0*d", typePrefix, groupDigits, group) }

// message is a request that is sent again and again with other numbers.
type message struct {
	raw    []byte
	events []eventAt
	// tenant is where the tenant's number is in the path, for sites whose groups
	// belong to several tenants.
	tenant    int
	perTenant int
}

// eventAt is where the numbers of one event are.
type eventAt struct{ group, number, sent int }

// newMessage builds a request with row.Batch events.
func newMessage(st *site, address string, row *Row, rng *rand.Rand) *message {
	var body bytes.Buffer
	m := &message{perTenant: st.perTenant}
	if row.Batch > 1 {
		body.WriteString(`{"events":[`)
	}
	for i := range row.Batch {
		if i > 0 {
			body.WriteByte(',')
		}
		m.events = append(m.events, writeEvent(&body, row.Payload, rng))
	}
	path := "/v1/tenants/default/events"
	if st.perTenant > 0 {
		path = "/v1/tenants/" + tenantOf(0) + "/events"
		m.tenant = len("POST /v1/tenants/t")
	}
	if row.Batch > 1 {
		body.WriteString(`]}`)
		path += "/batch"
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, address, body.Len())
	if st.key != "" {
		fmt.Fprintf(&head, "Authorization: Bearer %s\r\n", st.key)
	}
	head.WriteString("\r\n")
	for i := range m.events {
		e := &m.events[i]
		e.group += head.Len()
		e.number += head.Len()
		e.sent += head.Len()
	}
	m.raw = append(head.Bytes(), body.Bytes()...)
	return m
}

// writeEvent appends an event and returns where its numbers are.
func writeEvent(b *bytes.Buffer, payload int, rng *rand.Rand) eventAt {
	var at eventAt
	zeros := bytes.Repeat([]byte("0"), stampDigits)
	b.WriteString(`{"type":"` + typePrefix)
	at.group = b.Len()
	b.Write(zeros[:groupDigits])
	b.WriteString(`","payload":`)
	start := b.Len()
	b.WriteString(stampStart)
	at.number = b.Len()
	b.Write(zeros)
	b.WriteString(stampMiddle)
	at.sent = b.Len()
	b.Write(zeros)
	b.WriteString(itemsStart)
	for left := payload - minPayload; left >= 64; {
		n := b.Len()
		fmt.Fprintf(b, itemForm, randomText(rng, 12), rng.IntN(100), rng.IntN(100), rng.IntN(100))
		left -= b.Len() - n
		if left < 64 {
			b.Truncate(b.Len() - 1) // the last comma
		}
	}
	b.WriteString(itemsEnd)
	b.WriteString(randomText(rng, start+payload-b.Len()-len(payloadEnd)))
	b.WriteString(payloadEnd)
	b.WriteByte('}')
	return at
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func randomText(rng *rand.Rand, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = letters[rng.IntN(len(letters))]
	}
	return string(out)
}

// stamp writes the numbers of one event.
func (m *message) stamp(i, group int, number int64, sent time.Duration) {
	e := m.events[i]
	if m.perTenant > 0 {
		putDigits(m.raw[m.tenant:m.tenant+groupDigits], int64(group/m.perTenant))
	}
	putDigits(m.raw[e.group:e.group+groupDigits], int64(group))
	putDigits(m.raw[e.number:e.number+stampDigits], number)
	putDigits(m.raw[e.sent:e.sent+stampDigits], int64(sent))
}

func putDigits(to []byte, n int64) {
	for i := len(to) - 1; i >= 0; i-- {
		to[i] = byte('0' + n%10)
		n /= 10
	}
}

func getDigits(from []byte) (n int64, ok bool) {
	for _, c := range from {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

var stampBytes = []byte(stampStart)

// readStamp finds the numbers of a delivery. It may be the payload alone or the
// whole event.
func readStamp(body []byte) (number int64, sent time.Duration, ok bool) {
	at := bytes.Index(body[:min(len(body), 128)], stampBytes)
	numberAt := at + len(stampStart)
	sentAt := numberAt + stampDigits + len(stampMiddle)
	if at < 0 || len(body) < sentAt+stampDigits {
		return 0, 0, false
	}
	number, ok = getDigits(body[numberAt : numberAt+stampDigits])
	t, ok2 := getDigits(body[sentAt : sentAt+stampDigits])
	return number, time.Duration(t), ok && ok2
}
