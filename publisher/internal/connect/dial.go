package connect

import (
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
	if len(hosts) > 1 {
		dialer.Timeout = time.Second
	}
	for _, i := range rand.Perm(len(hosts)) {
		conn, failed := dialer.DialContext(ctx, network, net.JoinHostPort(hosts[i], port))
		if failed == nil {
			return conn, nil
		}
		if i == 0 || err == nil { // the error of the first address is the same at each try
			err = failed
		}
	}
	return nil, err
}
