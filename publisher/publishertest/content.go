package publishertest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/publisher"
)

var contentTrials = []trial{
	{"carries payloads, keys, headers and content types", carries},
	{"carries what is unusual unchanged or refuses it", carriesOrRefuses},
}

func carries(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	all := messages(9, 9, topic)
	all[0].Payload = nil
	all[1].Payload = []byte{}
	all[2].Payload, all[2].Type = noise(5000), "application/octet-stream"
	all[3].Payload, all[3].Type = []byte("Grüße, 世界\n"), "text/plain"
	all[4].Key = nil
	all[5].Key = []byte{}
	all[6].Headers = []publisher.Header{
		{Name: "traceparent", Value: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		{Name: "X-Tenant", Value: "Zürich 東京 🚀"},
		{Name: "x_tenant", Value: `{"a": [1, 2.50]}`},
		{Name: "x-other", Value: "a: b; c=\"d\""},
	}
	all[7].Headers = []publisher.Header{
		{Name: "content-type", Value: "application/vnd.order+json"},
		{Name: "x", Value: "y"},
	}
	all[8].Type = ""
	j.accept(all)
	j.compare(topic)
	received := h.Received(t, topic, len(all))
	for i := range all {
		sameContent(t, &all[i], find(t, received, all[i].ID))
	}
	if empty := find(t, received, all[1].ID); empty.Payload == nil {
		t.Error("an empty payload arrived as a null one")
	}
}

func carriesOrRefuses(t *testing.T, h Harness) {
	j := newJournal(t, h, NewNetwork())
	topic := h.Topic(t)
	var all []publisher.Message
	add := func(change func(*publisher.Message)) {
		neighbour, unusual := message(topic, fmt.Sprint("neighbour-", len(all)%4)),
			message(topic, fmt.Sprint("unusual-", len(all)))
		change(&unusual)
		all = append(all, neighbour, unusual)
	}
	long := strings.Repeat("0123456789", 30)
	for _, name := range []string{"", "a b", "a:b", "é", "a\r\nb", "a\x00b", " a", long} {
		add(func(m *publisher.Message) { m.Headers = []publisher.Header{{Name: name, Value: "value"}} })
	}
	for _, value := range []string{"", " a", "a ", "a\nb", "a\r\nb: c", "a\x00b", long, strings.Repeat(long, 700)} {
		add(func(m *publisher.Message) { m.Headers = []publisher.Header{{Name: "name", Value: value}} })
	}
	for _, key := range []string{"a\r\nb", "\xff\x00\xfe", " a ", "é", long} {
		add(func(m *publisher.Message) { m.Key = []byte(key) })
	}
	for _, id := range []string{"a b", "a\r\nb", " a", "é", long} {
		add(func(m *publisher.Message) { m.ID, m.DedupID = newID()+id, newID()+id })
	}
	for _, value := range []string{"a\r\nb", "", long} {
		add(func(m *publisher.Message) {
			m.Headers = []publisher.Header{{Name: "content-type", Value: value}, {Name: "correlation-id", Value: value}}
		})
	}
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)} {
		add(func(m *publisher.Message) { m.Inserted = at })
	}
	add(func(m *publisher.Message) {
		m.Headers = []publisher.Header{{Name: "Case", Value: "1"}, {Name: "case", Value: "2"}}
	})

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answers := j.publish(ctx, all)
	expect(t, answers, publisher.Accepted, publisher.Permanent)
	accepted := 0
	for i := range all {
		if i%2 == 0 {
			expect(t, answers[i:i+1], publisher.Accepted)
		}
		if publisher.ClassOf(answers[i]) == publisher.Accepted {
			accepted++
		}
	}
	j.compare(topic)
	received := h.Received(t, topic, accepted)
	for i := range all {
		if publisher.ClassOf(answers[i]) == publisher.Accepted {
			sameContent(t, &all[i], find(t, received, all[i].ID))
		}
	}
}

// sameContent reports differences between what arrived and what was sent. The content type and the correlation id may
// be in other fields.
func sameContent(t *testing.T, sent, got *publisher.Message) {
	t.Helper()
	different := differences(sent, got)
	if want := sent.ContentType(); want != got.Type {
		different = append(different, fmt.Sprintf("content type: sent %q, received %q", want, got.Type))
	}
	for _, header := range sent.Headers {
		if header.Name != publisher.HeaderContentType && header.Name != "correlation-id" &&
			!slices.Contains(got.Headers, header) {
			different = append(different, fmt.Sprintf("header %.40q: sent %.40q, received only %.400v",
				header.Name, header.Value, got.Headers))
		}
	}
	for _, one := range different {
		t.Error("another " + one)
	}
}

// differences returns the fields by which a message that arrived differs from the one that was sent, with both values,
// which are shortened to where they begin to differ.
func differences(sent, got *publisher.Message) (found []string) {
	for _, field := range []struct {
		name      string
		sent, got []byte
	}{{"payload", sent.Payload, got.Payload}, {"key", sent.Key, got.Key}} {
		none := field.name == "key" && (field.sent == nil) != (field.got == nil) // some brokers have no null payload
		if !none && bytes.Equal(field.sent, field.got) {
			continue
		}
		same := 0
		for same < min(len(field.sent), len(field.got)) && field.sent[same] == field.got[same] {
			same++
		}
		found = append(found, fmt.Sprintf("%s: sent %s, received %s",
			field.name, excerpt(field.sent, same), excerpt(field.got, same)))
	}
	return found
}

// excerpt returns a value for a person to read: at most 40 bytes of it, beginning a little before the offset.
func excerpt(value []byte, offset int) string {
	const most, before = 40, 8
	if value == nil {
		return "none"
	}
	if len(value) <= most {
		return fmt.Sprintf("%q", value)
	}
	from := min(max(offset-before, 0), len(value)-most)
	return fmt.Sprintf("%q (bytes %d to %d of %d)", value[from:from+most], from, from+most, len(value))
}

func find(t *testing.T, received []publisher.Message, id string) *publisher.Message {
	t.Helper()
	for i := range received {
		if received[i].ID == id {
			return &received[i]
		}
	}
	t.Fatalf("message %q did not arrive", id)
	return nil
}
