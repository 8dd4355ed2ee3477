package profile

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

type header = publisher.Header

func row() publisher.Message {
	return publisher.Message{
		ID: "8f14e45f-0000-4000-8000-000000000001", DedupID: "dedup", Topic: "order.placed", Key: []byte("käse 1"),
		Payload: []byte(`{"n": 1.50}`), Type: "application/json",
		Inserted: time.Date(2026, 3, 1, 12, 0, 0, 120_000_000, time.UTC),
		Headers:  []header{{Name: "traceparent", Value: "00-1-2-01"}},
	}
}

func apply(t *testing.T, name string, broker publisher.Protocol, m publisher.Message) (publisher.Message, error) {
	t.Helper()
	p, err := New(name, broker, Options{Source: "/shop/outbox"})
	if err != nil {
		t.Fatal(err)
	}
	err = p(&m, 3)
	return m, err
}

// The result of each profile for one row. The golden messages of the end-to-end tests check the same in the broker.
func TestProfiles(t *testing.T) {
	t.Parallel()
	const id = "8f14e45f-0000-4000-8000-000000000001"
	trace := header{Name: "traceparent", Value: "00-1-2-01"}
	for _, c := range []struct {
		profile string
		broker  publisher.Protocol
		headers []header
		key     string
		kind    string
	}{
		{CloudEvents, publisher.ProtocolKafka, []header{
			{Name: "ce_specversion", Value: "1.0"},
			{Name: "ce_id", Value: id},
			{Name: "ce_source", Value: "/shop/outbox"},
			{Name: "ce_type", Value: "order.placed"},
			{Name: "ce_time", Value: "2026-03-01T12:00:00.12Z"},
			{Name: "ce_partitionkey", Value: "käse 1"},
			{Name: "content-type", Value: "application/json"},
			{Name: "ce_traceparent", Value: "00-1-2-01"},
			trace,
		}, "käse 1", ""},
		{CloudEvents, publisher.ProtocolNATS, []header{
			{Name: "ce-specversion", Value: "1.0"},
			{Name: "ce-id", Value: id},
			{Name: "ce-source", Value: "/shop/outbox"},
			{Name: "ce-type", Value: "order.placed"},
			{Name: "ce-time", Value: "2026-03-01T12:00:00.12Z"},
			{Name: "ce-partitionkey", Value: "k%C3%A4se%201"},
			{Name: "ce-datacontenttype", Value: "application/json"},
			{Name: "ce-traceparent", Value: "00-1-2-01"},
			trace,
		}, "käse 1", ""},
		{CloudEvents, publisher.ProtocolAMQP, []header{
			{Name: "cloudEvents:specversion", Value: "1.0"},
			{Name: "cloudEvents:id", Value: id},
			{Name: "cloudEvents:source", Value: "/shop/outbox"},
			{Name: "cloudEvents:type", Value: "order.placed"},
			{Name: "cloudEvents:time", Value: "2026-03-01T12:00:00.12Z"},
			{Name: "cloudEvents:partitionkey", Value: "käse 1"},
			{Name: "cloudEvents:traceparent", Value: "00-1-2-01"},
			trace,
		}, "käse 1", "application/json"},
		{Debezium, publisher.ProtocolKafka, []header{{Name: "id", Value: id}, trace}, "käse 1", ""},
		{Debezium, publisher.ProtocolNATS, []header{{Name: "id", Value: id}, trace}, "käse 1", ""},
		{Debezium, publisher.ProtocolAMQP, []header{{Name: "id", Value: id}, trace}, "käse 1", ""},
		{PhoenixMicro, publisher.ProtocolKafka, nil, id, "application/json"},
		{PhoenixMicro, publisher.ProtocolNATS, []header{
			{Name: "x-message-id", Value: id},
			{Name: "x-attempt", Value: "3"},
			{Name: "content-type", Value: "application/json"},
			trace,
		}, "käse 1", "application/json"},
		{PhoenixMicro, publisher.ProtocolAMQP, []header{trace}, "käse 1", "application/json"},
	} {
		m, err := apply(t, c.profile, c.broker, row())
		if err != nil {
			t.Errorf("%s on %s: %v", c.profile, c.broker, err)
			continue
		}
		if !m.Bare || !reflect.DeepEqual(m.Headers, c.headers) {
			t.Errorf("%s on %s: headers\n got %v\nwant %v", c.profile, c.broker, m.Headers, c.headers)
		}
		if string(m.RecordKey()) != c.key || m.Type != c.kind {
			t.Errorf("%s on %s: key %q, type %q", c.profile, c.broker, m.RecordKey(), m.Type)
		}
		was := row()
		if m.ID != was.ID || m.DedupID != was.DedupID || m.Topic != was.Topic || string(m.Key) != string(was.Key) ||
			string(m.Payload) != string(was.Payload) {
			t.Errorf("%s on %s changed more than it should: %+v", c.profile, c.broker, m)
		}
	}
}

func TestPlainIsLeftToThePublishers(t *testing.T) {
	t.Parallel()
	if p, err := New(Plain, publisher.ProtocolKafka, Options{}); p != nil || err != nil {
		t.Error(err)
	}
	if _, err := New("avro", publisher.ProtocolKafka, Options{}); err == nil {
		t.Error("an unknown profile is taken")
	}
}

func TestAttributesFromHeaders(t *testing.T) {
	t.Parallel()
	m := row()
	m.Headers = []header{
		{Name: "ce_type", Value: "com.shop.order"},
		{Name: "ce-source", Value: "/elsewhere"},
		{Name: "cloudEvents:subject", Value: "order/7"},
		{Name: "cloudEvents_dataschema", Value: "https://shop/schema"},
		{Name: "Content-Type", Value: "text/csv"},
		{Name: "other", Value: "x"},
	}
	got, err := apply(t, CloudEvents, publisher.ProtocolKafka, m)
	if err != nil {
		t.Fatal(err)
	}
	want := []header{
		{Name: "ce_specversion", Value: "1.0"},
		{Name: "ce_id", Value: m.ID},
		{Name: "ce_source", Value: "/elsewhere"},
		{Name: "ce_type", Value: "com.shop.order"},
		{Name: "ce_time", Value: "2026-03-01T12:00:00.12Z"},
		{Name: "ce_partitionkey", Value: "käse 1"},
		{Name: "content-type", Value: "text/csv"},
		{Name: "ce_subject", Value: "order/7"},
		{Name: "ce_dataschema", Value: "https://shop/schema"},
		{Name: "other", Value: "x"},
	}
	if !reflect.DeepEqual(got.Headers, want) {
		t.Errorf("\n got %v\nwant %v", got.Headers, want)
	}
}

// The trace of a row is an attribute, unless the row sets the attribute itself or the text cannot be one.
func TestTraceAttributes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ headers, want []header }{
		"both": {
			[]header{{Name: "TraceParent", Value: "p"}, {Name: "tracestate", Value: "a=1,b= c"}},
			[]header{
				{Name: "ce-traceparent", Value: "p"},
				{Name: "ce-tracestate", Value: "a=1,b=%20c"},
				{Name: "TraceParent", Value: "p"},
				{Name: "tracestate", Value: "a=1,b= c"},
			},
		},
		"own before": {
			[]header{{Name: "ce_traceparent", Value: "own"}, {Name: "traceparent", Value: "p"}},
			[]header{{Name: "ce-traceparent", Value: "own"}, {Name: "traceparent", Value: "p"}},
		},
		"own after": {
			[]header{{Name: "traceparent", Value: "p"}, {Name: "ce_traceparent", Value: "own"}},
			[]header{{Name: "ce-traceparent", Value: "own"}, {Name: "traceparent", Value: "p"}},
		},
		"empty": {[]header{{Name: "traceparent", Value: ""}}, []header{{Name: "traceparent", Value: ""}}},
	} {
		got, err := apply(t, CloudEvents, publisher.ProtocolNATS, publisher.Message{ID: "7", Topic: "t", Headers: c.headers})
		if err != nil || !reflect.DeepEqual(got.Headers[4:], c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got.Headers, err, c.want)
		}
	}
}

// Attributes for which a row has no value are left out: no time, no key, no type.
func TestBareEvent(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, {}} {
		got, err := apply(t, CloudEvents, publisher.ProtocolNATS, publisher.Message{ID: "7", Topic: "t", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		want := []header{
			{Name: "ce-specversion", Value: "1.0"},
			{Name: "ce-id", Value: "7"},
			{Name: "ce-source", Value: "/shop/outbox"},
			{Name: "ce-type", Value: "t"},
		}
		if !reflect.DeepEqual(got.Headers, want) || got.Payload != nil {
			t.Errorf("%+v", got)
		}
	}
}

func TestStructuredEventGoesAsItIs(t *testing.T) {
	t.Parallel()
	m := row()
	m.Headers = append(m.Headers, header{Name: "content-type", Value: "application/cloudevents+json"})
	for broker, want := range map[publisher.Protocol][]header{
		publisher.ProtocolKafka: {
			{Name: "content-type", Value: "application/cloudevents+json"},
			{Name: "traceparent", Value: "00-1-2-01"},
		},
		publisher.ProtocolAMQP: {{Name: "traceparent", Value: "00-1-2-01"}},
	} {
		got, err := apply(t, CloudEvents, broker, m)
		if err != nil || !reflect.DeepEqual(got.Headers, want) || got.ContentType() != "application/cloudevents+json" {
			t.Errorf("%s: %+v, %v", broker, got, err)
		}
	}
}

func TestNullPayload(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		profile    string
		broker     publisher.Protocol
		tombstones bool
		null       bool
	}{
		{Debezium, publisher.ProtocolKafka, false, false},
		{Debezium, publisher.ProtocolKafka, true, true},
		{Debezium, publisher.ProtocolNATS, true, false},
		{Debezium, publisher.ProtocolAMQP, false, false},
		{CloudEvents, publisher.ProtocolKafka, false, true},
		{PhoenixMicro, publisher.ProtocolKafka, false, true},
	} {
		p, err := New(c.profile, c.broker, Options{Source: "/", Tombstones: c.tombstones})
		if err != nil {
			t.Fatal(err)
		}
		m := row()
		m.Payload = nil
		if err := p(&m, 1); err != nil || (m.Payload == nil) != c.null || len(m.Payload) > 0 {
			t.Errorf("%+v: payload %q, %v", c, m.Payload, err)
		}
	}
}

// A row that a format cannot express fails for good; it is never sent as something else.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		profile string
		broker  publisher.Protocol
		change  func(*publisher.Message)
	}{
		"debezium id": {Debezium, publisher.ProtocolKafka, func(m *publisher.Message) {
			m.Headers = []header{{Name: "Id", Value: "1"}}
		}},
		"attempt": {PhoenixMicro, publisher.ProtocolNATS, func(m *publisher.Message) {
			m.Headers = []header{{
				Name:  "X-Attempt",
				Value: "1",
			}}
		}},
		"message id": {PhoenixMicro, publisher.ProtocolNATS, func(m *publisher.Message) {
			m.Headers = []header{{
				Name:  "x-message-id",
				Value: "1",
			}}
		}},
		"event id": {CloudEvents, publisher.ProtocolKafka, func(m *publisher.Message) {
			m.Headers = []header{{
				Name:  "ce_id",
				Value: "1",
			}}
		}},
		"specversion": {CloudEvents, publisher.ProtocolAMQP, func(m *publisher.Message) {
			m.Headers = []header{{
				Name:  "cloudEvents:specversion",
				Value: "2",
			}}
		}},
		"attribute's name": {CloudEvents, publisher.ProtocolKafka, func(m *publisher.Message) {
			m.Headers = []header{{
				Name:  "ce_Data-Type",
				Value: "1",
			}}
		}},
		"attribute's value": {CloudEvents, publisher.ProtocolKafka, func(m *publisher.Message) {
			m.Headers = []header{{
				Name:  "ce_subject",
				Value: "a\nb",
			}}
		}},
		"empty attribute": {CloudEvents, publisher.ProtocolKafka, func(m *publisher.Message) {
			m.Headers = []header{{
				Name:  "ce_subject",
				Value: "",
			}}
		}},
		"no type": {CloudEvents, publisher.ProtocolKafka, func(m *publisher.Message) { m.Topic = "" }},
		"key":     {CloudEvents, publisher.ProtocolNATS, func(m *publisher.Message) { m.Key = []byte("a\u0085b") }},
	} {
		m := row()
		c.change(&m)
		if _, err := apply(t, c.profile, c.broker, m); publisher.ClassOf(err) != publisher.Permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The examples of the binding's text, and its rule for unencoded characters.
func TestPercentEncode(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"Euro € 😀": "Euro%20%E2%82%AC%20%F0%9F%98%80",
		`a"b%c`:    "a%22b%25c",
		"~!\x7f":   "~!%7F",
		"plain":    "plain",
		"":         "",
	} {
		if got := percentEncode(value); got != want {
			t.Errorf("%q is encoded as %q, want %q", value, got, want)
		}
	}
}

// For one row, a profile allocates the headers, and new texts: names and values of attributes.
func TestAllocations(t *testing.T) {
	for name, most := range map[string]float64{CloudEvents: 12, Debezium: 1, PhoenixMicro: 1} {
		p, err := New(name, publisher.ProtocolKafka, Options{Source: "/"})
		if err != nil {
			t.Fatal(err)
		}
		was := row()
		var m publisher.Message
		if got := testing.AllocsPerRun(100, func() {
			m = was
			if err := p(&m, 1); err != nil {
				t.Fatal(err)
			}
		}); got > most {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func FuzzCloudEvents(f *testing.F) {
	f.Add("id", "topic", "ce_subject", "värde", "key")
	f.Fuzz(func(t *testing.T, id, topic, name, value, key string) {
		p, err := New(CloudEvents, publisher.ProtocolNATS, Options{Source: "/"})
		if err != nil {
			t.Fatal(err)
		}
		m := publisher.Message{ID: id, Topic: topic, Key: []byte(key), Headers: []header{{Name: name, Value: value}}}
		if err := p(&m, 1); err != nil {
			if publisher.ClassOf(err) != publisher.Permanent {
				t.Errorf("%v", err)
			}
			return
		}
		for _, h := range m.Headers {
			if strings.HasPrefix(h.Name, "ce-") && strings.ContainsFunc(h.Value, func(r rune) bool {
				return r <= ' ' || r > '~'
			}) {
				t.Errorf("%s has the value %q", h.Name, h.Value)
			}
		}
	})
}
