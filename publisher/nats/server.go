package nats

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// A server is a NATS server to which the publisher may connect.
type server struct {
	address string // host:port, without secrets
	tls     bool   // the URL requires TLS
	name    string // name in its certificate, if address is an IP learned from the cluster
	auth    Auth   // user and password, or token, from the URL
}

// parseServers reads Config.Servers. Its errors do not repeat the URLs, which may hold a password.
func parseServers(urls []string) ([]server, error) {
	if len(urls) == 0 {
		return nil, fmt.Errorf("no NATS server is configured: give nats://host:port")
	}
	servers := make([]server, 0, len(urls))
	for i, text := range urls {
		if !strings.Contains(text, "://") {
			text = "nats://" + text
		}
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls" || u.RawQuery != "" ||
			u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
			return nil, fmt.Errorf("NATS server %d is not of the form nats://host:port", i+1)
		}
		s := server{address: hostPort(u), tls: u.Scheme == "tls"}
		if u.User != nil {
			if password, ok := u.User.Password(); ok {
				s.auth = Auth{User: u.User.Username(), Password: password}
			} else {
				s.auth = Auth{Token: u.User.Username()}
			}
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func hostPort(u *url.URL) string { return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "4222")) }

// tlsConfig returns the configuration for a connection to the server, or nil if TLS was not requested.
func (s server) tlsConfig(config *tls.Config) *tls.Config {
	switch {
	case config == nil && !s.tls:
		return nil
	case config == nil:
		return &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.name}
	case config.ServerName == "" && s.name != "":
		config = config.Clone()
		config.ServerName = s.name
	}
	return config
}

// with returns the servers, and those addresses of the cluster that are not among them. The latter take over the
// settings needed for connecting from s, which reported them.
func (s server) with(servers []server, cluster []string) []server {
	all := slices.Clone(servers)
	for _, text := range cluster {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" {
			continue
		}
		found := s
		if found.address = hostPort(u); found.name == "" {
			found.name, _, _ = net.SplitHostPort(s.address)
		}
		if net.ParseIP(u.Hostname()) == nil {
			found.name = ""
		}
		if !slices.ContainsFunc(all, func(known server) bool { return known.address == found.address }) {
			all = append(all, found)
		}
	}
	return all
}
