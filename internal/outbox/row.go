package outbox

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/outbox-relay/outbox-relay/internal/panics"
	"github.com/outbox-relay/outbox-relay/publisher"
)

var (
	errNullTopic = errors.New("the row has no topic: the topic column is NULL")
	errNullID    = errors.New("the row has no id: the id column is NULL")
)

// A Row is one pending row as it was read.
type Row struct {
	// Message is complete except for its Topic, which is the row's own until a template is applied.
	Message  publisher.Message
	Position Position
	Shard    int
	Attempt  int64     // the number of the next attempt; NULL reads as 1
	Due      time.Time // when it was inserted, or became available if that was later; zero if unknown
	// Retried says that an attempt was refused before, and Waited how long ago by the database's clock. Waited is
	// negative, and means nothing, if that clock has been set back since or the application has written a later time.
	Retried bool
	Waited  time.Duration
	// Delayed says that the row has available_at and is read when that time has come ([Query.Due]), by that time
	// and not in table order. The row keeps no order.
	Delayed bool
	// Timed says that the row has available_at, whichever read brings it. It keeps no order, so it is never out of
	// order.
	Timed bool
	// Hash names the key, or a row without one: see [Ask].
	Hash uint64
	// Writer is the number of the top-level transaction that inserted the row ([Table.Exact]), or of whatever
	// transaction or savepoint wrote this version of it.
	Writer uint64
	// After says that the row comes after the query's position ([Query.After]).
	After bool
	Extra []string // the configured additional texts
	// LeftOut names the row's own headers that a dead letter's message does not have ([View.FailedOf]).
	LeftOut []string
	Nulls   uint64  // bit i is set when Extra[i] is NULL
	place   [6]byte // the binary ctid, zero if the table has none that leads to the row
	apart   string  // the identity, if it is not the id
	content uint64  // a hash of everything of which the message is made, under the table's seed
	view    *Table  // that has read the row: other destinations' views take other rows and read other columns
	version uint32  // the number of the transaction or savepoint that wrote this version of the row
	size    int64   // size of what did not come with the page and must be read whole, 0 if everything came

	// Invalid is the reason why the row cannot be made into a message, or nil.
	Invalid error
}

// ID returns the row's id in internal form, not for display.
func (r *Row) ID() string { return r.Position.values[idValue] }

// Identity distinguishes the row from every other row of the table. It is the id, unless two rows may have the same id.
func (r *Row) Identity() string {
	if r.apart != "" {
		return r.apart
	}
	return r.Position.values[idValue]
}

// Indexes of the columns that every read selects. Those before atAfter are null in all rows but one, and all others in
// that one, which says what the statement saw.
const (
	atSnapshot = iota
	atAge
	atNow
	atTook
	atNext
	atAfter
	atHash
	atVersion
	atID // from here on [Table.columns]
	atFirst
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
	atOrder // from here on what the message is made of
	atTopic
	atKey
	atPayload
	atHeaders
	atExtra
)

// columnFormats returns the wire format of each column: binary for opaque values and numbers, text where the bytes that
// PostgreSQL prints are wanted.
func (t *Table) columnFormats() []int16 {
	formats := append(binaryFormats(atExtra), make([]int16, len(t.mapping.extra)+len(t.mapping.placed))...)
	for _, i := range []int{atTopic, atPayload, atHeaders, atKey, atIdentity, atPayloadRest, atHeadersRest} {
		formats[i] = 0
	}
	if t.mapping.Payload.OID == pgtype.ByteaOID {
		formats[atPayload] = 1
	}
	return formats
}

// altered reports whether columns have other types than when the table was opened, so that their values mean something
// else.
func (t *Table) altered(fields []pgconn.FieldDescription) bool {
	m := t.mapping
	for i, c := range map[int]Column{
		atID: m.ID, atOrder: m.Order, atPayload: m.Payload, atHeaders: m.Headers, atInserted: m.Inserted,
		atAvailable: m.Available,
	} {
		if c.Has() && fields[i].DataTypeOID != c.OID {
			return true
		}
	}
	return false
}

// decode fills row from the values of one row of an answer, which it copies. most is the limit for the row in bytes; a
// larger row comes without its contents. A panic becomes an error of this row, so the values that say where the row is
// and whether it has changed are decoded first.
func (t *Table) decode(row *Row, values [][]byte, most int64, a *arena) {
	m, be := t.mapping, binary.BigEndian
	row.view, row.After = t, values[atAfter][0] != 0
	row.Hash = uint64(ordinal(values[atHash])) // null without key and id
	row.version, row.Writer = be.Uint32(values[atVersion]), uint64(be.Uint32(values[atWriter]))
	p := &row.Position
	p.nulls, p.Ordinal = values[atOrder] == nil, ordinal(values[atOrder])
	p.values[firstValue], p.values[idValue] = a.text(values[atFirst]), a.text(values[atID])
	if m.Order != m.ID {
		p.values[orderValue] = a.text(values[atOrder])
	}
	row.Timed = values[atAvailable] != nil
	if row.Delayed = row.Timed && m.dueIndex; row.Delayed {
		p.values[dueValue] = a.text(values[atAvailable])
	}
	row.Attempt, row.Shard = ordinal(values[atAttempt]), int(ordinal(values[atShard]))
	copy(row.place[:], values[atPlace])
	row.size = t.missing(values, most)
	for i := range 2 { // payload and headers, which came in one of their two columns
		if values[atPayload+i] == nil {
			values[atPayload+i] = values[atPayloadRest+i]
		}
	}
	row.content, row.apart = t.contentOf(values[atOrder:]), a.text(values[atIdentity])
	message := &row.Message
	message.Topic = a.text(values[atTopic])
	if values[atKey] != nil && !cut(values[atKey], most) {
		message.Key = a.bytes(values[atKey])
	}
	defer func() {
		if value := recover(); value != nil {
			caught := panics.Caught(value)
			row.refuse(publisher.PermanentError("panic", "the row cannot be made into a message: %w", caught))
		}
	}()
	message.ID, message.Source = t.idText(values[atID], a), t.source
	if values[atTopic] == nil && m.view.FailedOf == nil { // a row may have failed for want of it
		row.Invalid = errNullTopic
	}
	if values[atID] == nil {
		row.Invalid = errNullID
	}
	message.Inserted = timeOf(values[atInserted])
	row.Due = message.Inserted
	if m.origin != nil {
		row.Due = timeOf(values[atOrder])
	} else if available := timeOf(values[atAvailable]); !row.Due.IsZero() && available.After(row.Due) {
		row.Due = available
	}
	message.DedupID = t.dedupID(message, a)
	if v := values[atWaited]; v != nil {
		row.Retried = true
		row.Waited = time.Duration(ordinal(v)) * time.Microsecond
	}
	row.Extra = make([]string, len(m.extra))
	if row.size > 0 {
		if row.Invalid != nil {
			row.size = 0 // the contents are of no use
		}
		return
	}
	if values[atPayload] != nil {
		message.Payload = a.bytes(values[atPayload])
	}
	message.Type = cmp.Or(contentTypes[m.Payload.OID], "text/plain")
	if err := t.headers(row, values, a); err != nil {
		row.Invalid = err
	}
	for i, value := range values[atExtra : atExtra+len(m.extra)] {
		row.Extra[i] = a.text(value)
		if value == nil {
			row.Nulls |= 1 << i
		}
	}
}

var contentTypes = map[uint32]string{
	pgtype.JSONOID:  "application/json",
	pgtype.JSONBOID: "application/json",
	pgtype.ByteaOID: "application/octet-stream",
}

// contentOf hashes everything of a row of which its message is made.
func (t *Table) contentOf(values [][]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(t.relation.seed)
	for _, value := range values {
		size := uint64(len(value)) << 1
		if value == nil {
			size = 1
		}
		var b [8]byte
		_, _ = h.Write(binary.LittleEndian.AppendUint64(b[:0], size))
		_, _ = h.Write(value)
	}
	return h.Sum64()
}

// Same reports whether two reads of a row, of one table or its views, have brought the same content.
func (r *Row) Same(other *Row) bool { return r.content == other.content }

// headers fills in the row's own headers and after them the columns that are sent as headers. Of two headers with the
// same name, the row's own is kept.
func (t *Table) headers(row *Row, values [][]byte, a *arena) error {
	message := &row.Message
	object := values[atHeaders]
	if object == nil && len(t.mapping.placed) == 0 {
		return nil
	}
	if cap(a.headers)-len(a.headers) < 8+len(t.mapping.placed) {
		size := min(max(2*cap(a.headers), arenaFirstHeaders), arenaHeaders)
		a.headers = make([]publisher.Header, 0, size+len(t.mapping.placed))
	}
	start := len(a.headers)
	var err error
	if object != nil {
		a.headers, err = parseHeaders(a.headers, object, a)
	}
	if t.view.FailedOf != nil {
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

// idText returns an id as people write it.
func (t *Table) idText(value []byte, a *arena) string {
	if value == nil {
		return ""
	}
	switch t.mapping.ID.OID {
	case pgtype.UUIDOID:
		return pgtype.UUID{Bytes: [16]byte(value), Valid: true}.String()
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
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

// timeOf reads a binary timestamp, with or without time zone, as UTC. NULL and infinity become the zero time. So do
// times from the year 294247 on, the end of PostgreSQL's calendar, which would overflow microseconds since 1970 into
// the distant past.
func timeOf(value []byte) time.Time {
	micros := ordinal(value)
	if value == nil || micros > math.MaxInt64-epoch.UnixMicro() || micros == math.MinInt64 {
		return time.Time{}
	}
	return time.UnixMicro(epoch.UnixMicro() + micros).UTC()
}
