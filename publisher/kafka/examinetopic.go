package kafka

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/metadata"

	"github.com/outbox-relay/outbox-relay/internal/inspect"
	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// Settings of a topic that decide what an acknowledgement guarantees and which rows the topic takes.
const (
	minInSync = "min.insync.replicas"
	election  = "unclean.leader.election.enable"
	maxBytes  = "max.message.bytes"
	cleanup   = "cleanup.policy"
)

// resourceTopic is the type of a topic among the resources that have settings.
const resourceTopic = 2

// settings returns the settings above by topic. Topics whose settings may not be read are left out.
func (c *cluster) settings(ctx context.Context, topics []string) (map[string]map[string]string, error) {
	request := &describeconfigs.Request{}
	for _, topic := range topics {
		request.Resources = append(request.Resources, describeconfigs.RequestResource{
			ResourceType: resourceTopic, ResourceName: topic,
			ConfigNames: []string{minInSync, election, maxBytes, cleanup},
		})
	}
	answer, err := c.ask(ctx, request, true)
	if err != nil {
		return nil, err
	}
	values := map[string]map[string]string{}
	for _, r := range answer.(*describeconfigs.Response).Resources {
		if r.ErrorCode != 0 {
			continue
		}
		values[r.ResourceName] = map[string]string{}
		for _, entry := range r.ConfigEntries {
			values[r.ResourceName][entry.ConfigName] = entry.ConfigValue
		}
	}
	return values, nil
}

// settings examines what topics that can be used guarantee.
func (e *examination) settings(ctx context.Context, topics []*metadata.ResponseTopic) {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	values, err := e.p.cluster.settings(ctx, names)
	unread := "its settings cannot be read, and so not what an acknowledgement is worth"
	if err != nil {
		unread += ": " + err.Error()
	}
	for _, t := range topics {
		value, found := values[t.Name]
		e.replicas(t, value[minInSync])
		if !found {
			e.Warn(inspect.Replication, t.Name, unread, "grant DESCRIBE_CONFIGS on it")
			continue
		}
		// The relay waits for acks=all, which is worth what the replicas in sync are worth: one that was elected
		// without being in sync makes the others drop what it lacks.
		e.Add(checkElection, t.Name,
			finding.FailIf(value[election] == "true", election+" is true: a replica that lacks acknowledged messages "+
				"may become leader, and they are lost", "set it to false"),
			finding.OKIf(true, "only replicas in sync become leader"))
		limit, err := strconv.Atoi(value[maxBytes])
		size := fmt.Sprintf("takes batches of up to %d bytes; a row above that fails", limit)
		e.Add(inspect.Size, t.Name,
			finding.WarnIf(err == nil && limit < maxBatchBytes, size, "raise "+maxBytes+", if rows may be larger"),
			finding.OKIf(err == nil, size))
		// The broker refuses records without a key in a compacted topic.
		e.Add(inspect.Topic, t.Name, finding.WarnIf(strings.Contains(value[cleanup], "compact"),
			"is compacted: rows without a key fail, and of each key only the last message is kept",
			"give each row a key, or set "+cleanup+" to delete"))
	}
}

// replicas compares the number of replicas with how many must have a message before it is acknowledged. Kafka
// acknowledges from memory and leaves the disk to the operating system, so only other brokers protect a message.
func (e *examination) replicas(t *metadata.ResponseTopic, least string) {
	fewest := len(t.Partitions[0].ReplicaNodes)
	for i := range t.Partitions {
		fewest = min(fewest, len(t.Partitions[i].ReplicaNodes))
	}
	found := fmt.Sprintf("%d replicas", fewest)
	insync, err := strconv.Atoi(least)
	if err == nil {
		found += fmt.Sprintf(", of which %d must have a message, in memory, before it is acknowledged", insync)
	}
	e.Add(inspect.Replication, t.Name,
		finding.FailIf(insync > fewest, found+": it takes no message at all",
			"lower "+minInSync+", or add replicas"),
		finding.WarnIf(fewest == 1 || insync == 1, found+": an acknowledged message may be on one disk alone",
			"give it 3 replicas and "+minInSync+"=2"),
		finding.WarnIf(insync == fewest, found+": it takes no message while any of them is away",
			"lower "+minInSync+", or add a replica"),
		finding.OKIf(true, found))
}
