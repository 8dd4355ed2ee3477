package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/tlstest"
)

// checkMistake starts a relay with a mistake in the settings of its broker. A line of each of the relay's parts says
// what to change, with all of the words: in the log, however often the relay tries again, in /readyz?verbose, and in
// doctor. No row is touched and no secret is printed.
func checkMistake(t *testing.T, publishURL string, env settings, says []string) {
	t.Helper()
	outbox := newTable(t)
	outbox.insert("orders", 0, 20, 5)
	env = outbox.env(publishURL, env...)
	r := startRelay(t, env)
	r.awaitNotReady(says...)
	await(t, "the log says it", func() bool { return containsAll(r.Log(), says) })
	d := doctor(t, env)
	found := d.errors()
	if len(found) != 1 || found[0].Area != "destination" ||
		!containsAll(found[0].Subject+" "+found[0].Found+": "+found[0].Remedy, says) {
		t.Errorf("doctor says %+v, want %q", found, says)
	}
	awaitRetries(t, r, 3)
	// The probe says that the broker is out of reach, and the engine that rows are held. For a silent server, a second
	// line of the probe may say more than the first, which only reports that there was no answer.
	lines := map[string]string{}
	for _, warning := range r.records("WARN") {
		if last, again := lines[warning.Msg]; again && (last == warning.Error || !containsAll(warning.Error, says)) {
			t.Errorf("said again: %v", warning)
		}
		lines[warning.Msg] = warning.Error
	}
	_, body := r.get("/readyz?verbose")
	t.Log(body)
	if strings.Contains(body+r.Log(), "hunter2") {
		t.Error("a secret is shown")
	}
	r.stop()
	if touched := outbox.count("attempt <> 1 or last_error is not null or relayed_at is not null"); touched > 0 {
		t.Errorf("%d rows were touched", touched)
	}
}

// awaitRetries waits until the relay has tried to publish some more times in vain.
func awaitRetries(t *testing.T, r *relay, tries int) {
	t.Helper()
	before := r.refusals()
	awaitWithin(t, 5*time.Minute, "more tries", func() bool {
		r.mustRun()
		return r.refusals() >= before+tries
	})
}

// mistake is a publish URL and settings with which no broker can be reached, and the expected words.
type mistake struct {
	url  string
	env  settings
	says []string
}

// checkMistakes checks each mistake in a subtest.
func checkMistakes(t *testing.T, mistakes map[string]mistake) {
	for name, m := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkMistake(t, m.url, m.env, m.says)
		})
	}
}

// secured is a directory with a certificate authority, for a broker with TLS.
type secured struct {
	dir       string
	authority *tlstest.Authority
	server    tlstest.Leaf // certificate for localhost
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	s := &secured{dir: t.TempDir(), authority: tlstest.NewAuthority(t)}
	s.server = s.authority.Issue(t, tlstest.Leaf{Name: "localhost"})
	return s
}

// write writes a file into the directory and returns its path.
func (s *secured) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestNATSMistakes: mistakes in the settings of NATS name the setting, each in its own way. TestTroubles in
// publisher/nats has what else can be wrong.
func TestNATSMistakes(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	set := newServices(t, "secure-nats", "SERVICES_MODE=native", "SERVICES_NATS_CONF="+fmt.Sprintf(
		"authorization { users = [{user: relay, password: \"old-hunter2\"}] }\ntls { cert_file: %q, key_file: %q }",
		s.write(t, "server.pem", s.server.Cert), s.write(t, "server.key", s.server.Key)))
	set.run("up", "nats")
	secure := strings.Replace(strings.TrimPrefix(set.address("TEST_NATS_URL"), "nats://"), "127.0.0.1", "localhost", 1)
	ca := "OUTBOX_TLS_CA_FILE=" + s.write(t, "ca.pem", s.authority.PEM)
	stranger := "OUTBOX_TLS_CA_FILE=" + s.write(t, "other.pem", tlstest.NewAuthority(t).PEM)
	const right = "relay:old-hunter2@"
	checkMistakes(t, map[string]mistake{
		"wrong password": {
			"nats+tls://relay:wrong-hunter2@" + secure,
			settings{ca},
			[]string{"refuses the login", "OUTBOX_PUBLISH_URL"},
		},
		"wrong token": {
			"nats+tls://" + secure,
			settings{ca, "OUTBOX_NATS_TOKEN=hunter2"},
			[]string{"refuses the login", "_TOKEN"},
		},
		"wrong CA": {
			"nats+tls://" + right + secure,
			settings{stranger},
			[]string{"unknown authority", "OUTBOX_TLS_CA"},
		},
		"another name": {
			"nats+tls://" + right + strings.Replace(secure, "localhost", "127.0.0.1", 1),
			settings{ca},
			[]string{"OUTBOX_TLS_SERVER_NAME"},
		},
		"nobody": {"nats://" + nobody, nil, []string{nobody, "nothing listens there"}},
		"HTTP":   {"nats://" + serveHTTP(t), nil, []string{"port"}},
	})
}
