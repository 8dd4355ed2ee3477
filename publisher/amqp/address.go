package amqp

import (
	"strings"

	"github.com/rabbitmq/amqp091-go"
)

// errURL does not quote the URL, which holds a password. Parameters for TLS would be without effect: the files of the
// settings are read again when they change, and the library would read those of the URL once.
var errURL = unavailable("bad publish URL", "the publish URL is not of the form amqp://user:password@host:port/vhost "+
	"(or amqps://, with several hosts separated by commas): percent-encode special characters in user, password and "+
	"vhost, and use the settings for TLS instead of parameters (cacertfile, certfile, keyfile, server_name_indication)")

// addresses splits a URL with several hosts into one URL for each host. Everything but the host is the same in each.
// Errors never quote it.
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
		if err != nil || uri.CACertFile != "" || uri.CertFile != "" || uri.KeyFile != "" || uri.ServerName != "" {
			return nil, errURL // the library's own error quotes the URL
		}
		all = append(all, one)
	}
	return all, nil
}
