package nats

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// A server is a NATS server to which the publisher may connect.
type server struct {
	address string // host:port
	name    string // name in its certificate, if address is an IP learned from the cluster
}

// parseServers reads Config.Servers. Its errors do not repeat the addresses, which may hold a password by mistake. A
// user and password in an address are refused and not used: they belong into Auth, which may be renewed.
func parseServers(addresses []string) (servers []server, err error) {
	for i, text := range addresses {
		u, err := url.Parse("nats://" + strings.TrimPrefix(text, "nats://"))
		if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
			strings.Trim(u.Path, "/") != "" {
			return nil, fmt.Errorf("NATS server %d is not of the form host:port or nats://host:port; the login goes "+
				"into Auth", i+1)
		}
		servers = append(servers, server{address: hostPort(u)})
	}
	if servers == nil {
		return nil, errors.New("no NATS server is configured: give host:port")
	}
	return servers, nil
}

// hostPort returns the address with its port, or with the usual one of NATS.
func hostPort(u *url.URL) string { return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")) }

// host returns the name that the server's certificate must have.
func (s server) host() string {
	host, _, _ := net.SplitHostPort(s.address)
	return cmp.Or(s.name, host)
}

// with returns the servers, and those addresses of the cluster, reported by s, that are not among them. An IP is to
// prove the name of s. Clusters may report IPs, which certificates rarely name.
func (s server) with(servers []server, cluster []string) []server {
	all := slices.Clone(servers)
	for _, text := range cluster {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" {
			continue
		}
		found := server{address: hostPort(u)}
		if net.ParseIP(u.Hostname()) != nil {
			found.name = s.host()
		}
		if !slices.ContainsFunc(all, func(known server) bool { return known.address == found.address }) {
			all = append(all, found)
		}
	}
	return all
}
