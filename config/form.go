package config

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/outbox-relay/outbox-relay/sql"
)

// A form says which texts a setting accepts, and is the end of the sentence about any other text.
type form struct {
	fits    func(text string) bool
	problem string
}

var (
	addressForm = form{
		isAddress, "is not an address; write host:port with a port from 0 to 65535, or :9630 for all interfaces",
	}
	endpointForm = form{
		regexp.MustCompile(`^(?i:https?)://[^/?#@\s]+([/?#]\S*)?$`).MatchString,
		"is not a URL of a token endpoint; write https://host/path, without a user",
	}
)

// forms are the forms of settings that are texts, by their keys.
var forms = map[string]form{
	"TABLE": {
		func(text string) bool { _, err := sql.ParseTable(text); return err == nil },
		"is not a table name; write table or schema.table, with double quotes around a name that contains a dot",
	},
	"HTTP_CONFIG": {
		func(text string) bool { return !strings.Contains(text, "\n") },
		"is not the path of a file; set the path itself, OUTBOX_HTTP_CONFIG=/etc/outbox-relay/web.yaml, without _FILE",
	},
	"HTTP_ADDR":    addressForm,
	"METRICS_ADDR": addressForm,
	"PPROF_ADDR": {
		isLoopback, "must be a loopback address, because profiles show the content of memory; write 127.0.0.1:6060 " +
			"or [::1]:6060",
	},
	"CLOUDEVENTS_SOURCE": {
		regexp.MustCompile(`^[^\s"]+$`).MatchString,
		"is not a URI; write one without spaces, such as /shop/orders or https://shop.example/orders",
	},
	"KAFKA_TIMESTAMP": {
		regexp.MustCompile(`^(insert|now|column:.+)$`).MatchString,
		"is not a timestamp of a record; write insert, now or column:NAME",
	},
	"KAFKA_OAUTH_EXTENSIONS": { // RFC 7628, without auth, which holds the token
		regexp.MustCompile(`^\s*[a-zA-Z]+=[!-+\--~ \t]+(\s*,\s*[a-zA-Z]+=[!-+\--~ \t]+)*\s*$`).MatchString,
		"is not a list of extensions; write name=value, with only letters in the name",
	},
	"KAFKA_OAUTH_TOKEN_URL": endpointForm,
	"AMQP_OAUTH_TOKEN_URL":  endpointForm,
	"NATS_JS_DOMAIN": {
		regexp.MustCompile(`^[^\s.*>]+$`).MatchString,
		"is not the name of a JetStream domain; it must not contain a space, dot, star or >",
	},
	"NATS_INBOX_PREFIX": { // one or several tokens of a subject outside the server's own subjects
		regexp.MustCompile(`^[^\s.*>$][^\s.*>]*(\.[^\s.*>]+)*$`).MatchString,
		"is not a prefix of subjects; write tokens without wildcards or a final dot, such as _INBOX_shop",
	},
	"NATS_MSG_ID_PREFIX": {
		regexp.MustCompile(`^[!-~]+$`).MatchString,
		"contains a space or a character that is not ASCII; write a name such as shop or shop.eu",
	},
	"NATS_STREAM": {
		regexp.MustCompile(`^[^\s.*>/\\]+$`).MatchString,
		"is not the name of a stream; it must not contain a space, dot, star, > or slash",
	},
}

// isAddress reports whether a text is an address to listen on.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	_, wrong := strconv.ParseUint(port, 10, 16)
	return err == nil && wrong == nil
}

func isLoopback(text string) bool {
	address, err := netip.ParseAddrPort(text)
	return err == nil && address.Addr().IsLoopback()
}
