package connect

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net"
	"time"
)

// Dial connects to a host over TCP. It tries the addresses of the host's name one after the other, in a random order. A
// [net.Dialer] gives each of several addresses two seconds at least, in the same order each time, so the third one may
// never get its turn.
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
	var stable error // that of the address which the system prefers: the same at each try, so that it is logged once
	first := hosts[0]
	rand.Shuffle(len(hosts), func(i, j int) { hosts[i], hosts[j] = hosts[j], hosts[i] })
	conn, err := InTurn(ctx, time.Second, hosts, func(ctx context.Context, host string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(host, port))
		if host == first {
			stable = err
		}
		return conn, err
	})
	if err != nil {
		return nil, cmp.Or(stable, err)
	}
	return conn, nil
}
