package doctor

import (
	"net"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outbox-relay/outbox-relay/publisher/finding"
)

// encryption examines what a configuration allows for connections to the database that leave this host, and how the
// connection that was made is protected. sslmode prefer and allow, and several modes in a list of hosts, allow several
// ways. variable is the setting that holds the configuration.
func encryption(c *pgconn.Config, variable string, encrypted bool) (f finding.List) {
	plain, unverified := "", "" // addresses, empty if there is none
	ways := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	for _, way := range ways {
		address := net.JoinHostPort(way.Host, strconv.Itoa(int(way.Port)))
		switch tls := way.TLSConfig; {
		case local(way.Host):
			continue
		case tls == nil:
			plain = address
		case tls.InsecureSkipVerify && tls.VerifyPeerCertificate == nil: // where pgx checks it with verify-ca
			unverified = address
		}
	}
	const verify = "add sslmode=verify-full and sslrootcert=FILE to it"
	f.Add("encryption", variable,
		finding.WarnIf(plain != "" && !encrypted, "the connection is not encrypted", verify),
		finding.WarnIf(plain != "", "the connection is encrypted only if the server offers it: anyone in between "+
			"may read it in plain text, or pose as the server", verify),
		finding.WarnIf(unverified != "", "the server's certificate is not verified: whoever answers at "+unverified+
			" is taken for the database", verify))
	return f
}

// local reports whether a host is this one, or a socket in the file system.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback() || len(host) > 0 && (host[0] == '/' || host[0] == '@')
}
