// Package rabbitmq reads RabbitMQ's management interface.
package rabbitmq

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

// A Management is RabbitMQ's management interface, an HTTP API, which provides what AMQP does not. It is only read.
type Management struct {
	client  *http.Client
	base    *url.URL // without user and password
	user    *url.Userinfo
	Vhost   string
	Address string // host:port, for display
}

// timeout is how long one request may take.
const timeout = 4 * time.Second

// NewManagement returns the interface at a URL, which must not be printed. If the URL has no user and password, those
// of the broker's login are used. The error contains neither.
func NewManagement(text string, login amqp091.URI, settings *tls.Config) (*Management, error) {
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("is not of the form http://user:password@host:15672 or https://host:15671")
	}
	m := &Management{base: base, user: base.User, Vhost: login.Vhost, Address: base.Host}
	if m.user == nil && login.Username != "" {
		m.user = url.UserPassword(login.Username, login.Password)
	}
	base.User = nil
	m.client = &http.Client{
		Timeout:   timeout,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings},
		// No other host must receive the password.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return m, nil
}

// Name returns the user's name.
func (m *Management) Name() string { return m.user.Username() }

// A Refusal reports that the user may not see something.
type Refusal struct{ reason string }

func (r *Refusal) Error() string { return r.reason }

// largestAnswer bounds how much of an answer is read, in bytes: an exchange may have any number of bindings.
const largestAnswer = 64 << 20

// Get reads the object at a path of the API; the path's elements may contain any characters. columns, if not empty,
// are the requested fields. The error may be a [Refusal].
func (m *Management) Get(ctx context.Context, into any, columns string, path ...string) error {
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
		return &Refusal{fmt.Sprintf("%.200s", cmp.Or(answer.Reason, response.Status))}
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %s", response.Status)
	case json.Unmarshal(body, into) != nil:
		return errors.New("its answer is not that of RabbitMQ's management interface")
	}
	return nil
}

// Options are a table of arguments, or the definition of a policy. The API may also write an empty table as a list.
type Options map[string]any

// UnmarshalJSON implements [json.Unmarshaler].
func (o *Options) UnmarshalJSON(text []byte) error {
	*o = Options{}
	if bytes.HasPrefix(text, []byte("{")) {
		return json.Unmarshal(text, (*map[string]any)(o))
	}
	return nil
}

// Close closes idle connections.
func (m *Management) Close() { m.client.CloseIdleConnections() }
