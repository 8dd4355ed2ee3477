package config

import "regexp"

// A form is what the text of a setting must match, and the end of the sentence for a text that does not.
type form struct {
	pattern *regexp.Regexp
	problem string
}

var endpointForm = form{
	regexp.MustCompile(`^(?i:https?)://[^/?#@\s]+([/?#]\S*)?$`),
	"is not a URL of a token endpoint; write https://host/path, without a user",
}

// textForms are the forms of settings whose value is a text for a broker, by their keys.
var textForms = map[string]form{
	"CLOUDEVENTS_SOURCE": {
		regexp.MustCompile(`^[^\s"]+$`),
		"is not a URI; write one without spaces, such as /shop/orders or https://shop.example/orders",
	},
	"KAFKA_TIMESTAMP": {
		regexp.MustCompile(`^(insert|now|column:.+)$`), "is not a timestamp of a record; write insert, now or column:NAME",
	},
	"KAFKA_OAUTH_EXTENSIONS": { // RFC 7628, without auth, which holds the token
		regexp.MustCompile(`^\s*[a-zA-Z]+=[!-+\--~ \t]+(\s*,\s*[a-zA-Z]+=[!-+\--~ \t]+)*\s*$`),
		"is not a list of extensions; write name=value, with only letters in the name",
	},
	"KAFKA_OAUTH_TOKEN_URL": endpointForm,
	"AMQP_OAUTH_TOKEN_URL":  endpointForm,
	"NATS_JS_DOMAIN": {
		regexp.MustCompile(`^[^\s.*>]+$`),
		"is not the name of a JetStream domain; it must not contain a space, dot, star or >",
	},
	"NATS_INBOX_PREFIX": { // one or several tokens of a subject outside the server's own subjects
		regexp.MustCompile(`^[^\s.*>$][^\s.*>]*(\.[^\s.*>]+)*$`),
		"is not a prefix of subjects; write tokens without wildcards or a final dot, such as _INBOX_shop",
	},
	"NATS_MSG_ID_PREFIX": {
		regexp.MustCompile(`^[!-~]+$`),
		"contains a space or a character that is not ASCII; write a name such as shop or shop.eu",
	},
	"NATS_STREAM": {
		regexp.MustCompile(`^[^\s.*>/\\]+$`),
		"is not the name of a stream; it must not contain a space, dot, star, > or slash",
	},
}
