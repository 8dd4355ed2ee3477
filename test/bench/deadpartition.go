package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/services/cluster"
	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// besideDeadPartition measures rows beside those of a topic of which one partition of 12 is dead: its only replica is
// on a node that was killed. The cluster is Kafka's and the study's own; the healthy topic is on its other nodes.
func (l *lab) besideDeadPartition(ctx context.Context, r *report) error {
	dir, err := os.MkdirTemp(l.dir, "cluster-")
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(limited, "kafka", cluster.Options{Checkout: "../..", Dir: dir})
	if err != nil {
		return err
	}
	defer c.Close()
	return on("kafka", c.Nodes()[0].URL, func(b broker) error {
		b.url, b.Broker = c.URL(), onlyAt{b.Broker, []int{1, 2}}
		return l.compareTrouble(ctx, b, r, deadPartition(c))
	})
}

// onlyAt is a Kafka whose topics have one replica, on some of the nodes.
type onlyAt struct {
	testkit.Broker
	nodes []int // ids
}

func (o onlyAt) Create(ctx context.Context, t testkit.Topic) error {
	t.Configs = map[string]string{"min.insync.replicas": "1"}
	for i := range t.Partitions {
		t.Nodes = append(t.Nodes, o.nodes[i%len(o.nodes)])
	}
	return o.Broker.Create(ctx, t)
}

const deadPartitionName = "keys of a topic with a dead partition"

// deadPartition makes a topic of which the first partition is on a node of its own, and kills that node.
func deadPartition(c cluster.Cluster) trouble {
	lone := c.Nodes()[cluster.Size-1]
	return trouble{
		name: deadPartitionName, numbers: []int{100, 100_000}, mostEnded: 100_000, topic: missing,
		begins: func(ctx context.Context, s *site) error {
			name := s.topicNamed(missing)
			kafka := s.broker
			kafka.Broker = onlyAt{s.broker.Broker.(onlyAt).Broker, []int{cluster.Size, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1}}
			if err := kafka.Create(ctx, testkit.Topic{Name: name, Partitions: 12}); err != nil {
				return err
			}
			s.made = append(s.made, name)
			lone.Kill()
			return heldKeys(ctx, s)
		},
		ends: func(ctx context.Context, _ *site) error {
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return errors.Join(lone.Start(), lone.Ready(limited))
		},
	}
}
