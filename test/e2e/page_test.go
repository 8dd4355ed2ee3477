//go:build page

// These tests need Chromium: make page obtains it.

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/outbox-relay/outbox-relay/internal/health"
	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// browser is a tab of a headless Chromium, with the errors that occurred in it.
type browser struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // chromedp keeps the tab in it

	mu       sync.Mutex
	asked    map[string]bool // URLs that the page requested
	problems []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(endpoint(t, "TEST_CHROMIUM")), chromedp.NoSandbox,
		chromedp.WindowSize(1280, 1040))
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(release)
	ctx, leave := chromedp.NewContext(allocated)
	t.Cleanup(leave)
	b := &browser{t: t, asked: map[string]bool{}}
	b.ctx, leave = context.WithTimeout(ctx, patience)
	t.Cleanup(leave)
	chromedp.ListenTarget(b.ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.asked[e.Request.URL] = true
		case *log.EventEntryAdded:
			b.problems = append(b.problems, e.Entry.Text)
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, e.ExceptionDetails.Error())
		case *page.EventJavascriptDialogOpening:
			b.problems = append(b.problems, "a dialog: "+e.Message)
		}
	})
	b.do(network.Enable(), log.Enable())
	return b
}

func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// evaluate returns the value of a script.
func evaluate[T any](b *browser, script string) (value T) {
	b.t.Helper()
	b.do(chromedp.Evaluate(script, &value))
	return value
}

// open shows the page and waits until it has a report.
func (b *browser) open(addr string) {
	b.t.Helper()
	b.do(chromedp.Navigate("http://"+addr+"/"), chromedp.WaitVisible("main section dl"))
}

// TestPageInBrowser tests the page of a real relay: it shows the actual state, does not treat text as markup, fetches nothing
// from other servers, and can be used with a keyboard and with a screen reader.
func TestPageInBrowser(t *testing.T) {
	t.Parallel()
	r, held := busy(t)
	b := newBrowser(t)
	b.open(r.Address)
	var text string
	await(t, "the page shows what is held, and why", func() bool { // a busy server looks like one that is away at first
		text = evaluate[string](b, "document.body.innerText")
		return strings.Contains(text, held) && strings.Contains(text, "topology")
	})
	for _, part := range []string{hostile, "Destination default", "Topics of default with failed rows", "topology", "16", "rows held: default"} {
		if !strings.Contains(text, part) {
			t.Errorf("the page does not say %q:\n%s", part, text)
		}
	}
	if strings.Contains(text, "secret-key") || evaluate[int](b, `document.querySelectorAll("main img").length`) != 0 ||
		strings.Contains(evaluate[string](b, "document.title"), "taken") {
		t.Error("a key is shown, or a topic's name was taken for markup")
	}
	t.Logf("first contentful paint after %.0f ms", evaluate[float64](b, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))

	b.screenReader()
	b.keyboard()
	r.stop()
	await(t, "the page says that nobody answers",
		func() bool { return evaluate[string](b, `document.getElementById("state").textContent`) == "no answer" })
	b.mu.Lock()
	defer b.mu.Unlock()
	for url := range b.asked {
		if !strings.HasPrefix(url, "http://"+r.Address+"/") && !strings.HasPrefix(url, "data:") {
			t.Errorf("the page fetched %s", url)
		}
	}
	for _, problem := range b.problems {
		if !strings.Contains(problem, "ERR_CONNECTION_REFUSED") { // after the stop
			t.Errorf("in the browser: %s", problem)
		}
	}
}

// screenReader checks what assistive technology reads: every focusable element has a name, as do tables and pictures.
func (b *browser) screenReader() {
	b.t.Helper()
	var tree struct {
		Nodes []struct {
			Ignored bool `json:"ignored"`
			Role    struct {
				Value any `json:"value"`
			} `json:"role"`
			Name struct {
				Value any `json:"value"`
			} `json:"name"`
		} `json:"nodes"`
	}
	b.do(chromedp.ActionFunc(func(ctx context.Context) error { return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree) }))
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role, _ := n.Role.Value.(string)
		name, _ := n.Name.Value.(string)
		roles[role]++
		switch role {
		case "table", "image", "img", "button", "region", "link", "columnheader", "rowheader":
			if name == "" {
				b.t.Errorf("a %s without a name", role)
			}
		}
	}
	for _, role := range []string{
		"banner", "main", "contentinfo", "heading", "table", "caption", "columnheader", "rowheader", "status",
		"button", "region",
	} {
		if roles[role] == 0 {
			b.t.Errorf("no %s: %v", role, roles)
		}
	}
	if roles["image"]+roles["img"] < 2 {
		b.t.Errorf("the charts have no description: %v", roles)
	}
}

// keyboard goes through the page with the Tab key, and opens and presses the controls that it meets.
func (b *browser) keyboard() {
	b.t.Helper()
	met := map[string]bool{}
	for range 20 {
		b.do(chromedp.KeyEvent(kb.Tab))
		what := evaluate[string](b,
			`document.activeElement.tagName + " " + (document.activeElement.dataset.id || document.activeElement.id || "")`)
		if met[what] {
			continue
		}
		met[what] = true
		if width := evaluate[string](b, `getComputedStyle(document.activeElement).outlineStyle`); what != "BODY " && width == "none" {
			b.t.Errorf("%s shows no focus", what)
		}
		switch what {
		case "BUTTON pause":
			b.do(chromedp.KeyEvent(" "))
			if evaluate[string](b, `document.activeElement.getAttribute("aria-pressed")`) != "true" {
				b.t.Error("the button cannot be pressed")
			}
		case "SUMMARY history default":
			b.do(chromedp.KeyEvent(kb.Enter))
			if !evaluate[bool](b, `document.activeElement.parentElement.open`) {
				b.t.Error("the table of a chart cannot be opened")
			}
			b.do(chromedp.Evaluate("refresh()", nil), chromedp.WaitReady("details[open]"))
			if again := evaluate[string](b, `document.activeElement.dataset.id || ""`); again != "history default" {
				b.t.Errorf("after the page was drawn again the focus is on %q", again)
			}
		}
	}
	for _, what := range []string{"BUTTON pause", "SUMMARY history default", "A json"} {
		if !met[what] {
			b.t.Errorf("%s is not reached: %v", what, met)
		}
	}
	b.do(chromedp.Click("#pause"))
}

// serveReport serves the page of a report on any port.
func serveReport(t *testing.T, report func() operate.Report) (addr string) {
	t.Helper()
	listening := make(chan net.Addr, 1)
	server := &health.Server{
		Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Listening: func(a net.Addr) { listening <- a },
		Status: func(context.Context, bool) any { return report() },
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return (<-listening).String()
}

// check examines what is drawn: each text has enough contrast, stays within its card and keeps its words whole, and the page is
// no wider than the window.
func (b *browser) check(name string) {
	b.t.Helper()
	for problem, script := range map[string]string{"too little contrast": contrast, "out of its card": outside, "broken words": broken} {
		if found := evaluate[[]string](b, script); len(found) > 0 {
			b.t.Errorf("%s: %s: %q", name, problem, found)
		}
	}
	if evaluate[bool](b, "document.documentElement.scrollWidth > document.documentElement.clientWidth") {
		b.t.Errorf("%s: the page is wider than the window", name)
	}
}

// TestPageColours draws a report of a busy hour in light and dark colours. With -update the pictures in docs are written.
func TestPageColours(t *testing.T) {
	t.Parallel()
	addr := serveReport(t, func() operate.Report { return anHour(time.Now()) })
	b := newBrowser(t)
	for _, scheme := range []string{"light", "dark"} {
		b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
		b.open(addr)
		b.check(scheme)
		if *update {
			var picture []byte
			b.do(chromedp.CaptureScreenshot(&picture))
			if err := os.WriteFile("../../docs/status-"+scheme+".png", picture, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPageSizes draws reports with and without trouble, from no destination to twelve, on a telephone and on a desk. The worst
// destination is named beside the title and stands first. With -artifacts the pictures are kept.
func TestPageSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		destinations int
		state, first string
	}{
		{0, "not everything is known", ""},
		{1, "rows cannot be marked", ""},
		{5, "down: audit", "audit"},
		{12, "down: audit", "audit"},
		{13, "no replica relays reports", "audit"},
	} {
		t.Run(fmt.Sprint(c.destinations), func(t *testing.T) {
			t.Parallel()
			addr := serveReport(t, func() operate.Report { return troubled(time.Now(), c.destinations) })
			b := newBrowser(t)
			for _, width := range []int64{390, 1440} {
				for _, scheme := range []string{"light", "dark"} {
					name := fmt.Sprintf("%d-%d-%s", c.destinations, width, scheme)
					b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
						emulation.SetDeviceMetricsOverride(width, 900, 1, width < 500))
					b.open(addr)
					b.check(name)
					if got := evaluate[string](b, `document.getElementById("state").textContent`); got != c.state {
						t.Errorf("%s: the state is %q", name, got)
					}
					if got := evaluate[string](b, `(document.querySelector(".overview tbody a") || {}).textContent || ""`); got != c.first {
						t.Errorf("%s: the first destination is %q", name, got)
					}
					if c.first != "" && !evaluate[bool](b,
						`[...document.querySelectorAll(".overview a")].every(a => document.getElementById(a.hash.slice(1)))`) {
						t.Errorf("%s: a link leads nowhere", name)
					}
					var picture []byte
					b.do(chromedp.FullScreenshot(&picture, 100))
					if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), picture, 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// TestPageBestEffort marks the best-effort destinations, in the overview and on their cards. Such a destination is a warning when
// its broker is away, and comes after those that the relay needs.
func TestPageBestEffort(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.open(serveReport(t, func() operate.Report {
		r := troubled(time.Now(), 12)
		calm, notice := r.Destinations[4], r.Destinations[8]
		r.Destinations = []operate.Destination{calm, notice}
		r.Untaken, r.Ownership.Groups = nil, []operate.Group{}
		return r
	}))
	const states = `[...document.querySelectorAll(".overview tbody tr")].map(r => r.innerText.replace(/\s+/g, " ").slice(0, 30))`
	if got := evaluate[[]string](b, states); len(got) != 2 || !strings.HasPrefix(got[0], "search-index best effort down") ||
		!strings.HasPrefix(got[1], "dead-letters up") {
		t.Errorf("the overview is %q", got)
	}
	if got := evaluate[string](b, `document.querySelector("#destination-search-index h2").textContent`); !strings.Contains(got, "best effort") {
		t.Errorf("the card's heading is %q", got)
	}
	if got := evaluate[string](b, `document.getElementById("state").textContent + "/" + document.getElementById("state").className`); got !=
		"down: search-index/state warn" {
		t.Errorf("the state is %q", got)
	}
	b.check("best effort")
}

// outside lists texts that reach beyond their card, or beyond a part that scrolls and should not need to.
const outside = `[...document.querySelectorAll("section *, header *")].filter(e => {
  const card = e.closest("section, header"), box = e.getBoundingClientRect();
  if (e.matches(".scroll:has(.stack)")) return e.scrollWidth > e.clientWidth;
  return !e.closest(".scroll") && e.checkVisibility() && box.width && box.right > card.getBoundingClientRect().right + 1;
}).map(e => e.textContent.slice(0, 60))`

// broken lists words of ordinary length that are broken between two letters.
const broken = `(() => {
  const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    if (!e.checkVisibility() || e instanceof SVGElement || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(e.tagName)) continue;
    for (const word of n.textContent.matchAll(/[A-Za-z0-9_.]{2,14}/g)) {
      range.setStart(n, word.index); range.setEnd(n, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
      if (tops.size > 1 && !/[^\s]/.test(n.textContent[word.index - 1] || " ")) found.push(word[0] + " in " + n.textContent.slice(0, 40));
    }
  }
  return found;
})()`

// contrast lists texts whose contrast is less than the 4.5 that WCAG requires.
const contrast = `(() => {
  const rgb = c => (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const faint = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    if (!n.textContent.trim() || !e.checkVisibility() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(e.tagName)) continue;
    const style = getComputedStyle(e), a = light(rgb(e instanceof SVGElement ? style.fill : style.color)), b = light(behind(e));
    if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) faint.push(n.textContent.trim());
  }
  return faint;
})()`

// anHour is a report of an ordinary day: two destinations, one of them with a topic whose stream is missing.
func anHour(now time.Time) operate.Report {
	history := func(rate, latency float64) (all []operate.Interval, relayed int64) {
		for i := range 120 {
			x := float64(i)
			rows := int64(30 * rate * (1 + 0.35*math.Sin(x/17) + 0.1*math.Sin(x*1.7) + 0.05*math.Cos(x*4.1)))
			p50, p99 := latency*(1+0.15*math.Sin(x/5)), latency*(3+math.Sin(x/9)+0.6*math.Cos(x*2.3))
			if i > 70 && i < 76 {
				p99 *= 4
			}
			all = append(all, operate.Interval{
				From: now.Add(time.Duration(i-120) * 30 * time.Second), Seconds: 30, Relayed: rows, LatencyP50: &p50,
				LatencyP99: &p99,
			})
			relayed += rows
		}
		return all, relayed
	}
	n := func(v int64) *int64 { return &v }
	age := func(v float64) *float64 { return &v }
	orders, ordersRelayed := history(850, 0.009)
	audit, auditRelayed := history(120, 0.006)
	return operate.Report{
		At: now, Table: "shop.outbox_messages", Limit: 10_001, Problems: []string{},
		Destinations: []operate.Destination{
			{
				Name: "orders", Held: n(214), Backlog: operate.Backlog{
					Due: n(231), Retrying: n(2), Scheduled: n(40), Failed: n(3), AtLeast: []string{},
					OldestAgeSeconds: age(312),
					Topics: []operate.Topic{
						{Topic: "order.refunded", Due: 2, Retrying: 2, Failed: 3, OldestAgeSeconds: age(12)},
						{Topic: "order.shipped", Due: 214, OldestAgeSeconds: age(312)},
						{Topic: "order.placed", Due: 15, Scheduled: 40, OldestAgeSeconds: age(0.02)},
					},
				},
				Process: &operate.DestinationProcess{
					Up: true, InFlight: 15, BlockedKeys: 97, Relayed: ordersRelayed, History: orders,
					Reasons: []operate.ReasonRows{{Reason: "retry", Rows: 2}, {Reason: "topology", Rows: 212}},
					Holds: []operate.Hold{{
						Reason: "topology", What: "topic order.shipped", Topics: []string{"order.shipped"},
						Since: now.Add(-312 * time.Second),
						Error: "no stream takes the subject order.shipped: create one, or add the subject to a stream",
					}},
				},
			},
			{
				Name: "audit", Held: n(0), Backlog: operate.Backlog{
					Due: n(4), Retrying: n(0), Scheduled: n(0), Failed: n(0), AtLeast: []string{},
					OldestAgeSeconds: age(0.01),
					Topics:           []operate.Topic{{Topic: "audit.login", Due: 4, OldestAgeSeconds: age(0.01)}},
				},
				Process: &operate.DestinationProcess{
					Up: true, InFlight: 4, Relayed: auditRelayed, History: audit, Reasons: []operate.ReasonRows{},
					Holds: []operate.Hold{},
				},
			},
		},
		Ownership: &operate.Ownership{Shards: 16, Owned: 16, Groups: []operate.Group{}, Replicas: []operate.Replica{
			{Backend: 4711, Shards: 8, Of: 16, CanPublish: true},
			{Backend: 4712, Shards: 8, Of: 16, CanPublish: true},
		}},
		Process: &operate.Process{
			Version: "0.1.0", Commit: "89a37c7d2f1b", StartedAt: now.Add(-26 * time.Hour), Ready: true, Shards: 8,
			InFlight: 19,
			Checks: []operate.Check{
				{Name: "database", OK: true},
				{Name: "table", OK: true},
				{Name: "ownership", OK: true, Text: "relays 8 of 16 shards; replicas: 2"},
				{Name: "destination orders", OK: true, Text: fmt.Sprintf("rows of topic %q are held", "order.shipped")},
				{Name: "destination audit", OK: true},
			},
		},
	}
}

// troubled is a report in which many things are wrong, with as many destinations.
func troubled(now time.Time, destinations int) operate.Report {
	r := anHour(now)
	busy, idle := r.Destinations[1].Process.History, []operate.Interval{}
	n := func(v int64) *int64 { return &v }
	age := func(v float64) *float64 { return &v }
	calm := func(name string, history []operate.Interval) operate.Destination {
		return operate.Destination{
			Name: name, Held: n(0), Backlog: operate.Backlog{
				Due: n(0), Retrying: n(0), Scheduled: n(0), Failed: n(0), AtLeast: []string{}, OldestAgeSeconds: age(0), Topics: []operate.Topic{},
			},
			Process: &operate.DestinationProcess{Up: true, History: history, Reasons: []operate.ReasonRows{}, Holds: []operate.Hold{}},
		}
	}
	down := func(name, reason string) operate.Destination {
		d := calm(name, busy)
		d.Due, d.OldestAgeSeconds, d.Held, d.AtLeast = n(10_001), age(200), n(10_001), []string{"due"}
		d.Process.Up, d.Process.Reason, d.Process.InFlight = false, reason, 1000
		d.Process.Reasons = []operate.ReasonRows{{Reason: "unavailable", Rows: 10_001}}
		d.Topics = []operate.Topic{{Topic: "audit." + strings.Repeat("very_long_name_", 18), Due: 10_001, OldestAgeSeconds: age(200)}}
		return d
	}
	failing := calm("notifications", idle)
	failing.Failed, failing.AtLeast = n(10_001), []string{"failed"}
	failing.Topics = []operate.Topic{{Topic: "order.0", Failed: 9001}, {Topic: "order.1", Failed: 1000}}
	paused := calm("mail", busy)
	paused.Process.Paused, paused.Due, paused.Held = true, n(12), n(12)
	all := []operate.Destination{
		r.Destinations[0], failing, down("audit", "dial tcp 10.244.12.17:5672: connect: connection refused: nothing listens there: check that "+
			"RabbitMQ runs, the port, and OUTBOX_DESTINATION_AUDIT_PUBLISH_URL"), paused, calm("dead-letters", idle),
	}
	all[0].Process.History = append([]operate.Interval(nil), all[0].Process.History...)
	for i := range all[0].Process.History[100:] { // an axis of minutes
		slow := 150.0
		all[0].Process.History[100+i].LatencyP99 = &slow
	}
	for len(all) < destinations {
		all = append(all, calm(fmt.Sprintf("region-%d", len(all)), idle))
	}
	if destinations > 8 {
		all[8] = down("search-index", "no broker answers")
		all[8].BestEffort = true
		r.Untaken = &operate.Backlog{
			Due: n(3), Retrying: n(0), Scheduled: n(0), Failed: n(0), AtLeast: []string{}, OldestAgeSeconds: age(7000),
			Topics: []operate.Topic{{Topic: "refund.created", Due: 3, OldestAgeSeconds: age(7000)}},
		}
	}
	replicas := r.Ownership.Replicas
	replicas[1].CanPublish, replicas[1].CannotPublishTo = false, []string{"audit", "search-index"}
	r.Ownership.Groups = []operate.Group{
		{Destinations: []string{"orders", "notifications", "mail"}, Configured: true, Shards: 16, Owned: 16, Replicas: replicas},
		{Destinations: []string{"audit"}, Column: "audit_relayed_at", Configured: true, Shards: 16, Owned: 16, Replicas: replicas[:1]},
	}
	if destinations > 12 {
		r.Ownership.Groups = append(r.Ownership.Groups, operate.Group{Destinations: []string{"reports"}, Shards: 16, Replicas: []operate.Replica{}})
	}
	if destinations == 1 {
		r.Process.Checks = append(r.Process.Checks, operate.Check{
			Name: "marks", OK: true, Text: "rows that are published or refused and cannot be written now: 1; settle rows: ERROR: not today",
		})
	}
	if r.Destinations = all[:destinations]; destinations == 0 {
		r.Problems = []string{"the table cannot be looked at yet: the checks say why"}
		r.Ownership = nil
	}
	return r
}
