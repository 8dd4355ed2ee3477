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

// A management is RabbitMQ's management interface, an HTTP API, which provides what AMQP does not. It is only read, for
// reports and never for publishing.
type management struct {
	client *http.Client
	base   *url.URL // without user and password
	user   *url.Userinfo
	vhost  string
}

// managementTimeout is how long one request may take.
const managementTimeout = 4 * time.Second

// management returns the configured interface. It reads the current settings. If the interface's URL has no user and
// password, those of the broker's login are used. The error contains neither.
func (p *Publisher) management(ctx context.Context) (*management, error) {
	text, err := p.config.Management()
	if err != nil {
		return nil, fmt.Errorf("%s %w", p.names.Of("Management"), err)
	}
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("%s is not of the form http://user:password@host:15672 or https://host:15671",
			p.names.Of("Management"))
	}
	broker, err := p.config.URL()
	if err != nil {
		return nil, err
	}
	hosts, err := addresses(broker, p.names)
	if err != nil {
		return nil, err
	}
	login, _ := amqp091.ParseURI(hosts[0]) // addresses has parsed it
	m := &management{base: base, user: base.User, vhost: login.Vhost}
	base.User = nil
	switch {
	case m.user != nil:
	case p.config.Tokens != nil: // which the interface takes as a password, with any user name
		token, err := p.config.Tokens.Token(ctx)
		if err != nil {
			return nil, err
		}
		m.user = url.UserPassword(cmp.Or(userIn(hosts[0]), nameless), token)
	case p.config.Mechanism != mechanismExternal: // there, user and password are only the library's defaults
		m.user = url.UserPassword(login.Username, login.Password)
	}
	var settings *tls.Config
	if p.config.TLS != nil && base.Scheme == "https" {
		if settings, err = p.config.TLS(); err != nil {
			return nil, err
		}
	}
	m.client = &http.Client{
		Timeout:   managementTimeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings},
		// No other host must receive the password.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return m, nil
}

// A refusal reports that the user may not see something.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

// largestAnswer bounds how much of an answer is read, in bytes: an exchange may have any number of bindings.
const largestAnswer = 64 << 20

// get reads the object at a path of the API; the path's elements may contain any characters. columns, if not empty,
// are the requested fields. The error may be a refusal.
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
			err = failed.Err // without the address, which the caller adds
		}
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	switch {
	case err != nil:
		return err
	case response.StatusCode == http.StatusUnauthorized, response.StatusCode == http.StatusForbidden:
		var answer struct{ Reason string }
		_ = json.Unmarshal(body, &answer) // the status has the same meaning
		return &refusal{fmt.Sprintf("%.200s", cmp.Or(answer.Reason, response.Status))}
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %s", response.Status)
	case json.Unmarshal(body, into) != nil:
		return errors.New("its answer is not that of RabbitMQ's management interface")
	}
	return nil
}

// options are a table of arguments, or the definition of a policy. The API may also write an empty table as a list.
type options map[string]any

// UnmarshalJSON implements [json.Unmarshaler].
func (o *options) UnmarshalJSON(text []byte) error {
	*o = options{}
	if bytes.HasPrefix(text, []byte("{")) {
		return json.Unmarshal(text, (*map[string]any)(o))
	}
	return nil
}
