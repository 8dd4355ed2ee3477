package health

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/relay"
)

// ask sends a request to the handler as if it came from a remote address.
func ask(s *Server, method, path, remote string) (status int, body string) {
	request := httptest.NewRequest(method, "http://127.0.0.1:9630"+path, nil)
	request.RemoteAddr = remote
	answer := httptest.NewRecorder()
	s.handler(&guard{}).ServeHTTP(answer, request)
	return answer.Code, answer.Body.String()
}

const loopback = "127.0.0.1:40000"

func TestAnswers(t *testing.T) {
	t.Parallel()
	stuck := errors.New("the dispatch loop has not turned for 30s")
	away := errors.New("no broker answers\nat h:9092: set OUTBOX_PUBLISH_URL")
	well := []relay.Check{
		{Name: "database"},
		{Name: "destination default", Note: "standing by: another replica is active"},
	}
	broken := []relay.Check{{Name: "database"}, {Name: "destination default", Err: away}}
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	for _, c := range []struct {
		name, method, path string
		live               error
		checks             []relay.Check
		status             int
		body               string
	}{
		{"live", "GET", "/livez", nil, nil, 200, "ok\n"},
		{"head", "HEAD", "/livez", nil, nil, 200, "ok\n"}, // the server omits the body
		{"alias", "GET", "/healthz", nil, nil, 200, "ok\n"},
		{"stuck", "GET", "/livez", stuck, nil, 503, "the dispatch loop has not turned for 30s\n"},
		{"alias stuck", "GET", "/healthz", stuck, nil, 503, "the dispatch loop has not turned for 30s\n"},
		{"live while not ready", "GET", "/livez", nil, broken, 200, "ok\n"},
		{"ready", "GET", "/readyz", nil, well, 200, "ok\n"},
		{"ready while stuck", "GET", "/readyz", stuck, well, 200, "ok\n"},
		{
			"ready, each check", "GET", "/readyz?verbose", nil, well, 200,
			"[+]database ok\n[+]destination default ok: standing by: another replica is active\nready\n",
		},
		{
			"not ready", "GET", "/readyz", nil, broken, 503,
			"[-]destination default: failed; reason withheld\nnot ready; /readyz?verbose gives " +
				"the reasons to callers on the same host or with credentials\n",
		},
		{
			"not ready, each check", "GET", "/readyz?verbose=1", nil, broken, 503,
			"[+]database ok\n[-]destination default: no broker answers; at h:9092: set OUTBOX_PUBLISH_URL\nnot ready\n",
		},
		{"metrics", "GET", "/metrics", nil, nil, 200, "up 1\n"},
		{"wrong method", "POST", "/livez", nil, nil, 405, "Method Not Allowed\n"},
		{"unknown", "GET", "/", nil, nil, 404, "404 page not found\n"},
	} {
		s := &Server{Live: func() error { return c.live }, Ready: func() []relay.Check { return c.checks }, Metrics: metrics}
		if status, body := ask(s, c.method, c.path, loopback); status != c.status || body != c.body {
			t.Errorf("%s: got %d %q, want %d %q", c.name, status, body, c.status, c.body)
		}
	}
}

func TestDoorbell(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		method, remote string
		status, rings  int
	}{
		{"POST", "127.0.0.1:40000", 202, 1},
		{"POST", "127.8.8.8:40000", 202, 1},
		{"POST", "[::1]:40000", 202, 1},
		{"POST", "[::ffff:127.0.0.1]:40000", 202, 1},
		{"POST", "10.0.0.7:40000", 403, 0},
		{"POST", "127.0.0.6:40000", 403, 0}, // Istio's proxy, for any caller
		{"POST", "[::ffff:127.0.0.6]:40000", 403, 0},
		{"POST", "[fe80::1%eth0]:40000", 403, 0},
		{"POST", "@", 403, 0},
		{"GET", "127.0.0.1:40000", 405, 0},
		{"PUT", "127.0.0.1:40000", 405, 0},
	} {
		rings := 0
		s := &Server{Doorbell: func() { rings++ }}
		if status, body := ask(s, c.method, "/doorbell", c.remote); status != c.status || rings != c.rings {
			t.Errorf("%s from %s: got %d (%s), %d rings", c.method, c.remote, status, body, rings)
		}
	}
}

// A browser page on this host, or a proxy that forwards external requests, is not a program in the pod.
func TestDoorbellIsNotForOthers(t *testing.T) {
	t.Parallel()
	for _, header := range []string{
		"Origin", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Client-Cert", "Via",
		"X-Real-Ip",
		"X-Envoy-External-Address", "Host",
	} {
		s := &Server{Doorbell: func() { t.Errorf("rung with %s", header) }}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/doorbell", nil)
		request.RemoteAddr = loopback
		if header == "Host" {
			request.Host = "elsewhere.example:9630"
		} else {
			request.Header.Set(header, "https://elsewhere.example")
		}
		answer := httptest.NewRecorder()
		s.handler(&guard{}).ServeHTTP(answer, request)
		if answer.Code != http.StatusForbidden {
			t.Errorf("%s: %d", header, answer.Code)
		}
	}
}

// Reasons and notes name hosts and roles: remote callers get the same answer without them.
func TestReadinessWithholdsDetails(t *testing.T) {
	t.Parallel()
	checks := []relay.Check{
		{Name: "ownership", Note: "relays 8 of 16 shards"},
		{Name: "database", Err: errors.New("role relay at db:5432: refused")},
	}
	s := &Server{Ready: func() []relay.Check { return checks }}
	for _, remote := range []string{"10.0.0.7:40000", "127.0.0.6:40000", loopback} {
		status, body := ask(s, "GET", "/readyz?verbose", remote)
		details := strings.Contains(body, "role relay at db:5432") && strings.Contains(body, "8 of 16")
		if status != 503 || details != (remote == loopback) || !strings.Contains(body, "[+]ownership ok") ||
			!strings.Contains(body, "[-]database") {
			t.Errorf("from %s: %d %s", remote, status, body)
		}
		if !details && strings.Contains(body, "db") {
			t.Errorf("from %s: %s", remote, body)
		}
	}
	if _, body := ask(s, "GET", "/readyz", loopback); strings.Contains(body, "5432") {
		t.Errorf("without verbose: %s", body)
	}
}

// Paths whose fields are nil are not served.
func TestAbsentParts(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/doorbell", "/debug/pprof/"} {
		if status, _ := ask(&Server{}, "GET", path, loopback); status != 404 {
			t.Errorf("%s: status %d", path, status)
		}
	}
}

// start runs a server and returns its address; stop ends it and returns the result of Run.
func start(t *testing.T, s *Server) (addr string, stop func() error) {
	t.Helper()
	s.Logger = slog.New(slog.DiscardHandler)
	listening := make(chan net.Addr, 1)
	s.Listening = func(addr net.Addr) { listening <- addr }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case found := <-listening:
		return found.String(), func() error { cancel(); return <-ended }
	case err := <-ended:
		cancel()
		t.Fatal(err)
		return "", nil
	}
}

func TestRunAndProbe(t *testing.T) {
	t.Parallel()
	var live atomic.Bool
	addr, stop := start(t, &Server{Addr: ":0", Live: func() error {
		if live.Load() {
			return nil
		}
		return errors.New("stuck in a loop")
	}})
	_, port, _ := net.SplitHostPort(addr)
	for _, wildcard := range []string{":" + port, "0.0.0.0:" + port, "[::]:" + port, "127.0.0.1:" + port} {
		if _, err := (Here{Addr: wildcard}).Get(t.Context(), "/livez"); err == nil ||
			!strings.Contains(err.Error(), "answers 503: stuck in a loop") {
			t.Errorf("%s: while stuck: %v", wildcard, err)
		}
	}
	live.Store(true)
	if _, err := (Here{Addr: ":" + port}).Get(t.Context(), "/livez"); err != nil {
		t.Errorf("while live: %v", err)
	}
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := (Here{Addr: ":" + port}).Get(t.Context(), "/livez"); err == nil {
		t.Error("a server that has stopped is live")
	}
	if _, err := (Here{Addr: "nonsense"}).Get(t.Context(), "/livez"); err == nil {
		t.Error("an address without a port was asked")
	}
}

func TestProbeGivesUp(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	addr, stop := start(t, &Server{Addr: "127.0.0.1:0", Live: func() error { <-release; return nil }})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := (Here{Addr: addr}).Get(ctx, "/livez"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestAddressInUse(t *testing.T) {
	t.Parallel()
	addr, stop := start(t, &Server{Addr: "127.0.0.1:0"})
	second := &Server{Addr: addr, Logger: slog.New(slog.DiscardHandler)}
	if err := second.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "listen for health checks: ") {
		t.Errorf("got %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A request in progress is answered when the server stops.
func TestStopAnswersRequestsUnderWay(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	addr, stop := start(t, &Server{Addr: "127.0.0.1:0", Live: func() error { close(entered); <-release; return nil }})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	for { // until the listener is closed, so that the stop has certainly begun
		again, err := net.Dial("tcp", addr)
		if err != nil {
			break
		}
		again.Close()
	}
	close(release)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || line != "HTTP/1.1 200 OK\r\n" {
		t.Errorf("got %q, %v", line, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// A relay that listens on one loopback address alone is found by the name of both.
func TestProbeOfLocalhost(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{
			Handler:           http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
			ReadHeaderTimeout: time.Minute,
		}
		go func() { _ = server.Serve(listener) }()
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		here := Here{Addr: "localhost:" + port}
		if _, err := here.Get(t.Context(), "/livez"); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		server.Close()
	}
}
