package nats

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "a.b", false},
		{"a.b", "a", false},
		{"a.b", "a.b", true},
		{"*", "a", true},
		{"*", "a.b", false},
		{"a.*", "a.b", true},
		{"a.*", "a", false},
		{"a.*", "b.a", false},
		{"a.*.c", "a.b.c", true},
		{"a.*.c", "a.b.d", false},
		{">", "a", true},
		{">", "a.b.c", true},
		{"a.>", "a.b.c", true},
		{"a.>", "a", false},
		{"a.>", "b.c", false},
	} {
		if got := matches(test.pattern, test.subject); got != test.want {
			t.Errorf("%q matches %q: %t", test.pattern, test.subject, got)
		}
	}
}

func TestStreams(t *testing.T) {
	now := time.Now()
	var s streams
	if found, ask := s.of("a.1", now, freshFor); found != nil || !ask {
		t.Fatal("what is not known is not asked for")
	}
	if _, ask := s.of("a.1", now, freshFor); ask {
		t.Error("it is asked for twice")
	}
	if _, ask := s.of("a.1", now.Add(askAgain), freshFor); !ask {
		t.Error("it is not asked for again when no answer comes")
	}
	s.learn(&stream{subjects: []string{"other"}, learned: now})
	s.learn(&stream{subjects: []string{"another"}, learned: now})
	s.learn(&stream{name: "A", subjects: []string{"a.*"}, atomic: true, worth: 8, learned: now})
	found, ask := s.of("a.2", now, freshFor)
	if found == nil || found.name != "A" || ask {
		t.Fatalf("the stream is %+v, asked for: %t", found, ask)
	}
	if found, ask := s.of("a.2", now.Add(freshFor), freshFor); found == nil || !ask {
		t.Error("what is old is forgotten, or not asked for")
	}
	s.learn(&stream{name: "A", subjects: []string{"b"}, learned: now})
	if found, _ := s.of("a.2", now, freshFor); found != nil || len(s.known) != 3 {
		t.Errorf("what is old is still known: %+v of %d", found, len(s.known))
	}
	s.learn(&stream{subjects: []string{"b"}, learned: now})
	if found, _ := s.of("b", now, freshFor); found == nil || found.name != "" {
		t.Errorf("a stream that is gone is still known: %+v", found)
	}
	s.learn(&stream{name: "A", subjects: []string{">"}, learned: now})
	if found, _ := s.of("other", now, freshFor); found == nil || found.name != "A" || len(s.known) != 1 {
		t.Errorf("a subject has no stream any more: %+v of %d", found, len(s.known))
	}
	s.close()
	if _, ask := s.of("other", now.Add(time.Hour), freshFor); ask {
		t.Error("it is asked for although that is not permitted")
	}
}

// An answer belongs to the subject of its question, also when another question has been asked meanwhile.
func TestAnswersBelongToTheirQuestions(t *testing.T) {
	l := &link{inbox: "_INBOX.X."}
	l.streams.mayAsk(time.Now())
	l.learn(&nats.Msg{Subject: l.lookupAddress("b"), Data: []byte(`{"streams":[]}`)})
	l.learn(&nats.Msg{Subject: l.lookupAddress("a.>"), Data: []byte(`{"error":{"code":503}}`)})
	if a, b := l.streams.find("a.1"), l.streams.find("b"); a == nil || !a.away || b == nil || b.away {
		t.Errorf("of the two subjects is known: %+v and %+v", a, b)
	}
}
