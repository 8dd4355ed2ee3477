package connect

import (
	"context"
	"math/rand/v2"
	"net"
)

// Dial connects to a host over TCP. The addresses of the host's name race in a random order. A [net.Dialer] gives each
// of them two seconds at least, one after the other, so with two that do not answer there was no time for the third.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dial(ctx, net.DefaultResolver.LookupHost, network, address)
}

func dial(ctx context.Context, lookup func(context.Context, string) ([]string, error), network, address string) (
	net.Conn, error,
) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	hosts, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	first := len(hosts) // its error is the same at each try
	race := Race[net.Conn]{
		Turns: rand.Perm(len(hosts)),
		Open: func(ctx context.Context, i int) (net.Conn, error) {
			return dialer.DialContext(ctx, network, net.JoinHostPort(hosts[i], port))
		},
		Drop: func(conn net.Conn) { _ = conn.Close() },
		Ended: func(i int, failed error) {
			if i <= first {
				first, err = i, failed
			}
		},
	}
	conn, won := race.Run(ctx)
	if won {
		err = nil
	}
	return conn, err
}
