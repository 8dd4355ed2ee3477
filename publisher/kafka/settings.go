package kafka

import (
	"context"
	"slices"

	"github.com/segmentio/kafka-go/protocol/describeconfigs"
)

// resourceTopic is the type of a topic among the resources that have settings.
const resourceTopic = 2

// settings returns one setting of topics, of those whose settings this client may see.
func (c *cluster) settings(ctx context.Context, topics []string, setting string) (map[string]string, error) {
	if len(topics) == 0 {
		return nil, nil
	}
	question := &describeconfigs.Request{}
	for _, name := range topics {
		question.Resources = append(question.Resources, describeconfigs.RequestResource{
			ResourceType: resourceTopic, ResourceName: name, ConfigNames: []string{setting},
		})
	}
	m, err := c.ask(ctx, question, true)
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
