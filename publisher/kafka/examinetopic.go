package kafka

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// resourceTopic is the type of a topic among the resources that have settings.
const resourceTopic = 2

// Settings of a topic that decide what an acknowledgement guarantees and which rows the topic takes.
var topicSettings = []string{
	"min.insync.replicas", "unclean.leader.election.enable", "max.message.bytes", "cleanup.policy",
}

// settings examines the topics' settings.
func (e *examination) settings(ctx context.Context, topics []*metadata.ResponseTopic) {
	if len(topics) == 0 {
		return
	}
	request := &describeconfigs.Request{}
	for _, t := range topics {
		request.Resources = append(request.Resources, describeconfigs.RequestResource{
			ResourceType: resourceTopic, ResourceName: t.Name, ConfigNames: topicSettings,
		})
	}
	answer, err := e.p.cluster.ask(ctx, request, true)
	if err != nil {
		e.Warn(inspect.Replication, "", "the topics' settings cannot be read: "+err.Error(),
			"grant DESCRIBE_CONFIGS on them")
		return
	}
	resources := map[string]describeconfigs.ResponseResource{}
	for _, r := range answer.(*describeconfigs.Response).Resources {
		resources[r.ResourceName] = r
	}
	for _, t := range topics {
		r, found := resources[t.Name]
		value := map[string]string{}
		for _, entry := range r.ConfigEntries {
			value[entry.ConfigName] = entry.ConfigValue
		}
		insync, _ := strconv.Atoi(value["min.insync.replicas"])
		e.replicas(t, insync)
		if !found || r.ErrorCode != 0 {
			reason := kafkago.Error(cmp.Or(r.ErrorCode, int16(kafkago.Unknown)))
			e.Warn(inspect.Replication, t.Name, "its settings cannot be read, and so not what an acknowledgement is "+
				"worth: "+reason.Error(), "grant DESCRIBE_CONFIGS on it")
			continue
		}
		// The relay waits for acks=all, which is worth what the replicas in sync are worth: one that was elected
		// without being in sync makes the others drop what it lacks.
		e.Add(checkElection, t.Name,
			finding.FailIf(value["unclean.leader.election.enable"] == "true",
				"unclean.leader.election.enable is true: a replica that lacks acknowledged messages may become "+
					"leader, and they are lost", "set it to false"),
			finding.OKIf(true, "only replicas in sync become leader"))
		limit, err := strconv.Atoi(value["max.message.bytes"])
		size := fmt.Sprintf("takes batches of up to %d bytes; a row above that fails", limit)
		e.Add(inspect.Size, t.Name,
			finding.WarnIf(err == nil && limit < maxBatchBytes, size,
				"raise max.message.bytes, if rows may be larger"),
			finding.OKIf(err == nil, size))
		// The broker refuses records without a key in a compacted topic.
		e.Add(inspect.Topic, t.Name, finding.WarnIf(strings.Contains(value["cleanup.policy"], "compact"),
			"is compacted: rows without a key fail, and of each key only the last message is kept",
			"give each row a key, or set cleanup.policy to delete"))
	}
}

// replicas compares the number of replicas with how many must have a message before it is acknowledged. An insync of
// 0 means unknown.
func (e *examination) replicas(t *metadata.ResponseTopic, insync int) {
	fewest, behind := 0, 0
	for i := range t.Partitions {
		p := &t.Partitions[i]
		if n := len(p.ReplicaNodes); i == 0 || n < fewest {
			fewest = n
		}
		if len(p.IsrNodes) < len(p.ReplicaNodes) {
			behind++
		}
	}
	found := fmt.Sprintf("%d replicas", fewest)
	if insync > 0 {
		found += fmt.Sprintf(", of which %d must have a message, in memory, before it is acknowledged", insync)
	}
	// Kafka acknowledges from memory and leaves the disk to the operating system, so only other brokers protect a
	// message.
	e.Add(inspect.Replication, t.Name,
		finding.FailIf(insync > fewest, found+": it takes no message at all",
			"lower min.insync.replicas, or add replicas"),
		finding.WarnIf(fewest == 1, found+": an acknowledged message is lost with that broker's disk",
			"give it 3 replicas and min.insync.replicas=2"),
		finding.WarnIf(insync == 1, found+": with the others out of sync an acknowledged message is on one disk alone",
			"set min.insync.replicas=2"),
		finding.WarnIf(insync == fewest, found+": it takes no message while any of them is away",
			"lower min.insync.replicas, or add a replica"),
		finding.OKIf(true, found))
	e.Add(inspect.Replication, t.Name, finding.WarnIf(behind > 0,
		fmt.Sprintf("%d of its %d partitions have replicas out of sync", behind, len(t.Partitions)),
		"look after the brokers that are away or slow"))
}
