package amqp

import (
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
)

// A management is RabbitMQ's management interface, an HTTP API, which provides what AMQP does not. It is only read, for
// reports.
type management struct {
	client *http.Client
	base   *url.URL      // without user and password
	user   *url.Userinfo // nil for none
}

const (
	// managementTime is how long one request may take.
	managementTime = 4 * time.Second
	// largestAnswer bounds how much of an answer is read, in bytes: an exchange may have any number of bindings.
	largestAnswer = 64 << 20
)

// newManagement returns the configured interface. If its URL has no user and password, those of the connection are
// used: a token is then the password, with any user name. The error contains neither.
func (c *connection) newManagement() (*management, error) {
	config, setting := &c.p.config, c.p.names.Of("Management")
	text, err := config.Management()
	if err != nil {
		return nil, fmt.Errorf("%s %w", setting, err)
	}
	base, err := url.Parse(text)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New(setting +
			" is not of the form http://user:password@host:15672 or https://host:15671")
	}
	var settings *tls.Config
	if config.TLS != nil && base.Scheme == "https" {
		if settings, err = config.TLS(); err != nil {
			return nil, err
		}
	}
	m := &management{base: base, user: base.User, client: &http.Client{
		Timeout:   managementTime,
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings},
		// No other host must receive the password.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	base.User = nil
	// With a certificate as the login, user and password are only the library's defaults.
	if m.user == nil && config.Mechanism != mechanismExternal {
		m.user = url.UserPassword(cmp.Or(c.uri.Username, nameless), c.uri.Password)
	}
	return m, nil
}

// A refusal reports that the user may not see something.
type refusal string

func (r refusal) Error() string { return string(r) }

// get reads the object at a path of the API; the path's elements may contain any characters. columns, if not empty, are
// the requested fields. The error may be a [refusal].
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
		return refusal(fmt.Sprintf("%.200s", cmp.Or(answer.Reason, response.Status)))
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %s", response.Status)
	case json.Unmarshal(body, into) != nil:
		return errors.New("its answer is not that of RabbitMQ's management interface")
	}
	return nil
}
