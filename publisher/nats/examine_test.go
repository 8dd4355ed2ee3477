package nats_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/publisher/nats"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// about returns the findings about one subject, each as severity and check.
func about(findings []finding.Finding, subject string) []string {
	var list []string
	for _, f := range findings {
		if f.Subject == subject {
			list = append(list, fmt.Sprint(f.Severity, " ", f.Check))
		}
	}
	return list
}

func TestExamine(t *testing.T) {
	js := broker(t)
	for name, test := range map[string]struct {
		config jetstream.StreamConfig
		seal   bool
		want   []string
	}{
		"good": {
			jetstream.StreamConfig{},
			false,
			[]string{"ok stream", "warning replication", "ok storage", "ok limits", "ok duplicate_window"},
		},
		"in memory": {
			jetstream.StreamConfig{Storage: jetstream.MemoryStorage},
			false,
			[]string{"ok stream", "warning replication", "warning storage", "ok limits", "ok duplicate_window"},
		},
		"acknowledges before it writes": {
			jetstream.StreamConfig{PersistMode: jetstream.AsyncPersistMode},
			false,
			[]string{"ok stream", "warning replication", "error storage", "ok limits", "ok duplicate_window"},
		},
		"keeps nothing": {
			jetstream.StreamConfig{Retention: jetstream.InterestPolicy},
			false,
			[]string{"ok stream", "warning replication", "ok storage", "warning retention", "ok limits", "ok duplicate_window"},
		},
		"sealed": {
			jetstream.StreamConfig{},
			true,
			[]string{"error stream", "warning replication", "ok storage", "ok limits", "ok duplicate_window"},
		},
		"without acknowledgements": {
			jetstream.StreamConfig{NoAck: true},
			false,
			[]string{"error stream", "warning replication", "ok storage", "ok limits", "ok duplicate_window"},
		},
		"short window": {
			jetstream.StreamConfig{MaxMsgs: 10, Discard: jetstream.DiscardNew, Duplicates: time.Second},
			false,
			[]string{"ok stream", "warning replication", "ok storage", "ok limits", "warning duplicate_window"},
		},
		"limited": {
			jetstream.StreamConfig{MaxMsgs: 10, MaxMsgSize: 1000},
			false,
			[]string{"ok stream", "warning replication", "ok storage", "ok limits", "ok duplicate_window"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			topic := harness{}.Unknown(t)
			test.config.Subjects = []string{topic + ".*"}
			s := stream(t, js, test.config)
			p := open(t, nats.Config{})
			if test.seal {
				config := s.CachedInfo().Config
				config.Sealed = true
				if _, err := js.UpdateStream(timely(t), config); err != nil {
					t.Fatal(err)
				}
			}
			unknown := harness{}.Unknown(t)
			findings := p.Examine(timely(t), publishertest.Addresses(topic+".b", unknown, topic+".a", "a b"))
			if got := about(findings, s.CachedInfo().Config.Name); !slices.Equal(got, test.want) {
				t.Errorf("found %q, want %q", got, test.want)
			}
			for subject, want := range map[string]string{
				topic + ".a": "ok topic", topic + ".b": "ok topic", unknown: "error topic",
				`"a b"`: "error topic",
			} {
				if got := about(findings, subject); len(got) != 1 || got[0] != want {
					t.Errorf("about %s found %q, want %q", subject, got, want)
				}
			}
			if got := about(findings, ""); !slices.Equal(got, []string{"ok jetstream"}) {
				t.Errorf("of JetStream found %q", got)
			}
			for _, f := range findings {
				if f.Found == "" || (f.Remedy == "") != (f.Severity == finding.OK) || strings.Contains(f.Found+f.Remedy, "\n") {
					t.Errorf("%+v lacks words, or has too many", f)
				}
			}
		})
	}
}

func TestExamineWrongStream(t *testing.T) {
	topic := harness{}.Unknown(t)
	stream(t, broker(t), jetstream.StreamConfig{Subjects: []string{topic}})
	p := open(t, nats.Config{Stream: "ANOTHER"})
	if got := about(p.Examine(timely(t), publishertest.Addresses(topic)), topic); !slices.Equal(got,
		[]string{"error topic"}) {
		t.Errorf("found %q", got)
	}
}

// A user who may not examine the server gets warnings, and gets them at once.
func TestExamineDenied(t *testing.T) {
	f := (&fake{publish: func(c *fakeConn, subject, _, _ string) {
		c.say("-ERR 'Permissions Violation for Publish to %q'", subject)
	}}).start(t)
	p := open(t, nats.Config{Servers: []string{f.address}})
	findings := p.Examine(timely(t), publishertest.Addresses("a"))
	for subject, want := range map[string][]string{"": {"warning permission"}, "a": {"warning permission"}} {
		if got := about(findings, subject); !slices.Equal(got, want) {
			t.Errorf("about %q found %q, want %q", subject, got, want)
		}
	}
}

func TestExamineUnreachable(t *testing.T) {
	nobody := (&fake{}).start(t)
	nobody.stop()
	refuses := (&fake{login: func(string, string) error { return errors.New("Authorization Violation") }}).start(t)
	asked := make(chan struct{}, 100)
	hung := (&fake{publish: func(*fakeConn, string, string, string) { asked <- struct{}{} }}).start(t)
	for name, test := range map[string]struct {
		address string
		want    string
	}{
		"nobody":  {nobody.address, "error reach"},
		"refused": {refuses.address, "error authentication"},
		"hung":    {hung.address, "error jetstream"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if name == "hung" {
				go func() { <-asked; cancel() }()
			}
			p := open(t, nats.Config{Servers: []string{test.address}})
			findings := p.Examine(ctx, publishertest.Addresses("a"))
			subject := test.address
			if name == "hung" { // it is reached
				subject = ""
			}
			if got := about(findings, subject); !slices.Equal(got, []string{test.want}) {
				t.Errorf("found %q, want %q", got, test.want)
			}
			if last := findings[len(findings)-1]; last.Remedy == "" || !strings.Contains(last.Subject+last.Found, test.address) {
				t.Errorf("%+v does not name the server, or what to do", last)
			}
		})
	}
}
