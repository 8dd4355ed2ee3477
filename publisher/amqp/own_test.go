package amqp_test

import (
	"context"
	"crypto/rsa"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/outbox-relay/outbox-relay/internal/services"
	"github.com/outbox-relay/outbox-relay/internal/tlstest"
)

// An ownBroker is a RabbitMQ for one test alone, which may change its settings and kill it. It accepts TLS and client
// certificates of its authority, tokens signed with its key, and messages of up to 1 MiB.
type ownBroker struct {
	set       *services.Set
	authority *tlstest.Authority
	harness   *harness
	tokens    *rsa.PrivateKey
	secure    string // host:port of the TLS listener, whose certificate is for localhost

	management, secureManagement string // host:port of the management interface, the latter with TLS
}

// ownLimit is the largest payload that an own broker accepts.
const ownLimit = 1 << 20

func newOwnBroker(t *testing.T) *ownBroker {
	t.Helper()
	dir := t.TempDir()
	o := &ownBroker{authority: tlstest.NewAuthority(t)}
	offset := services.FreeOffset(t, tlsPort, managementTLSPort)
	port, managementPort := tlsPort+offset, managementTLSPort+offset
	o.secure, o.secureManagement = fmt.Sprint("localhost:", port), fmt.Sprint("localhost:", managementPort)
	server := o.authority.Issue(t, tlstest.Leaf{Name: "localhost"})
	ca, cert, key := write(t, dir, "ca.pem", o.authority.PEM), write(t, dir, "server.pem", server.Cert),
		write(t, dir, "server.key", server.Key)
	tokens, public := newTokenKey(t)
	o.tokens = tokens
	conf := []string{
		"auth_backends.1 = internal",
		"auth_backends.2 = rabbit_auth_backend_oauth2",
		"auth_oauth2.resource_server_id = rabbitmq",
		"auth_oauth2.default_key = test",
		"auth_oauth2.signing_keys.test = " + write(t, dir, "tokens.pem", public),
		fmt.Sprint("listeners.ssl.default = 127.0.0.1:", port),
		"ssl_options.cacertfile = " + ca,
		"ssl_options.certfile = " + cert,
		"ssl_options.keyfile = " + key,
		"management.ssl.ip = 127.0.0.1",
		fmt.Sprint("management.ssl.port = ", managementPort),
		"management.ssl.cacertfile = " + ca,
		"management.ssl.certfile = " + cert,
		"management.ssl.keyfile = " + key,
		"ssl_options.verify = verify_peer",
		"ssl_options.fail_if_no_peer_cert = false",
		"ssl_cert_login_from = common_name",
		"auth_mechanisms.1 = PLAIN",
		"auth_mechanisms.2 = EXTERNAL",
		fmt.Sprint("max_message_size = ", ownLimit),
	}
	o.set = &services.Set{Checkout: "../..", Dir: dir, Offset: offset, Settings: []string{
		"SERVICES_MODE=native",
		"SERVICES_RABBITMQ_PLUGINS=rabbitmq_auth_mechanism_ssl,rabbitmq_auth_backend_oauth2",
		"SERVICES_RABBITMQ_CONF=" + strings.Join(conf, "\n"),
	}}
	t.Cleanup(func() {
		if _, err := o.set.Run(context.Background(), "wipe", "rabbitmq"); err != nil {
			t.Error(err)
		}
	})
	if _, err := o.set.Run(t.Context(), "up", "rabbitmq"); err != nil {
		t.Fatal(err)
	}
	address := func(variable string) string {
		value, err := o.set.Address(t.Context(), variable)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	o.harness = harnessAt(t, address("TEST_AMQP_URL"), "", amqp091.QueueTypeClassic)
	_, o.management, _ = strings.Cut(address("TEST_AMQP_MANAGEMENT_URL"), "@")
	return o
}

// Ports of the listeners with TLS, beside those in dev/services/ports.sh.
const (
	tlsPort           = 26674
	managementTLSPort = 27677
)

// ctl runs rabbitmqctl and returns what it prints.
func (o *ownBroker) ctl(t *testing.T, arguments ...string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(o.set.Dir, "bin", "rabbitmqctl"),
		append([]string{"--quiet"}, arguments...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("rabbitmqctl %v: %v\n%s", arguments, err, out)
	}
	return string(out)
}

// manage makes a request to the management interface, which takes a hundredth of the time of rabbitmqctl.
func (o *ownBroker) manage(t *testing.T, method, path, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+o.management+"/api/"+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("guest", "guest")
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode > 299 {
		t.Fatalf("%s %s: %s: %s", method, path, answer.Status, text)
	}
}

// user makes a user, or changes one: password is a member of the request's body.
func (o *ownBroker) user(t *testing.T, name, password, tag string) {
	t.Helper()
	o.manage(t, http.MethodPut, "users/"+name, fmt.Sprintf(`{%s, "tags": %q}`, password, tag))
}

// allow gives a user the right to write what matches, and to read and configure all.
func (o *ownBroker) allow(t *testing.T, name, write string) {
	t.Helper()
	o.manage(t, http.MethodPut, "permissions/%2F/"+name,
		fmt.Sprintf(`{"configure": ".*", "write": %q, "read": ".*"}`, write))
}

// addUser makes a user with the tests' password and all rights.
func (o *ownBroker) addUser(t *testing.T, name, tag string) {
	t.Helper()
	o.user(t, name, fmt.Sprintf(`"password": %q`, password), tag)
	o.allow(t, name, ".*")
}

// closeConnections ends the connections of a user.
func (o *ownBroker) closeConnections(t *testing.T, name string) {
	t.Helper()
	o.manage(t, http.MethodDelete, "connections/username/"+name, "")
}

// write writes a file into a directory and returns its path.
func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
