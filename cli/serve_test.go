package cli

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// freeAddr returns an address of the loopback interface on which nothing listens. No outgoing connection takes its port
// before it is used: Linux assigns ports from 32768 on to these.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprint("127.0.0.1:", 10000+rand.N(10000))
		if listener, err := net.Listen("tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// running starts run without reachable services. When it is live, running returns functions for its log and for
// stopping it.
func running(t *testing.T, env ...string) (logged func() string, stop func() int) {
	t.Helper()
	env = append(env, "OUTBOX_DATABASE_URL=postgres://127.0.0.1:1/shop", "OUTBOX_PUBLISH_URL=stdout:")
	if status, _, errs := execute(t, env, "config"); status != 0 { // sets the environment
		t.Fatal(errs)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	logged = func() string {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- (&program{}).execute(ctx, []string{"run"}, strings.NewReader(""), io.Discard, log) }()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if status := (&program{}).execute(t.Context(), []string{"healthcheck"}, strings.NewReader(""), io.Discard,
			io.Discard); status == 0 {
			return logged, func() int { cancel(); return <-ended }
		}
		select {
		case status := <-ended:
			cancel()
			t.Fatalf("ended with status %d: %s", status, logged())
		case <-again.C:
		}
	}
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// Metrics and profiles have addresses of their own, which serve nothing else; the address of health checks does not
// change.
func TestAddresses(t *testing.T) {
	main, metrics, pprof := freeAddr(t), freeAddr(t), freeAddr(t)
	_, stop := running(t, "OUTBOX_HTTP_ADDR="+main, "OUTBOX_METRICS_ADDR="+metrics, "OUTBOX_PPROF_ADDR="+pprof)
	for url, want := range map[string]int{
		main + "/livez": 200, main + "/readyz": 503, main + "/metrics": 404, main + "/debug/pprof/": 404,
		metrics + "/metrics": 200, metrics + "/livez": 404, metrics + "/readyz": 404, metrics + "/doorbell": 404,
		metrics + "/debug/pprof/": 404,
		pprof + "/debug/pprof/":   200, pprof + "/debug/pprof/heap": 200, pprof + "/metrics": 404, pprof + "/livez": 404,
	} {
		if status, _ := fetch(t, "http://"+url); status != want {
			t.Errorf("%s: %d, want %d", url, status, want)
		}
	}
	if status := stop(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// Without those settings the main address serves the metrics, and no address the profiles.
func TestOneAddress(t *testing.T) {
	for _, same := range []bool{false, true} {
		main := freeAddr(t)
		env := []string{"OUTBOX_HTTP_ADDR=" + main}
		if same {
			env = append(env, "OUTBOX_METRICS_ADDR="+main)
		}
		_, stop := running(t, env...)
		if status, body := fetch(t, "http://"+main+"/metrics"); status != 200 ||
			!strings.Contains(body, "outbox_relay_build_info") {
			t.Errorf("%d %.200s", status, body)
		}
		if status, _ := fetch(t, "http://"+main+"/debug/pprof/"); status != 404 {
			t.Errorf("profiles: %d", status)
		}
		stop()
	}
}

// The status page is served unless it is turned off, and needs no database.
func TestStatusPageOff(t *testing.T) {
	for value, want := range map[string]int{"": 200, "on": 200, "off": 404} {
		main := freeAddr(t)
		_, stop := running(t, "OUTBOX_HTTP_ADDR="+main, "OUTBOX_STATUS_PAGE="+value)
		for _, path := range []string{"/", "/status"} {
			if status, body := fetch(t, "http://"+main+path); status != want {
				t.Errorf("%s with %q: %d %s", path, value, status, body)
			}
		}
		stop()
	}
}

// Remote callers see neither hosts nor roles in the report; the command on this host does.
func TestStatusWithholdsDetails(t *testing.T) {
	main := freeAddr(t)
	_, stop := running(t, "OUTBOX_HTTP_ADDR="+main, "PGUSER=somebody")
	for elsewhere, want := range map[string]bool{"": true, "10.0.0.7": false} {
		deadline := time.Now().Add(20 * time.Second)
		for {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+main+"/status", nil)
			if err != nil {
				t.Fatal(err)
			}
			if elsewhere != "" {
				request.Header.Set("X-Forwarded-For", elsewhere)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			text := string(body)
			if details := strings.Contains(text, "127.0.0.1:1") && strings.Contains(text, "somebody"); details == want &&
				strings.Contains(text, "ready\":false") {
				if !want && (strings.Contains(text, "127.0.0.1") || strings.Contains(text, "somebody") ||
					!strings.Contains(text, "withheld")) {
					t.Errorf("from elsewhere: %s", text)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("from %q: %s", elsewhere, text)
			}
		}
	}
	stop()
}

// With passwords both addresses require one, and healthcheck needs none.
func TestPasswordsOnBothAddresses(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("hush"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte("basic_auth_users:\n  prom: "+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	main, metrics := freeAddr(t), freeAddr(t)
	logged, stop := running(t, "OUTBOX_HTTP_ADDR="+main, "OUTBOX_METRICS_ADDR="+metrics, "OUTBOX_HTTP_CONFIG="+file)
	for url, want := range map[string]int{
		"http://" + metrics + "/metrics": 401, "http://prom:hush@" + metrics + "/metrics": 200,
		"http://" + main + "/livez":  200,
		"http://" + main + "/status": 401, "http://" + main + "/": 401, "http://prom:hush@" + main + "/status": 200,
	} {
		if status, _ := fetch(t, url); status != want {
			t.Errorf("%s: %d, want %d", url, status, want)
		}
	}
	stop()
	if strings.Contains(logged(), "hush") || strings.Contains(logged(), string(hash)) {
		t.Error("a secret was logged")
	}
}

// If an address is in use or a file cannot be used, the process ends with an error that names the setting.
func TestAddressTrouble(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	taken := listener.Addr().String()
	for setting, want := range map[string]int{
		"OUTBOX_METRICS_ADDR=" + taken: 1, "OUTBOX_PPROF_ADDR=" + taken: 1,
		"OUTBOX_HTTP_CONFIG=/nowhere/web.yaml": 2,
	} {
		status, _, errs := execute(t, append([]string{
			"OUTBOX_HTTP_ADDR=" + freeAddr(t), "OUTBOX_DATABASE_URL=postgres://127.0.0.1:1/shop",
			"OUTBOX_PUBLISH_URL=stdout:", "OUTBOX_METRICS_ADDR=",
			"OUTBOX_PPROF_ADDR=", "OUTBOX_HTTP_CONFIG=",
		}, setting), "run")
		if name, _, _ := strings.Cut(setting, "="); status != want || !strings.Contains(errs, name) {
			t.Errorf("%s: status %d: %s", setting, status, errs)
		}
	}
}
