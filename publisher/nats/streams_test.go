package nats

import (
	"testing"
	"time"
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
	if !s.mayAsk(now) || s.mayAsk(now) || !s.mayAsk(now.Add(askAgain)) {
		t.Error("a question is asked twice, or not again when no answer comes")
	}
	s.learn(&stream{subjects: []string{"other"}, learned: now})
	s.learn(&stream{subjects: []string{"another"}, learned: now})
	s.learn(&stream{name: "A", subjects: []string{"a.*"}, leader: "n1", learned: now})
	if found := s.find("a.2"); found == nil || found.name != "A" {
		t.Fatalf("the stream is %+v", found)
	}
	if before := s.learn(&stream{name: "A", subjects: []string{"b"}, leader: "n2", learned: now}); before != "n1" {
		t.Errorf("the leader before was %q", before)
	}
	if found := s.find("a.2"); found != nil || len(s.known) != 3 {
		t.Errorf("what is old is still known: %+v of %d", found, len(s.known))
	}
	s.learn(&stream{subjects: []string{"b"}, learned: now})
	if found := s.find("b"); found == nil || found.name != "" {
		t.Errorf("a stream that is gone is still known: %+v", found)
	}
	s.learn(&stream{name: "A", subjects: []string{">"}, learned: now})
	if found := s.find("other"); found == nil || found.name != "A" || len(s.known) != 1 {
		t.Errorf("a subject has no stream any more: %+v of %d", found, len(s.known))
	}
}
