package main

import (
	"context"
	"errors"
)

// tlsStudy drains with TLS and without it in turns, to one broker that listens for both.
func tlsStudy(ctx context.Context, l *lab, r *report) (err error) {
	table, err := l.newOutbox(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.close(ctx)) }()
	return l.eachKind(func(k kind) (err error) {
		s, err := l.startSecured(ctx, k)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.close(ctx)) }()
		return on(k.name, s.plain, func(b broker) error {
			// The first drainer is warmed up, so the one with TLS is the first.
			results, err := l.drains(ctx, table, b, []drainer{
				{name: "with TLS", start: func(ctx context.Context, _ string) (*program, error) {
					return l.startRelay(ctx, table.url, s.secure, "OUTBOX_TLS_CA_FILE="+s.certificate)
				}},
				{name: "plain", start: func(ctx context.Context, _ string) (*program, error) {
					return l.startRelay(ctx, table.url, s.plain)
				}},
			})
			if err != nil {
				return err
			}
			rate := func(d drain) float64 { return float64(l.rows) / d.elapsed.Seconds() }
			own := func(d drain) float64 { return float64(d.itself.Microseconds()) / float64(l.rows) }
			broker := func(d drain) float64 { return float64(d.broker.Microseconds()) / float64(l.rows) }
			r.compare(b.name, "rows/s with TLS, beside plain", "%.0f", each(results[0], rate), each(results[1], rate),
				atLeast(0.75))
			r.contrast(b.name, "own µs/row", "%.1f", each(results[0], own), each(results[1], own))
			r.contrast(b.name, "broker µs/row", "%.1f", each(results[0], broker), each(results[1], broker))
			return nil
		})
	})
}
