package amqp

import (
	"strings"

	"github.com/rabbitmq/amqp091-go"
)

// errURL does not quote the URL, which holds a password.
var errURL = unavailable("bad publish URL", "the publish URL is not of the form amqp://user:password@host:port/vhost "+
	"(or amqps://, with several hosts separated by commas): percent-encode special characters in user, password and vhost")

// errParameters is for settings that have a place of their own, where files are read again.
var errParameters = unavailable("bad publish URL", "the publish URL has a parameter for TLS: "+
	"give OUTBOX_TLS_CA_FILE, OUTBOX_TLS_CERT_FILE, OUTBOX_TLS_KEY_FILE and OUTBOX_TLS_SERVER_NAME instead of cacertfile, certfile, keyfile "+
	"and server_name_indication")

// addresses splits a URL with several hosts into one for each of them.
func addresses(url string) ([]string, error) {
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
			return nil, errParameters
		}
		all = append(all, one)
	}
	return all, nil
}
