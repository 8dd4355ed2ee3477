package health

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/outbox-relay/outbox-relay/relay"
)

// certificate makes a certificate for a name other than the loopback interface's, and returns the PEM text of the
// certificate and of its key.
func certificate(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

// webFile writes a web configuration, beside server.crt and server.key, and returns its path.
func webFile(t *testing.T, text string) string {
	t.Helper()
	folder := t.TempDir()
	cert, key := certificate(t, "relay.example")
	for name, content := range map[string][]byte{"server.crt": cert, "server.key": key, "web.yaml": []byte(text)} {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(folder, "web.yaml")
}

func hashed(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

const tlsFiles = "tls_server_config:\n  cert_file: server.crt\n  key_file: server.key\n"

func text(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) })
}

// With TLS and passwords, metrics and details require a password. Liveness and readiness do not, since the kubelet has
// none. The command on the same host needs no password either: it has the file.
func TestProtectedPort(t *testing.T) {
	t.Parallel()
	path := webFile(t, tlsFiles+"basic_auth_users:\n  prom: "+hashed(t, "hush")+"\n")
	away := errors.New("role relay at db:5432: refused")
	addr, stop := start(t, &Server{
		Addr: "127.0.0.1:0", Config: path, Live: func() error { return nil }, Metrics: text("up 1\n"),
		Ready: func() []relay.Check { return []relay.Check{{Name: "database", Err: away}} },
	})
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
	}}
	get := func(path, user, password, forwarded string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if user != "" {
			request.SetBasicAuth(user, password)
		}
		if forwarded != "" { // as if forwarded from another host
			request.Header.Set("X-Forwarded-For", forwarded)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	for _, c := range []struct {
		path, user, password string
		status               int
		says                 string
	}{
		{"/metrics", "", "", 401, "user name"},
		{"/metrics", "prom", "wrong", 401, ""},
		{"/metrics", "prom", "", 401, ""},
		{"/metrics", "other", "hush", 401, ""},
		{"/metrics", "other", "fakepassword", 401, ""}, // the hash for unknown users belongs to this password
		{"/metrics", "prom", "hush", 200, "up 1"},
		{"/metrics", "prom", "hush", 200, "up 1"}, // remembered
		{"/livez", "", "", 200, "ok"},
		{"/readyz", "", "", 503, "reason withheld"},
		{"/readyz?verbose", "", "", 503, "reason withheld"},
		{"/readyz?verbose", "prom", "wrong", 503, "reason withheld"},
		{"/readyz?verbose", "prom", "hush", 503, "db:5432"},
	} {
		if status, body := get(c.path, c.user, c.password, "10.0.0.7"); status != c.status ||
			!strings.Contains(body, c.says) {
			t.Errorf("%s as %q with %q: %d %s", c.path, c.user, c.password, status, body)
		}
	}
	if status, _ := get("/metrics", "", "", ""); status != 401 {
		t.Errorf("metrics, on this host, without a password: %d", status)
	}
	here := Here{Addr: addr, Config: path}
	if _, err := here.Get(t.Context(), "/livez"); err != nil {
		t.Errorf("health check: %v", err)
	}
	if body, err := here.Get(t.Context(), "/metrics"); err != nil || string(body) != "up 1\n" {
		t.Errorf("from here: %q, %v", body, err)
	}
	if _, err := (Here{Addr: addr}).Get(t.Context(), "/livez"); err == nil {
		t.Error("the port answers without TLS")
	}
	// Renewed certificates and passwords need no restart, and a broken file changes nothing.
	if err := os.WriteFile(path, []byte("basic_auth_users: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := here.Get(t.Context(), "/livez"); err != nil {
		t.Errorf("health check with a broken file: %v", err)
	}
	if err := os.WriteFile(path, []byte(tlsFiles+"basic_auth_users:\n  second: "+hashed(t, "other")+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// The file is read again: its present contents apply, and while it is broken, the last valid ones.
func TestGuardReadsAgain(t *testing.T) {
	t.Parallel()
	path := webFile(t, "basic_auth_users:\n  prom: "+hashed(t, "hush")+"\n")
	var log strings.Builder
	g := &guard{path: path, logger: slog.New(slog.NewTextHandler(&log, nil))}
	status := func(user, password string) int {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.SetBasicAuth(user, password)
		answer := httptest.NewRecorder()
		g.protect(text("")).ServeHTTP(answer, request)
		return answer.Code
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if status("prom", "hush") != 200 {
		t.Error("the password of the file was refused")
	}
	for range 3 {
		for _, broken := range []string{"basic_auth_users: [", tlsFiles, ""} {
			write(broken)
			if status("prom", "hush") != 200 || status("prom", "wrong") != 401 {
				t.Errorf("with %q the last passwords are not in force", broken)
			}
		}
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 6 || strings.Contains(log.String(), "$2a$") {
		t.Errorf("%d lines: %s", n, &log)
	}
	write("basic_auth_users:\n  prom: " + hashed(t, "new") + "\n")
	if status("prom", "hush") != 401 || status("prom", "new") != 200 {
		t.Error("a changed password is not in force")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if status("prom", "new") != 200 || status("prom", "") != 401 {
		t.Error("a file that is gone opened or closed the port")
	}
}

// The rights that the file grants to callers that have it are valid on this host only.
func TestTokenIsForThisHost(t *testing.T) {
	t.Parallel()
	g := &guard{path: webFile(t, "basic_auth_users:\n  prom: "+hashed(t, "hush")+"\n")}
	local := g.config().local
	for _, c := range []struct {
		remote, token string
		status        int
	}{
		{loopback, local, 200},
		{"10.0.0.7:1", local, 401},
		{"127.0.0.6:1", local, 401},
		{loopback, "", 401},
		{loopback, local + "0", 401},
	} {
		request := httptest.NewRequest(http.MethodGet, "http://localhost/metrics", nil)
		request.RemoteAddr = c.remote
		request.Header.Set("Authorization", "Bearer "+c.token)
		answer := httptest.NewRecorder()
		g.protect(text("")).ServeHTTP(answer, request)
		if answer.Code != c.status {
			t.Errorf("from %s: %d, want %d", c.remote, answer.Code, c.status)
		}
	}
}

// Clients without the right certificate are rejected. The health check shows the server's own.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	path := webFile(t, tlsFiles+
		"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: server.crt\n  min_version: TLS13\n")
	addr, stop := start(t, &Server{Addr: "127.0.0.1:0", Config: path, Live: func() error { return nil }})
	if _, err := (Here{Addr: addr, Config: path}).Get(t.Context(), "/livez"); err != nil {
		t.Errorf("health check: %v", err)
	}
	for name, config := range map[string]*tls.Config{
		"none":      {},
		"another's": {Certificates: []tls.Certificate{pair(t, "relay.example")}},
	} {
		config.InsecureSkipVerify = true
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
		response, err := client.Get("https://" + addr + "/livez")
		if err == nil {
			response.Body.Close()
			t.Errorf("%s: %d", name, response.StatusCode)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func pair(t *testing.T, name string) tls.Certificate {
	t.Helper()
	cert, key := certificate(t, name)
	p, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConfigFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", tlsFiles: "", tlsFiles + "  min_version: TLS13\n": "",
		"rate_limit: {burst: 10, interval: 1s}\n":                                                   "not YAML in the format",
		"http_server_config: {http2: false}\n":                                                      "not YAML in the format",
		"basic_auth_users:\n  prom: hush\n":                                                         "bcrypt",
		"basic_auth_user:\n  prom: hush\n":                                                          "not YAML in the format",
		"basic_auth_users: [hush":                                                                   "not YAML in the format",
		"basic_auth_users:\n  prom: [hush]\n":                                                       "not YAML in the format",
		"tls_server_config:\n  cert_file: server.crt\n":                                             "key_file is missing",
		"tls_server_config:\n  cert_file: none.crt\n  key_file: none\n":                             "cert_file",
		"tls_server_config:\n  cert_file: web.yaml\n  key_file: server.key\n":                       "cert_file and key_file",
		tlsFiles + "  client_ca_file: server.crt\n":                                                 "without client_auth_type",
		tlsFiles + "  client_auth_type: Maybe\n":                                                    "Maybe",
		tlsFiles + "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: server.key\n": "no PEM certificate",
		tlsFiles + "  min_version: TLS11\n":                                                         "TLS11",
		tlsFiles + "  client_allowed_sans: [relay.example]\n":                                       "not YAML in the format",
	} {
		err := CheckConfig(webFile(t, text))
		if (err == nil) != (want == "") ||
			err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush")) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if err := CheckConfig(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := CheckConfig(""); err != nil {
		t.Errorf("not set: %v", err)
	}
}

// Profiles are served to this host only.
func TestPprof(t *testing.T) {
	t.Parallel()
	s := &Server{Pprof: true}
	if status, body := ask(s, "GET", "/debug/pprof/goroutine?debug=1", loopback); status != 200 ||
		!strings.Contains(body, "goroutine profile") {
		t.Errorf("%d %.100s", status, body)
	}
	if status, _ := ask(s, "GET", "/debug/pprof/heap", "10.0.0.7:1"); status != 403 {
		t.Errorf("from elsewhere: %d", status)
	}
}
