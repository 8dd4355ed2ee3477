package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/outbox-relay/outbox-relay/publisher"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
	"github.com/outbox-relay/outbox-relay/publisher/publishertest"
)

// examine returns the findings of an examination through a publisher.
func examine(t *testing.T, p *Publisher, addresses []publisher.Address) []finding.Finding {
	t.Helper()
	return p.Examine(t.Context(), addresses)
}

// findings returns severity, check and subject of each finding, limited to the given checks if there are any.
func findings(list []finding.Finding, checks ...string) []string {
	var short []string
	for _, f := range list {
		if len(checks) == 0 || slices.Contains(checks, f.Check) {
			short = append(short, fmt.Sprintf("%s %s %s", f.Severity, f.Check, f.Subject))
		}
	}
	slices.Sort(short)
	return short
}

func wellFormed(t *testing.T, list []finding.Finding) {
	t.Helper()
	for _, f := range list {
		if f.Check == "" || f.Found == "" || strings.HasSuffix(f.Found, ".") ||
			(f.Severity == finding.OK) != (f.Remedy == "") {
			t.Errorf("not well formed: %+v", f)
		}
	}
}

// The findings on the real broker for topics that are in order, and for others.
func TestExamineBroker(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := h.open(t, publishertest.NewNetwork())
	good := h.topic(t, 3)
	odd := h.topic(t, 1, kafkago.ConfigEntry{ConfigName: "unclean.leader.election.enable", ConfigValue: "true"},
		kafkago.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "5000"},
		kafkago.ConfigEntry{ConfigName: "cleanup.policy", ConfigValue: "compact"},
		kafkago.ConfigEntry{ConfigName: "min.insync.replicas", ConfigValue: "2"})
	unknown := h.unknown()
	list := examine(t, p, publishertest.Addresses(good, odd, unknown, "a b"))
	wellFormed(t, list)
	address := ""
	for _, f := range list {
		if f.Check == "reach" {
			address = f.Subject
		}
	}
	want := []string{
		"ok reach " + address, "warning authentication ", `error topic "a b"`, "error topic " + unknown,
		"ok topic " + good, "warning replication " + good, "ok unclean_election " + good, "ok message_size " + good,
		"ok topic " + odd, "warning topic " + odd, "error replication " + odd, "error unclean_election " + odd,
		"warning message_size " + odd,
	}
	slices.Sort(want)
	expect(t, "findings", findings(list), want...)
}

func TestExamineReplication(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replicas, insync int
		least            string
		want             []string
	}{
		"safe":             {3, 3, "2", []string{"ok replication t"}},
		"one has to be":    {3, 3, "1", []string{"warning replication t"}},
		"all have to be":   {3, 3, "3", []string{"warning replication t"}},
		"one replica":      {1, 1, "1", []string{"warning replication t"}},
		"takes nothing":    {2, 2, "3", []string{"error replication t"}},
		"one is behind":    {3, 2, "2", []string{"ok replication t"}},
		"cannot be looked": {3, 3, "", []string{"ok replication t", "warning replication t"}},
	} {
		f := newFakeCluster(t, 1)
		f.topic("t", 0)
		f.replicas, f.insync = test.replicas, test.insync
		if test.least != "" {
			f.settings = map[string]string{"min.insync.replicas": test.least}
		}
		list := examine(t, f.open(), publishertest.Addresses("t"))
		wellFormed(t, list)
		expect(t, name, findings(list, "replication"), test.want...)
	}
}

func TestExamineTopic(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 1)
	f.topic("t", 0, -1)
	f.allowed = 1 << 3 // READ
	f.identities = func() kafkago.Error { return kafkago.ClusterAuthorizationFailed }
	list := examine(t, f.open(), publishertest.Addresses("t"))
	wellFormed(t, list)
	expect(t, "findings", findings(list, "topic", "permission", "idempotence"), "error idempotence ", "error permission t",
		"error topic t")
}

// A topic that the user may not see is a finding, and is not examined further.
func TestHiddenTopic(t *testing.T) {
	t.Parallel()
	e := &examination{}
	if e.topic(&metadata.ResponseTopic{Name: "hidden", ErrorCode: int16(kafkago.TopicAuthorizationFailed)}) {
		t.Error("the topic is examined further")
	}
	expect(t, "findings", findings(e.List), "error topic hidden")
}

func TestExamineWithoutBroker(t *testing.T) {
	t.Parallel()
	f := newFakeCluster(t, 2)
	f.topic("t", 0)
	address := func(i int) string { return f.brokers[i].listener.Addr().String() }
	f.setDown(1, true)
	expect(t, "one away", findings(examine(t, f.open(), nil), "reach"), "error reach "+address(1), "ok reach "+address(0))
	f.setDown(0, true)
	list := examine(t, f.open(), publishertest.Addresses("t"))
	wellFormed(t, list)
	expect(t, "all away", findings(list), "error reach "+address(0))
	f = newFakeCluster(t, 1)
	f.password = "right"
	list = examine(t, f.open(func(c *Config) { c.SASL = plainLogin("secret") }), nil)
	wellFormed(t, list)
	expect(t, "a wrong password", findings(list), "error authentication "+f.brokers[0].listener.Addr().String())
	if strings.Contains(fmt.Sprint(list), "secret") {
		t.Errorf("the password is shown: %v", list)
	}
}
