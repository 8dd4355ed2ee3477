package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// oneByOne measures how many messages a second a queue confirms when each message waits for the previous confirm.
func (b broker) oneByOne(ctx context.Context, topic string, enough time.Duration) (float64, error) {
	body := make([]byte, 512)
	started, n := time.Now(), 0
	for ; time.Since(started) < enough; n++ {
		if err := b.publish(ctx, topic, body); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(started).Seconds(), nil
}

// reportOneByOne reports the rate that one unconfirmed message for each key allows on an idle broker.
func reportOneByOne(ctx context.Context, r *report, b broker, hot int) (err error) {
	topic, remove, err := b.topic(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	perSecond, err := b.oneByOne(ctx, topic, 3*time.Second)
	if err != nil {
		return err
	}
	r.state("rabbitmq", "confirms/s one by one, the broker otherwise idle", "%.0f", perSecond)
	r.state("rabbitmq", fmt.Sprintf("rows/s that allows, %d %% on a hot key", hot), "%.0f", perSecond*100/float64(hot))
	return nil
}
