package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// delayStudy drains through proxies in front of the broker and the database. One proxy delays what the relay sends by a
// millisecond, which is what a more distant server adds to each round trip. The reference is the drain through the same
// proxies without a delay.
func delayStudy(ctx context.Context, l *lab, r *report) (err error) {
	table, err := l.newOutbox(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.close(ctx)) }()
	variants := []struct {
		name             string
		broker, database time.Duration
	}{
		{name: "no delay"},
		{name: "+1 ms to the broker", broker: time.Millisecond},
		{name: "+1 ms to the database", database: time.Millisecond},
	}
	return l.eachBroker(func(b broker) error {
		var drainers []drainer
		for _, v := range variants {
			broker, err := startProxy(ctx, b.url, v.broker)
			if err != nil {
				return err
			}
			defer broker.close()
			database, err := startProxy(ctx, table.url, v.database)
			if err != nil {
				return err
			}
			defer database.close()
			drainers = append(drainers, drainer{
				name: v.name,
				start: func(ctx context.Context, _ string) (*program, error) {
					return l.startRelay(ctx, database.url, broker.url)
				},
				check: func() error {
					if payloads := int64(l.rows * 500); broker.bytes.Swap(0) < payloads || database.bytes.Swap(0) == 0 {
						return errors.New("the relay went past the proxies: is another address advertised?")
					}
					return nil
				},
			})
		}
		results, err := l.drains(ctx, table, b, drainers)
		if err != nil {
			return err
		}
		rate := func(d drain) float64 { return float64(l.rows) / d.elapsed.Seconds() }
		for i, v := range variants[1:] {
			r.compare(b.name, fmt.Sprint("rows/s, ", v.name), "%.0f", each(results[i+1], rate), each(results[0], rate),
				atLeast(0.8))
		}
		return nil
	})
}
