package amqp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rabbitmq/amqp091-go"
)

// A management is RabbitMQ's management interface, an HTTP API, which tells what AMQP does not. It is
// only ever read.
type management struct {
	client  *http.Client
	base    *url.URL // without user and password
	user    *url.Userinfo
	vhost   string
	address string // host:port, for people
}

// managementTimeout is how long one question may take.
const managementTimeout = 4 * time.Second

// newManagement returns the interface at a URL, which must not be printed: its user and password are
// those of the login at the broker where it has none. The error holds neither.
func newManagement(text string, login amqp091.URI, settings *tls.Config) (*management, error) {
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("OUTBOX_AMQP_MANAGEMENT_URL is not of the form http://user:password@host:15672 or https://host:15671")
	}
	m := &management{base: base, user: base.User, vhost: login.Vhost, address: base.Host}
	if m.user == nil && login.Username != "" {
		m.user = url.UserPassword(login.Username, login.Password)
	}
	base.User = nil
	m.client = &http.Client{
		Timeout:   managementTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings},
		// Another host is not given the password.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return m, nil
}

// management returns the interface that is configured. The settings are read as they are now.
func (p *Publisher) management(ctx context.Context) (*management, error) {
	text, err := p.config.Management()
	if err != nil {
		return nil, fmt.Errorf("OUTBOX_AMQP_MANAGEMENT_URL %w", err)
	}
	broker, err := p.config.URL()
	if err != nil {
		return nil, err
	}
	hosts, err := addresses(broker)
	if err != nil {
		return nil, err
	}
	login, err := amqp091.ParseURI(hosts[0])
	if err != nil {
		return nil, errURL
	}
	if p.config.Mechanism == mechanismExternal { // then user and password are just the library's defaults
		login.Username, login.Password = "", ""
	}
	if p.config.Tokens != nil && !strings.Contains(text, "@") {
		login.Username = cmp.Or(userIn(hosts[0]), nameless)
		if login.Password, err = p.config.Tokens.Token(ctx); err != nil {
			return nil, err
		}
	}
	var settings *tls.Config
	if p.config.TLS != nil && strings.HasPrefix(text, "https:") {
		if settings, err = p.config.TLS(); err != nil {
			return nil, err
		}
	}
	return newManagement(text, login, settings)
}

// name returns the user's name.
func (m *management) name() string {
	if m.user == nil {
		return ""
	}
	return m.user.Username()
}

// errAbsent is that there is no such object.
var errAbsent = errors.New("does not exist")

// A refusal is that the user may not see something.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

// largestAnswer bounds what is read, in bytes: an exchange may have any number of bindings.
const largestAnswer = 64 << 20

// get reads what the API holds at a path, whose elements may hold any character. columns, if not
// empty, are what is wanted of it. The error is errAbsent, a refusal or one of the network.
func (m *management) get(ctx context.Context, into any, columns string, path ...string) error {
	at := strings.TrimSuffix(m.base.String(), "/") + "/api"
	for _, element := range path {
		at += "/" + url.PathEscape(element)
	}
	if columns != "" {
		at += "?columns=" + columns
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	if m.user != nil {
		password, _ := m.user.Password()
		request.SetBasicAuth(m.user.Username(), password)
	}
	response, err := m.client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the address, which the caller tells
		}
		return stable(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer+1))
	switch {
	case err != nil:
		return stable(err)
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		var answer struct{ Reason string }
		_ = json.Unmarshal(body, &answer) // the status says it as well
		return &refusal{fmt.Sprintf("%.200s", cmp.Or(answer.Reason, response.Status))}
	case response.StatusCode == http.StatusNotFound:
		return errAbsent
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %s", response.Status)
	case len(body) > largestAnswer:
		return fmt.Errorf("its answer is longer than %d MiB", largestAnswer>>20)
	case json.Unmarshal(body, into) != nil:
		return errors.New("its answer is not that of RabbitMQ's management interface")
	}
	return nil
}

// An options is a table of arguments, or what a policy says. The API writes an empty one as a list, too.
type options map[string]any

// UnmarshalJSON implements [json.Unmarshaler].
func (o *options) UnmarshalJSON(text []byte) error {
	*o = options{}
	if bytes.HasPrefix(text, []byte("{")) {
		return json.Unmarshal(text, (*map[string]any)(o))
	}
	return nil
}
