//go:build page

// These tests need Chromium: make page obtains it.

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/outbox-relay/outbox-relay/internal/operate"
)

// TestPageInBrowser tests the page of a real relay: it shows the actual state, does not treat text as markup, fetches
// nothing from other servers, and can be used with a keyboard and with a screen reader.
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
	for _, part := range []string{
		hostile, "Destination default", "Topics of default with failed rows", "topology", "16",
		"rows held: default",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the page does not say %q:\n%s", part, text)
		}
	}
	if strings.Contains(text, "secret-key") || evaluate[int](b, `document.querySelectorAll("main img").length`) != 0 ||
		strings.Contains(evaluate[string](b, "document.title"), "taken") {
		t.Error("a key is shown, or a topic's name was taken for markup")
	}
	t.Logf("first contentful paint after %.0f ms",
		evaluate[float64](b, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))

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

// TestPageColours draws a report of a busy hour in light and dark colours. With -update the pictures in docs are
// written.
func TestPageColours(t *testing.T) {
	t.Parallel()
	addr := serveReport(t, func() operate.Report { return anHour(time.Now()) })
	b := newBrowser(t)
	for _, scheme := range []string{"light", "dark"} {
		b.do(emulation.SetEmulatedMedia().WithFeatures(
			[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
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

// TestPageSizes draws reports with and without trouble, from no destination to twelve, on a telephone and on a desk.
// The worst destination is named beside the title and stands first. With -artifacts the pictures are kept.
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
					b.do(emulation.SetEmulatedMedia().WithFeatures(
						[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
						emulation.SetDeviceMetricsOverride(width, 900, 1, width < 500))
					b.open(addr)
					b.check(name)
					if got := evaluate[string](b, `document.getElementById("state").textContent`); got != c.state {
						t.Errorf("%s: the state is %q", name, got)
					}
					if got := evaluate[string](b,
						`(document.querySelector(".overview tbody a") || {}).textContent || ""`); got != c.first {
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

// TestPageBestEffort marks the best-effort destinations, in the overview and on their cards. Such a destination is a
// warning when its broker is away, and comes after those that the relay needs.
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
	if got := evaluate[[]string](b, states); len(got) != 2 ||
		!strings.HasPrefix(got[0], "search-index best effort down") ||
		!strings.HasPrefix(got[1], "dead-letters up") {
		t.Errorf("the overview is %q", got)
	}
	if got := evaluate[string](b,
		`document.querySelector("#destination-search-index h2").textContent`); !strings.Contains(got, "best effort") {
		t.Errorf("the card's heading is %q", got)
	}
	if got := evaluate[string](b,
		`document.getElementById("state").textContent + "/" + document.getElementById("state").className`); got !=
		"down: search-index/state warn" {
		t.Errorf("the state is %q", got)
	}
	b.check("best effort")
}
