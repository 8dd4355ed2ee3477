package doctor

import (
	"net"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// A Transport says how a connection is protected.
type Transport struct {
	Hosts     []string
	Encrypted bool
	Secret    bool   // the connection carries a password or a token, readable unless it is encrypted
	Remedy    string // how to encrypt the connection
}

// Exposed returns the first address whose traffic others can read, empty if there is none.
func (t Transport) Exposed() string {
	if t.Encrypted {
		return ""
	}
	for _, address := range t.Hosts {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		if !local(host) {
			return address
		}
	}
	return ""
}

func (t Transport) findings() (f finding.List) {
	address, text := t.Exposed(), "the connection is not encrypted"
	if t.Secret {
		text += ", and carries a password or token"
	}
	f.Add("encryption", address, finding.WarnIf(address != "", text, t.Remedy))
	return f
}

// A Security says what a configuration allows for connections to the database that leave this host. The fields are
// addresses, empty if there is none.
type Security struct {
	Plain      string // an address to which a connection without TLS is allowed
	Unverified string // an address to which a connection with TLS is allowed without verifying the server
}

// DatabaseSecurity returns what a configuration allows. sslmode prefer and allow, and several modes in a list of hosts,
// allow several ways.
func DatabaseSecurity(c *pgconn.Config) (s Security) {
	ways := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	for _, way := range ways {
		address := net.JoinHostPort(way.Host, strconv.Itoa(int(way.Port)))
		switch tls := way.TLSConfig; {
		case local(way.Host):
			continue
		case tls == nil:
			s.Plain = address
		case tls.InsecureSkipVerify && tls.VerifyPeerCertificate == nil: // with verify-ca pgx checks the certificate there
			s.Unverified = address
		}
	}
	return s
}

// findings returns the findings about the setting that holds the configuration, and about the connection that was made
// with it.
func (s Security) findings(variable string, encrypted bool) (f finding.List) {
	const verify = "add sslmode=verify-full and sslrootcert=FILE to it"
	f.Add("encryption", variable,
		finding.WarnIf(s.Plain != "" && !encrypted, "the connection is not encrypted", verify),
		finding.WarnIf(s.Plain != "", "the connection is encrypted only if the server offers it: anyone in between "+
			"may read it in plain text, or pose as the server", verify),
		finding.WarnIf(s.Unverified != "", "the server's certificate is not verified: whoever answers at "+s.Unverified+
			" is taken for the database", verify))
	return f
}

// local reports whether a host is this one, or a socket in the file system.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback() || len(host) > 0 && (host[0] == '/' || host[0] == '@')
}
