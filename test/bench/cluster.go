package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/services/cluster"
	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// nodeFaults are the faults of one node of three that are measured.
var nodeFaults = []cluster.Fault{cluster.Kill, cluster.Freeze, cluster.Blackhole}

const (
	victim      = 1 // number of the node that leads the topic of that number and to which the relay is connected
	clusterRate = 300
	soonAfter   = 2 * time.Second // time after the fault at which rows of healthy leaders must flow
	thenAfter   = time.Second     // time after the leaders have moved at which all rows must flow
	window      = 2 * time.Second // period in which rows are counted
)

// survived describes how rows flowed while a node was lost.
type survived struct {
	healthy, all float64       // rows/s: of healthy leaders, from soonAfter on, and of all leaders, from thenAfter on
	moved        time.Duration // time until the cluster accepted messages for all topics
	spent        int           // number of attempts spent
	duplicates   int
	disordered   int
}

// clusterStudy takes a node of three away from a relay with steady traffic for three topics, each led by another node.
// The control is the same without the fault.
func clusterStudy(ctx context.Context, l *lab, r *report) error {
	return l.eachKind(func(k kind) error {
		dir, err := os.MkdirTemp(l.dir, "cluster-")
		if err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		c, err := cluster.Start(limited, k.name, cluster.Options{Checkout: "../..", Dir: dir})
		if err != nil {
			return err
		}
		defer c.Close()
		with, without := map[string][]survived{}, map[string][]survived{}
		for range l.rounds {
			for _, f := range nodeFaults {
				if !strings.Contains(f.Name, l.only) {
					continue
				}
				control, err := l.surviveFault(ctx, k.name, c, cluster.Fault{})
				if err != nil {
					return fmt.Errorf("control of %s: %w", f.Name, err)
				}
				found, err := l.surviveFault(ctx, k.name, c, f)
				if err != nil {
					return fmt.Errorf("%s: %w", f.Name, err)
				}
				fmt.Printf("%s, %s: %.0f rows/s of healthy leaders beside %.0f, leaders moved after %v, then all %.0f "+
					"beside %.0f\n", k.name, f.Name, found.healthy, control.healthy,
					found.moved.Round(time.Millisecond), found.all,
					control.all)
				with[f.Name], without[f.Name] = append(with[f.Name], found), append(without[f.Name], control)
			}
		}
		for _, f := range nodeFaults {
			if len(with[f.Name]) > 0 {
				reportSurvival(r, k.name, f.Name, with[f.Name], without[f.Name])
			}
		}
		return nil
	})
}

func reportSurvival(r *report, on, fault string, with, without []survived) {
	healthy := func(s survived) float64 { return s.healthy }
	all := func(s survived) float64 { return s.all }
	r.compare(on, fault+": rows/s of healthy leaders, 2 s after", "%.0f", each(with, healthy), each(without, healthy),
		atLeast(0.8))
	r.compare(on, fault+": rows/s of all, 1 s after leaders moved", "%.0f", each(with, all), each(without, all),
		atLeast(0.9))
	r.state(on, fault+": seconds until leaders had moved, longest", "%.1f",
		largest(each(with, func(s survived) float64 { return s.moved.Seconds() })))
	r.judge(on, fault+": attempts spent", "%.0f", sum(each(with, func(s survived) float64 {
		return float64(s.spent)
	})), atMost(0))
	r.judge(on, fault+": rows out of order", "%.0f", sum(each(with, func(s survived) float64 {
		return float64(s.disordered)
	})), atMost(0))
	const inFlight = 4096 // OUTBOX_MAX_IN_FLIGHT
	r.judge(on, fault+": duplicates, most", "%.0f", largest(each(with, func(s survived) float64 {
		return float64(s.duplicates)
	})),
		atMost(inFlight))
}

// surviveFault runs a relay while a fault happens and ends.
func (l *lab) surviveFault(ctx context.Context, name string, c cluster.Cluster, f cluster.Fault) (
	s survived, err error,
) {
	var topics []string
	for node := range cluster.Size {
		topics = append(topics, fmt.Sprintf("bench-%d-%d", time.Now().UnixNano(), node))
		if err := create(ctx, c, topics[node], node); err != nil {
			return s, err
		}
	}
	table, err := l.newOutbox(ctx, false)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, table.close(ctx)) }()
	restore, err := cluster.Through(c, victim)
	if err != nil {
		return s, errors.Join(err, restore())
	}
	relay, err := l.startRelay(ctx, table.url, c.URL())
	if err := errors.Join(err, restore()); err != nil {
		return s, err
	}
	defer relay.Kill()

	steady, err := l.startSteady(ctx, table.url, topics)
	if err != nil {
		return s, err
	}
	if err := table.flows(ctx, topics); err != nil {
		return s, errors.Join(err, steady.stop())
	}
	began := time.Now()
	shrunk, moved, err := l.strike(ctx, c, f, topics)
	if err == nil {
		err = pause(ctx, time.Until(moved.Add(thenAfter+window+time.Second)))
	}
	if err := errors.Join(err, steady.stop()); err != nil {
		return s, relay.fail(err)
	}
	s.moved = moved.Sub(began)
	if f.Ends != nil {
		if err := mend(ctx, c, f, topics); err != nil {
			return s, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	if err := testkit.Until(limited, 50*time.Millisecond,
		func() (bool, error) { return table.empty(ctx) }); err != nil {
		return s, relay.fail(fmt.Errorf("rows are left: %w", err))
	}
	if s.healthy, err = table.relayedWithin(ctx, shrunk.Add(soonAfter), topics[0], topics[2]); err != nil {
		return s, err
	}
	if s.all, err = table.relayedWithin(ctx, moved.Add(thenAfter), topics...); err != nil {
		return s, err
	}
	const spent = "select count(*) from outbox_messages where attempt <> 1 or last_error is not null"
	if err := table.conn.QueryRow(ctx, spent).Scan(&s.spent); err != nil {
		return s, err
	}
	if err := relay.stop(); err != nil {
		return s, err
	}
	return s, l.countArrivals(ctx, name, c, topics, steady, &s)
}

func create(ctx context.Context, c cluster.Cluster, topic string, leader int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return c.Create(ctx, topic, leader, cluster.Size)
}

// strike makes the fault happen. It returns when the cluster accepts messages for the healthy topics, and when it
// accepts messages for the victim's topic again. A healthy topic in Kafka accepts nothing until the lost replica has
// left the set of those in sync. In Kafka, a node that only clients cannot reach continues to lead the topic, and
// clients need that very node. In this case strike moves the leader.
func (l *lab) strike(ctx context.Context, c cluster.Cluster, f cluster.Fault, topics []string) (
	shrunk, moved time.Time, err error,
) {
	shrunk = time.Now()
	if f.Happens != nil {
		if err := f.Happens(c.Nodes()[victim]); err != nil {
			return shrunk, moved, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	accepted := func(topic string) (time.Time, error) {
		err := testkit.Until(limited, 20*time.Millisecond,
			func() (bool, error) { return c.Try(limited, topic) == nil, nil })
		if err != nil {
			return time.Time{}, fmt.Errorf("nobody leads %s: %w", topic, err)
		}
		return time.Now(), nil
	}
	_, kafka := c.(*cluster.Kafka)
	var group sync.WaitGroup
	at, errs := make([]time.Time, len(topics)), make([]error, len(topics))
	for i, topic := range topics {
		group.Go(func() { at[i], errs[i] = accepted(topic) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return shrunk, moved, err
	}
	moved = at[victim]
	if kafka {
		shrunk = slices.MaxFunc(slices.Delete(at, victim, victim+1), time.Time.Compare)
	}
	measured := shrunk.Add(soonAfter + window)
	if !kafka || f.Name != "blackhole" {
		return shrunk, moved, pause(ctx, time.Until(measured))
	}
	if err := pause(ctx, time.Until(measured)); err != nil {
		return shrunk, moved, err
	}
	err = c.Move(limited, topics[victim], 0)
	return shrunk, time.Now(), err
}

// mend ends a fault and waits until the cluster has fully recovered.
func mend(ctx context.Context, c cluster.Cluster, f cluster.Fault, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	n := c.Nodes()[victim]
	if err := f.Ends(n); err != nil {
		return err
	}
	if err := n.Ready(ctx); err != nil {
		return err
	}
	return cluster.AwaitSync(ctx, c, topics...)
}

// flows waits until rows are relayed at the rate at which they are written: the first rows of a process include the
// cost of its connections, and the first rows of a cluster the cost of its start.
func (o *outbox) flows(ctx context.Context, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return testkit.Until(ctx, 100*time.Millisecond, func() (bool, error) {
		perSecond, err := o.relayedWithin(ctx, time.Now().Add(-window), topics...)
		return perSecond >= 0.95*clusterRate, err
	})
}

// relayedWithin returns the number of rows of the topics relayed per second in the window that begins at from.
func (o *outbox) relayedWithin(ctx context.Context, from time.Time, topics ...string) (perSecond float64, err error) {
	var n int
	err = o.conn.QueryRow(ctx,
		"select count(*) from outbox_messages where topic = any($1) and relayed_at >= $2 and relayed_at < $3", topics,
		from,
		from.Add(window)).Scan(&n)
	return float64(n) / window.Seconds(), err
}

// countArrivals reads all topics and counts messages that are missing, duplicate or out of order.
func (l *lab) countArrivals(ctx context.Context, name string, c cluster.Cluster, topics []string, written *steady,
	s *survived,
) error {
	return on(name, c.Nodes()[0].URL, func(b broker) error {
		b.Broker = bodies{b.Broker}
		for i, topic := range topics {
			a, end := consume(ctx, b, topic, keyOf(written.keys))
			mine := 0
			for n := range written.rows {
				if n%cluster.Size == i {
					mine++
				}
			}
			err := a.await(ctx, mine)
			if err := errors.Join(err, end()); err != nil {
				return err
			}
			s.duplicates, s.disordered = s.duplicates+a.duplicates, s.disordered+a.disordered
		}
		return nil
	})
}

// bodies is a broker that leaves out messages without a body. These are the messages that tested whether the broker
// accepts any.
type bodies struct{ testkit.Broker }

func (b bodies) Consume(ctx context.Context, topic string, receive func(testkit.Message)) error {
	return b.Broker.Consume(ctx, topic, func(m testkit.Message) {
		if len(m.Body) > 0 {
			receive(m)
		}
	})
}
