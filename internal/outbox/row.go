package outbox

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/publisher"
)

// A Row is one pending row as it was read.
type Row struct {
	// Message is complete but for its Topic, which is the row's own until a template is applied.
	Message  publisher.Message
	Position Position
	Shard    int
	Attempt  int64     // the number of the coming try; NULL reads as 1
	Due      time.Time // when it was inserted, or became available if that was later; zero when the table does not say
	// Retried: a try was refused before, Waited ago by the database's clock. Waited is negative where that clock has been set back
	// since, or the application has written a later time: then it says nothing.
	Retried bool
	Waited  time.Duration
	// Beyond: it was written too late for [Query.Within], or may have been. Then a large row comes with its position and key, without
	// its contents.
	Beyond bool
	// Delayed: it has available_at and is read when that has come ([Query.Due]), by that time and not in table order. It keeps no order.
	Delayed bool
	Extra   []string // the configured further columns
	// LeftOut names those of the row's own headers that its message does not have: of a dead letter ([View.FailedOf]).
	LeftOut []string
	Nulls   uint64  // bit i is set when Extra[i] is NULL
	place   [6]byte // the binary ctid, zero where the table has none that leads to the row
	cutKey  bool    // the key did not come
	apart   string  // the identity where that is not the id
	writer  uint32  // the number of the transaction that inserted it, or wrote it last
	size    int64   // of what did not come with the page and is to be read whole, 0 when all came

	// Invalid is not nil when the row cannot be made into a message.
	Invalid error
}

// ID is the row's id; it is not for people.
func (r *Row) ID() string { return r.Position.id }

// Identity tells the row from every other one of the table. It is the id, unless two rows may have the same.
func (r *Row) Identity() string {
	if r.apart != "" {
		return r.apart
	}
	return r.Position.id
}

// Key returns the ordering key as text that shares the message's bytes, and whether the row has one.
func (r *Row) Key() (text string, ok bool) { return asString(r.Message.Key), r.Message.Key != nil }

// Indexes of the columns that every read selects.
const (
	atID = iota
	atOrder
	atRank
	atTopic
	atPayload
	atHeaders
	atKey
	atAttempt
	atInserted
	atAvailable
	atWaited
	atShard
	atWriter
	atPlace
	atIdentity
	atPayloadRest // in place of the payload ([bounds.rest]), and of the headers
	atHeadersRest
	atExtra
)

// formats returns the wire format of each column: binary where a value is opaque or a number, text
// where the bytes that PostgreSQL prints are wanted.
func (t *Table) formats() []int16 {
	formats := make([]int16, atExtra+len(t.mapping.extra)+len(t.mapping.placed))
	for _, i := range []int{atID, atOrder, atRank, atAttempt, atInserted, atAvailable, atWaited, atShard, atWriter, atPlace} {
		formats[i] = 1
	}
	if t.mapping.payload.oid == oidBytea {
		formats[atPayload] = 1
	}
	return formats
}

// altered reports whether columns have other types than when the table was opened, so that their values mean something else. Those that
// are sent as text fail by themselves ([written]): XML, and JSON in rows that are read whole.
func (t *Table) altered(fields []pgconn.FieldDescription, whole bool) bool {
	m := t.mapping
	for i, c := range map[int]*column{atID: m.id, atOrder: m.order, atPayload: m.payload, atHeaders: m.headers, atInserted: m.inserted,
		atAvailable: m.available} {
		if c != nil && c.oid != oidXML && !(whole && isJSON(c)) && fields[i].DataTypeOID != c.oid {
			return true
		}
	}
	return false
}

// decode fills row from the values of one result row, which it copies. most are the bytes that a row was to take: what takes more
// comes without its contents. A panic is an error of this row: what tells where it is and whether it has changed comes first.
func (t *Table) decode(row *Row, values [][]byte, most int64, a *arena) {
	m := t.mapping
	row.Position.id = a.text(values[atID])
	row.Position.nulls = values[atOrder] == nil
	if m.order == m.id {
		row.Position.order = row.Position.id
	} else {
		row.Position.order = a.text(values[atOrder])
	}
	row.Position.Ordinal = ordinal(values[atOrder])
	row.Position.rank = a.text(values[atRank])
	if row.Delayed = m.dueIndex && values[atAvailable] != nil; row.Delayed {
		row.Position.due = a.text(values[atAvailable])
	}
	row.Attempt = int64(binary.BigEndian.Uint64(values[atAttempt]))
	row.Shard = int(ordinal(values[atShard]))
	copy(row.place[:], values[atPlace])
	row.apart, row.writer = a.text(values[atIdentity]), writer(values)
	message := &row.Message
	message.Topic = a.text(values[atTopic])
	if row.cutKey = cut(values[atKey], most); !row.cutKey && values[atKey] != nil {
		message.Key = a.bytes(values[atKey])
	}
	defer func() {
		if value := recover(); value != nil {
			row.refuse(publisher.PermanentError("panic", "the row cannot be made into a message: %w", panics.Caught(value)))
		}
	}()
	message.ID = t.idText(values[atID], a)
	message.Source = t.source
	if values[atTopic] == nil && (m.origin == nil || !m.origin.failed) { // which may be why it has failed
		row.Invalid = errNullTopic
	}
	if values[atID] == nil {
		row.Invalid = errNullID
	}
	if v := values[atInserted]; v != nil {
		message.Inserted = timeOf(v)
		row.Due = message.Inserted
	}
	if v := values[atAvailable]; v != nil && !row.Due.IsZero() {
		if available := timeOf(v); available.After(row.Due) {
			row.Due = available
		}
	}
	if m.origin != nil {
		row.Due = timeOf(values[atOrder])
	}
	message.DedupID = t.dedupID(message, a)
	if v := values[atWaited]; v != nil {
		row.Retried = true
		row.Waited = time.Duration(max(-longest, min(longest, ordinal(v)))) * time.Microsecond
	}
	if row.size = t.missing(values, most); row.size > 0 {
		row.Extra = make([]string, len(m.extra))
		if row.Invalid != nil {
			row.size = 0 // it is of no use
		}
		return
	}
	if payload := either(values[atPayload], values[atPayloadRest]); payload != nil {
		message.Payload = a.bytes(payload)
	}
	switch m.payload.oid {
	case oidJSON, oidJSONB:
		message.Type = "application/json"
	case oidBytea:
		message.Type = "application/octet-stream"
	case oidXML:
		message.Type = "application/xml"
	default:
		message.Type = "text/plain"
	}
	if err := t.headers(row, values, a); err != nil {
		row.Invalid = err
	}
	t.extras(row, values[atExtra:], a)
}

// writer returns the number of the transaction that inserted the row, or wrote it last.
func writer(values [][]byte) uint32 { return binary.BigEndian.Uint32(values[atWriter]) }

// extras fills in the further columns.
func (t *Table) extras(row *Row, values [][]byte, a *arena) {
	if len(t.mapping.extra) == 0 {
		return
	}
	row.Extra = make([]string, len(t.mapping.extra))
	for i := range t.mapping.extra {
		row.Extra[i] = a.text(values[i])
		if values[i] == nil {
			row.Nulls |= 1 << i
		}
	}
}

// headers fills in the row's own headers and behind them the columns that are sent as headers. Of two
// with the same name the row's own stays.
func (t *Table) headers(row *Row, values [][]byte, a *arena) error {
	message := &row.Message
	object := either(values[atHeaders], values[atHeadersRest])
	if object == nil && len(t.mapping.placed) == 0 {
		return nil
	}
	if cap(a.headers)-len(a.headers) < 8+len(t.mapping.placed) {
		a.headers = make([]publisher.Header, 0, arenaHeaders+len(t.mapping.placed))
	}
	start := len(a.headers)
	var err error
	if object != nil {
		a.headers, err = parseHeaders(a.headers, object, a)
	}
	if o := t.mapping.origin; o != nil && o.failed {
		a.headers, err = row.makeRoom(a.headers, start, err), nil
	}
	message.Headers = a.headers[start:]
	for i, p := range t.mapping.placed {
		value := values[atExtra+len(t.mapping.extra)+i]
		if _, own := message.Header(p.header); !own && value != nil {
			a.headers = append(a.headers, publisher.Header{Name: p.header, Value: a.text(value)})
		}
	}
	message.Headers = a.headers[start:len(a.headers):len(a.headers)]
	return err
}

// either is what came of a value in one of its two columns.
func either(value, rest []byte) []byte {
	if value == nil {
		return rest
	}
	return value
}

// longest is, in microseconds, what a wait is taken for that is longer: a Duration holds no more than 292 years.
const longest = int64(100 * 365 * 24 * time.Hour / time.Microsecond)

// idText returns an id as people write it.
func (t *Table) idText(value []byte, a *arena) string {
	if value == nil {
		return ""
	}
	switch t.mapping.id.oid {
	case oidUUID:
		var text [36]byte
		hex.Encode(text[:8], value[:4])
		hex.Encode(text[9:13], value[4:6])
		hex.Encode(text[14:18], value[6:8])
		hex.Encode(text[19:23], value[8:10])
		hex.Encode(text[24:], value[10:])
		text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
		return a.text(text[:])
	case oidInt2, oidInt4, oidInt8:
		var text [20]byte
		return a.text(strconv.AppendInt(text[:0], ordinal(value), 10))
	default:
		return a.text(value)
	}
}

// ordinal reads a binary integer or time as a number, 0 for anything else.
func ordinal(value []byte) int64 {
	switch len(value) {
	case 2:
		return int64(int16(binary.BigEndian.Uint16(value)))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(value)))
	case 8:
		return int64(binary.BigEndian.Uint64(value))
	}
	return 0
}

// timeOf reads a binary timestamp, with or without time zone, as UTC. Infinity becomes the zero time, as does the end of
// PostgreSQL's calendar, from the year 294247 on, which would be a time of the distant past in microseconds since 1970.
func timeOf(value []byte) time.Time {
	micros := ordinal(value)
	if micros > math.MaxInt64-epoch.UnixMicro() || micros == math.MinInt64 {
		return time.Time{}
	}
	return time.UnixMicro(epoch.UnixMicro() + micros).UTC()
}
