package amqp

import (
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/setting"
)

// errURL does not quote the URL, which holds a password.
var errURL = unavailable("bad publish URL", "the publish URL is not of the form amqp://user:password@host:port/vhost "+
	"(or amqps://, with several hosts separated by commas): "+
	"percent-encode special characters in user, password and vhost")

// addresses splits a URL with several hosts into one URL for each host. Everything but the host is the same in each.
// Errors never quote it.
func addresses(url string, names setting.Names) ([]string, error) {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return nil, errURL
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	user, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, hosts = authority[:i+1], authority[i+1:]
	}
	var all []string
	for host := range strings.SplitSeq(hosts, ",") {
		one := scheme + "://" + user + host + path
		uri, err := amqp091.ParseURI(one)
		if err != nil {
			return nil, errURL // the library's own error quotes the URL
		}
		if uri.CACertFile != "" || uri.CertFile != "" || uri.KeyFile != "" || uri.ServerName != "" {
			// The files of the settings are read again when they change.
			return nil, unavailable("bad publish URL", "%s has a parameter for TLS: give %s, %s and %s instead of "+
				"cacertfile, certfile, keyfile and server_name_indication",
				names.Of("URL"), names.Of("TLS.RootCAs"), names.Of("TLS.Certificates"), names.Of("TLS.ServerName"))
		}
		all = append(all, one)
	}
	return all, nil
}
