package kafka

import (
	"context"
	"slices"
	"strconv"

	"github.com/segmentio/kafka-go/protocol/describeconfigs"
)

const (
	// largePayload is the payload size in bytes from which the limit of the topic is asked for: the default limit.
	largePayload = 1 << 20
	// resourceTopic is the type of a topic among the resources that have settings.
	resourceTopic = 2
	sizeSetting   = "max.message.bytes"
)

// findLimits asks for the limits of topics to which the call has large records, so that a record above the limit is
// refused without being sent. Nothing is remembered, because a limit may be raised at any time. If the cluster does not
// answer or does not show the settings, the records are sent, and their leaders decide; so they are if batches are
// compressed, because their size is not known before.
func (c *call) findLimits(ctx context.Context) {
	if c.publisher.config.Compression != 0 {
		return
	}
	var names []string
	for i := range c.messages {
		m := &c.messages[i]
		if len(m.Payload) <= largePayload || slices.Contains(names, m.Topic) {
			continue
		}
		if u := c.topics[m.Topic]; u != nil && u.err == nil {
			names = append(names, m.Topic)
		}
	}
	limits, _ := c.publisher.cluster.settings(ctx, names, sizeSetting, false)
	for name, limit := range limits {
		c.topics[name].limit, _ = strconv.Atoi(limit)
	}
}

// settings returns one setting of topics, of those whose settings this client may see. See [request] for dial.
func (c *cluster) settings(ctx context.Context, topics []string, setting string, dial bool) (map[string]string, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	question := &describeconfigs.Request{}
	for _, name := range topics {
		question.Resources = append(question.Resources, describeconfigs.RequestResource{
			ResourceType: resourceTopic, ResourceName: name, ConfigNames: []string{setting},
		})
	}
	m, err := c.ask(ctx, question, dial)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, r := range m.(*describeconfigs.Response).Resources {
		for _, entry := range r.ConfigEntries {
			if entry.ConfigName == setting && slices.Contains(topics, r.ResourceName) {
				found[r.ResourceName] = entry.ConfigValue
			}
		}
	}
	return found, nil
}
