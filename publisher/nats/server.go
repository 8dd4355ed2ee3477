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
	address   string // host:port, without secrets
	tls       bool   // the URL requires TLS
	webSocket bool   // it is a WebSocket listener
	path      string // path of the URL, for WebSocket
	name      string // name in its certificate, if address is an IP learned from the cluster
	auth      Auth   // user and password, or token, from the URL
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
		if err != nil || u.Hostname() == "" || !slices.Contains(schemes, u.Scheme) || u.RawQuery != "" ||
			u.Fragment != "" || strings.Trim(u.Path, "/") != "" && !isWebSocket(u) {
			return nil, fmt.Errorf("NATS server %d is not of the form nats://host:port or ws://host:port", i+1)
		}
		s := server{address: hostPort(u), tls: u.Scheme == "tls" || u.Scheme == schemeWSS, webSocket: isWebSocket(u)}
		if s.webSocket {
			s.path = u.EscapedPath()
		}
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

// The schemes of WebSocket listeners, without and with TLS.
const (
	schemeWS  = "ws"
	schemeWSS = "wss"
)

var schemes = []string{"nats", "tls", schemeWS, schemeWSS}

func isWebSocket(u *url.URL) bool { return u.Scheme == schemeWS || u.Scheme == schemeWSS }

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = cmp.Or(map[string]string{schemeWS: "80", schemeWSS: "443"}[u.Scheme], "4222")
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// url returns the server's URL without secrets.
func (s server) url() string {
	switch {
	case s.webSocket && s.tls:
		return schemeWSS + "://" + s.address + s.path
	case s.webSocket:
		return schemeWS + "://" + s.address + s.path
	default:
		return "nats://" + s.address
	}
}

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
