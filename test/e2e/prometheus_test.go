package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// prometheus is a server that scrapes relays twice a second.
type prometheus struct {
	t       testing.TB
	addr    string
	started time.Time
	scraped *httptest.Server // forwards the scrapes, so that relays may start and stop at any address

	mu     sync.Mutex
	relays map[string]*relay // running relays by job
}

// startPrometheus starts a server with the rules and with a target for each job, which is down until a relay runs.
func startPrometheus(t testing.TB, rules string, jobs ...string) *prometheus {
	t.Helper()
	p := &prometheus{t: t, addr: freeAddr(t), started: time.Now(), relays: map[string]*relay{}}
	p.scraped = httptest.NewServer(http.HandlerFunc(p.handOn))
	t.Cleanup(p.scraped.Close)
	dir := t.TempDir()
	config := "global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}\n" +
		"rule_files: [rules.yaml]\nscrape_configs:\n"
	for _, job := range jobs {
		config += fmt.Sprintf(
			"  - job_name: %s\n    metrics_path: /%s\n    static_configs: [{targets: [%q], labels: {namespace: shop}}]\n",
			job, job, strings.TrimPrefix(p.scraped.URL, "http://"))
	}
	for name, text := range map[string]string{"prometheus.yaml": config, "rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("../../bin/prometheus", "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.addr, "--log.level=warn")
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start prometheus: %v (make bin/promtool fetches it)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
		_ = cmd.Wait()                          // its status has no meaning
		if t.Failed() {
			t.Logf("log of prometheus:\n%s", log.String())
		}
	})
	await(t, "prometheus is ready", func() bool {
		response, err := http.Get("http://" + p.addr + "/-/ready")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

// scrape makes a relay the target of a job.
func (p *prometheus) scrape(job string, r *relay) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.relays[job] = r
}

func (p *prometheus) handOn(w http.ResponseWriter, request *http.Request) {
	p.mu.Lock()
	r := p.relays[strings.TrimPrefix(request.URL.Path, "/")]
	p.mu.Unlock()
	if r == nil {
		http.Error(w, "no relay yet", http.StatusServiceUnavailable)
		return
	}
	status, body := r.get("/metrics")
	if status != http.StatusOK {
		http.Error(w, "no answer", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = w.Write([]byte(body)) // the client, Prometheus, may be gone
}

// ask decodes the data of an answer of the API into a value.
func (p *prometheus) ask(path string, parameters url.Values, into any) error {
	response, err := http.Get("http://" + p.addr + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Error string          `json:"error"`
		Data  json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// firing lists the alerts that fire, each as its job and its name.
func (p *prometheus) firing() (alerts []string) {
	p.t.Helper()
	var data struct {
		Alerts []struct {
			Labels map[string]string `json:"labels"`
			State  string            `json:"state"`
		} `json:"alerts"`
	}
	if err := p.ask("alerts", nil, &data); err != nil {
		p.t.Fatal(err)
	}
	for _, alert := range data.Alerts {
		if alert.State == "firing" {
			alerts = append(alerts, strings.TrimSpace(alert.Labels["job"]+" "+alert.Labels["alertname"]))
		}
	}
	slices.Sort(alerts)
	return slices.Compact(alerts)
}

// fired returns the alerts that have fired at any time, each by its job and its name.
func (p *prometheus) fired() map[string]bool {
	p.t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
		} `json:"result"`
	}
	if err := p.ask("query", url.Values{"query": {`max_over_time(ALERTS{alertstate="firing"}[10m])`}}, &data); err != nil {
		p.t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, series := range data.Result {
		alerts[series.Metric["job"]+" "+series.Metric["alertname"]] = true
	}
	return alerts
}

// awaitFiring waits until right accepts the alerts that fire.
func (p *prometheus) awaitFiring(what string, right func(alerts []string) bool) {
	p.t.Helper()
	var alerts []string
	defer func() {
		if p.t.Failed() {
			p.t.Logf("last alerts: %q", alerts)
		}
	}()
	since := time.Now()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for alerts = p.firing(); !right(alerts); alerts = p.firing() {
		if time.Since(since) > patience {
			p.t.Fatalf("not within %v: %s", patience, what)
		}
		<-ticker.C
	}
	p.t.Logf("%s after %v", what, time.Since(since).Round(100*time.Millisecond))
}

// curve is a series over time, a value for each half second.
type curve struct {
	labels map[string]string
	times  []time.Time
	values []float64
}

// curves returns the results of a query since the start of the server.
func (p *prometheus) curves(query string) ([]curve, error) {
	var data struct {
		Result []struct {
			Metric map[string]string `json:"metric"`
			Values [][2]any          `json:"values"`
		} `json:"result"`
	}
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	over := url.Values{"query": {query}, "start": {seconds(p.started)}, "end": {seconds(time.Now())}, "step": {"0.5"}}
	if err := p.ask("query_range", over, &data); err != nil {
		return nil, err
	}
	var all []curve
	for _, series := range data.Result {
		c := curve{labels: series.Metric}
		for _, sample := range series.Values {
			at, _ := sample[0].(float64)
			text, _ := sample[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return nil, err
			}
			c.times = append(c.times, time.UnixMilli(int64(at*1000)))
			c.values = append(c.values, value)
		}
		all = append(all, c)
	}
	return all, nil
}
